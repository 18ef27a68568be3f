// SPDX-License-Identifier: BSD-3-Clause
// offloader_runs.cpp: the ladder down from a plan that does not work: the same again, less memory,
// fewer devices, the CPU; and the books of what ran. It only passes addresses on.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "backend/cpu_beside.hpp"
#include "base/clock.hpp"
#include "core/cpu_path.hpp"
#include "core/offloader.hpp"
#include "recover/recover.hpp"
#include "tune/limits.hpp"

namespace fleet {
namespace {

constexpr int kTimesHalved = 4;

DataType type_of(const Problem& problem) { return problem.type; }
DataType type_of(const Offloader::ProgramPtr& program) {
  return program->calls.front().problem.type;
}

}  // namespace

template <class What>
std::shared_ptr<const Planned> Offloader::plan_if_possible(const What& what) {
  try {
    return plan(what);
  } catch (const Error& error) {
    if (error.status() == Status::internal) throw;
  } catch (const std::length_error&) {
    // Larger than any vector of tasks.
  }
  return nullptr;
}

Offloader::Outcome Offloader::run(const Problem& problem, const Arguments& arguments,
                                  std::shared_ptr<const Planned> planned, DeviceUse& use,
                                  CallRecord& record, Journal& journal, const Log& log) {
  const Computing computing;
  auto begun = begin(problem, {&arguments, 1}, std::move(planned), &use, record, log);
  if (!begun) return Outcome::not_possible;
  return past_first_write(
      [&] { return complete(&problem, std::move(*begun), computing, &use, record, journal, log); });
}

Offloader::Outcome Offloader::run(const ProgramPtr& program, std::span<const Arguments> arguments,
                                  std::shared_ptr<const Planned> planned, CallRecord& record,
                                  Journal& journal, const Log& log) {
  const Computing computing;
  auto begun = begin(program, arguments, std::move(planned), nullptr, record, log);
  if (!begun) return Outcome::not_possible;
  record.predicted_s = begun->planned->tuned.cost.seconds;
  return past_first_write([&] {
    return complete(nullptr, std::move(*begun), computing, nullptr, record, journal, log);
  });
}

Offloader::Begun Offloader::begin_once(std::span<const Arguments> arguments,
                                       std::shared_ptr<const Planned> planned,
                                       const KeptSlots& slots) {
  const double start_s = now_s();
  const Plan& plan = planned->tuned.plan;
  Binding binding = bind(*plan.program, arguments);
  binding.slots = slots;
  Backend& backend = *engine().backend;
  if (learns_) backend.keep_times(wants_task_times(*planned->evidence));
  auto run = backend.begin(plan, binding, planned->serial);
  return {std::move(planned), std::move(binding), std::move(run), start_s, again_.is_busy()};
}

Offloader::Outcome Offloader::run(std::span<const Arguments> arguments,
                                  std::shared_ptr<const Planned> planned, const KeptSlots& slots,
                                  CallRecord& record, Journal& journal, const Log& log) {
  const Computing computing;
  std::optional<Begun> begun;
  try {
    begun = begin_once(arguments, std::move(planned), slots);
  } catch (const Error& error) {
    if (error.status() == Status::internal) throw;
    log.line(Log::kWarning, {error.what(), "; trying with all matrices at home"});
    return Outcome::not_possible;
  }
  record.predicted_s = begun->planned->tuned.cost.seconds;
  return past_first_write([&] {
    return complete(nullptr, std::move(*begun), computing, nullptr, record, journal, log);
  });
}

template <class What>
std::optional<Offloader::Begun> Offloader::begin(const What& what,
                                                 std::span<const Arguments> arguments,
                                                 std::shared_ptr<const Planned> planned,
                                                 DeviceUse* use, CallRecord& record,
                                                 const Log& log) {
  const char* refusal = "no memory on the devices";
  for (int attempt = 0; planned != nullptr; ++attempt) {
    try {
      Begun begun = begin_once(arguments, planned, {});
      if (const Plan& plan = planned->tuned.plan; plan.tuning.has_cpu()) {
        begun.run = with_lane(plan, std::move(begun.run));
        if (begun.run == nullptr) {
          if (use != nullptr) use->become_sole();  // the next plan may be for any device
          planned = plan_if_possible(what);
          continue;
        }
      }
      return begun;
    } catch (const Error& error) {
      if (error.status() == Status::internal) throw;
      const bool no_memory = error.status() == Status::no_memory;
      log.line(Log::kWarning,
               {error.what(), no_memory ? "; trying with less" : "; left to the CPU"});
      if (!no_memory) refusal = "the devices do not work";
      if (no_memory && use != nullptr) use->become_sole();  // no run may lose its memory
      planned = no_memory ? smaller(what, planned, attempt) : nullptr;
    }
  }
  record.reason = refusal;
  return std::nullopt;
}

std::unique_ptr<Execution> Offloader::with_lane(const Plan& plan, std::unique_ptr<Execution> run) {
  const auto threads = static_cast<int>(std::lround(plan.tuning.cpu_part * cores_));
  try {
    if (lane_ == nullptr) lane_ = std::make_unique<CpuLane>(blas_);
    return beside_cpu(plan, std::move(run), *lane_, std::max(1, threads));
  } catch (const Error& error) {
    if (error.status() != Status::no_memory) throw;
  }
  // Less memory for the devices would not help: the devices compute all of it from now on.
  has_no_lane_ = true;
  forget_plans();
  return nullptr;
}

Offloader::Outcome Offloader::complete(const Problem* problem, Begun begun,
                                       const Computing& computing, DeviceUse* use,
                                       CallRecord& record, Journal& journal, const Log& log) {
  const Plan& plan = begun.planned->tuned.plan;
  Trace trace;
  {
    const DeviceUse::Pause pause(use);
    trace = fleet::complete(plan, begun.binding, *begun.run);
  }
  note_outcome(trace, log);
  const bool whole = trace.status == Status::ok;
  if (!whole) {
    log.line(Log::kWarning, {trace.message, "; finishing on the CPU"});
    std::optional<CpuBlas::Lease> lease;
    lease_if_possible(lease, *blas_, cores_);
    recover({plan, begun.binding, trace, *begun.run}, lost_, *engine().backend, *blas_);
  }
  keep_books(*begun.planned, trace, record);
  const auto machine = online_.machine();  // that predicted the run
  if (whole && learns_ && problem != nullptr && computing.alone() &&
      !(begun.is_beside_search && takes_cores(*problem, plan)))
    learn(*problem, *begun.planned, trace, log);
  if (begun.planned->left_out != nullptr) note_unused_devices();
  record.corrections = online_.corrections();
  try {
    auto kept = std::make_shared<const Trace>(std::move(trace));
    journal.note(RunRecord{std::move(begun.planned), machine, std::move(kept), begun.start_s});
  } catch (const std::bad_alloc&) {
    // C is complete: a lost timeline is no error.
  }
  return whole ? Outcome::done : Outcome::finished_on_cpu;
}

/// Does a run take cores for more than handing tasks over?
bool Offloader::takes_cores(const Problem& problem, const Plan& plan) const {
  return options_.backend == BackendKind::host || plan.tuning.has_cpu() ||
         std::ranges::any_of(problem.operands,
                             [](const Operand& operand) { return operand.home == kPageable; });
}

void Offloader::keep_books(const Planned& planned, const Trace& trace, CallRecord& record) {
  const Plan& plan = planned.tuned.plan;
  const auto machine = model();
  record.workers = plan.tuning.places();
  record.cpu_share = planned.cpu_share;
  record.tile = plan.tuning.tile;
  record.left_out = planned.left_out;
  try {
    add_bytes(record, *machine, moved_bytes(plan, *machine, trace));
  } catch (const std::bad_alloc&) {
    // As above: the call is done.
  }
}

void Offloader::note_unused_devices() noexcept {
  try {
    if (learns_ && online_.forgets_after_unused()) forget_plans();
  } catch (const std::bad_alloc&) {
    // Later then.
  }
}

void Offloader::learn(const Problem& problem, const Planned& planned, const Trace& trace,
                      const Log& log) noexcept {
  if (planned.priced_for != online_.version()) return;  // an earlier part of this call taught it
  try {
    const std::uint64_t before = online_.version();
    if (online_.outdates(planned, trace))
      planned.part.empty() ? cache_.erase(problem) : parts_.erase({problem, planned.part});
    if (online_.version() != before && online_.corrections() != nullptr)
      log.line(Log::kInfo, {"runs correct the model: ", to_text(*online_.corrections())});
  } catch (const std::exception&) {
    // Nothing was learnt.
  }
}

template <class What>
std::shared_ptr<const Planned> Offloader::smaller(const What& what,
                                                  const std::shared_ptr<const Planned>& last,
                                                  int attempt) {
  give_back(attempt);
  if (attempt == 0) return last;
  calls_with_less_ = 1;
  forget_plans();
  if (attempt <= kTimesHalved) {
    halve_caps();
    if (auto planned = plan_if_possible(what)) return planned;
  }
  const auto devices = static_cast<int>(workers(type_of(what)).size());
  if (devices <= 1) return nullptr;
  most_workers_ = devices / 2;
  return plan_if_possible(what);
}

/// After memory ran out for the `attempt`-th time: what others and pools have.
void Offloader::give_back(int attempt) {
  if (relief_) relief_(attempt);
  engine().backend->trim();
}

void Offloader::halve_caps() {
  Backend& backend = *engine().backend;
  for (std::size_t d = 0; d < caps_.size(); ++d) {
    const auto free = static_cast<double>(backend.available_bytes(static_cast<DeviceId>(d)));
    caps_[d] = std::min(caps_[d] / 2, static_cast<std::int64_t>(limits::kMemoryShare * free));
  }
}

void Offloader::note_outcome(const Trace& trace, const Log& log) {
  if (trace.lost >= 0) note_lost(trace.lost, log);
}

CallRecord Offloader::traffic_of(const Plan& plan, const Trace& trace) {
  CallRecord record;
  const auto machine = model();
  add_bytes(record, *machine, moved_bytes(plan, *machine, trace));
  return record;
}

void Offloader::note_lost(DeviceId device, const Log& log) {
  if (is_lost(device)) return;
  lost_.push_back(device);  // there is room for every device
  forget_plans();
  log.line(Log::kWarning, {"device ", place_of(device), " was lost and is not used any more"});
}

}  // namespace fleet
