// SPDX-License-Identifier: BSD-3-Clause
// context_ahead.cpp: what the next program is likely to be, and to find on the devices, while one
// runs. A wrong guess costs nothing but the time of a thread.
#include <algorithm>
#include <chrono>

#include "core/context.hpp"

namespace fleet {
namespace {

using namespace std::chrono_literals;

// Calls that follow each other within a look belong together.
constexpr auto kLook = 200us;

/// Waits until nothing was queued between two looks, and something since `known`. False: the run is
/// over.
bool wait_for_calls(const CallQueue& queue, std::uint64_t& known, PlanAhead::Run& run) {
  for (std::uint64_t before = known; run.wait_for(kLook);) {
    const std::uint64_t now = queue.pushes();
    if (now == before && now != known) {
      known = now;
      return true;
    }
    before = now;
  }
  return false;
}

}  // namespace

/// With the turn, which the caller keeps until end_ahead().
void Context::begin_ahead(const std::shared_ptr<const Planned>& running, PlacedProgram placed,
                          std::span<const QueuedCall> calls) {
  if (offloader_.goal().own) return;  // the caller's function is called by threads that it knows
  const std::vector<QueuedCall> under_way(calls.begin(), calls.end());
  auto known = std::make_shared<std::uint64_t>(~std::uint64_t{0});
  ahead_.begin([this, running, placed = std::move(placed), under_way, known,
                planner = offloader_.program_planner(running->tuned.plan.problem()),
                tiles = all_tiles()](PlanAhead::Run& run) {
    std::unique_ptr<PlanAhead::Draft> draft;
    while (draft == nullptr && wait_for_calls(queue_, *known, run)) {
      try {
        draft = draft_next(*running, placed, under_way, planner, tiles);
      } catch (const std::exception&) {
        // They will be planned in their turn, and fail there.
      }
    }
    return draft;
  });
}

/// Nothing where there are no calls, or where they find what nobody can know yet.
std::unique_ptr<PlanAhead::Draft> Context::draft_next(const Planned& running,
                                                      const PlacedProgram& placed,
                                                      std::span<const QueuedCall> under_way,
                                                      const ProgramPlanner& planner,
                                                      const AllTiles& tiles) {
  const std::vector<QueuedCall> calls = queue_.next_after(under_way);
  const JoinedCalls joined = join(
      calls,
      [this](const Call& call) {
        require_defined(call);
        return locate(call);
      },
      [&](const Call& call, const Problem& problem) { return cuts_of(call, problem, tiles); });
  if (joined.arguments.empty()) return nullptr;
  const PlacedProgram next = this->placed(joined);
  const auto before = residents_.after(running.tuned.plan, placed, next);
  if (!before) return nullptr;
  auto draft = std::make_unique<PlanAhead::Draft>();
  draft->key = key_of(*next.program, *before);
  draft->planned = planner.plan(next.program, *before);
  for (std::size_t i = 0; i < joined.count; ++i) draft->events.push_back(calls[i].event);
  return draft;
}

/// With the turn. The plan waits in the cache for its calls.
void Context::end_ahead() noexcept {
  ahead_.end();
  auto draft = ahead_.take();
  if (draft == nullptr) return;
  try {
    offloader_.adopt(draft->key, std::move(draft->planned));
    drafted_ = std::move(draft->events);
  } catch (const std::exception&) {
    // They are planned in their turn.
  }
}

/// How many of the calls to join: those that were planned ahead, if they are the next.
std::size_t Context::drafted(std::span<const QueuedCall> calls) {
  const auto events = std::exchange(drafted_, {});
  const bool are_next =
      !events.empty() && events.size() <= calls.size() &&
      std::ranges::equal(events, calls.first(events.size()), {}, {}, &QueuedCall::event);
  return are_next ? events.size() : calls.size();
}

}  // namespace fleet
