// SPDX-License-Identifier: BSD-3-Clause
// tune_program.cpp: the sets of workers, grids and groups that are tried for several calls. Pure.
#include "tune/tune_program.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/sizes.hpp"
#include "machine/corrections.hpp"
#include "sim/simulate.hpp"
#include "tune/candidates.hpp"
#include "tune/lasting.hpp"
#include "tune/limits.hpp"
#include "tune/teams.hpp"

namespace fleet {
namespace {

class ProgramTuner {
 public:
  ProgramTuner(std::shared_ptr<const TileProgram> program, const Machine& machine,
               const TuneRequest& request, const Residency& before)
      : machine_(machine),
        request_(request),
        before_(before),
        program_(std::move(program)),
        largest_(largest_of(*program_)),
        base_(base_tuning(largest_, machine, request)) {
    // A late C is added to products that were summed up without it, which rounds otherwise than
    // going on in a slot that has it; and which of both a call does depends on its company.
    base_.rules = base_.rules.without(Rule::lazy);
    tuned_.search.objective = request.goal.objective;
  }

  Tuned run();

 private:
  static const Problem& largest_of(const TileProgram& program);
  std::int64_t longest_edge() const;
  std::int64_t longest_tile() const;
  void attempt_owners();
  void attempt_team(const Team& team);
  void attempt_groups();
  void attempt_smaller(Tuning tuning);
  Dealing deal(const ProgramCall& call, const Tuning& tuning) const;
  enum class Outcome { refused, full, planned };
  Outcome attempt(const Tuning& tuning);
  bool is_better(const Considered& c) const;

  const Machine& machine_;
  const TuneRequest& request_;
  const Residency& before_;
  const std::shared_ptr<const TileProgram> program_;
  const Problem& largest_;
  Tuning base_;
  Tuned tuned_;
  std::optional<std::size_t> best_;  ///< in the list of candidates
  double least_s_ = kNever;
  std::int64_t spent_ = 0;
  Error refusal_{Status::no_memory, "the memory caps do not hold the tiles of the program"};
};

/// The call with most arithmetic stands for all where devices are chosen.
const Problem& ProgramTuner::largest_of(const TileProgram& program) {
  return std::ranges::max_element(program.calls, {},
                                  [](const ProgramCall& call) { return flops(call.problem); })
      ->problem;
}

std::int64_t ProgramTuner::longest_edge() const {
  std::int64_t longest = 1;
  for (const ProgramCall& call : program_->calls)
    longest = std::max({longest, call.problem.m, call.problem.n});
  return longest;
}

std::int64_t ProgramTuner::longest_tile() const {
  std::int64_t longest = 1;
  for (const ProgramCall& call : program_->calls)
    longest = std::max({longest, longest_piece(call.cuts.m), longest_piece(call.cuts.n),
                        longest_piece(call.cuts.k)});
  return longest;
}

/// Owners::cyclic_2d stands for the owners of distributed results, where their grid is the
/// tuning's; other results are dealt in blocks.
Dealing ProgramTuner::deal(const ProgramCall& call, const Tuning& tuning) const {
  const auto& target = program_->matrices[static_cast<std::size_t>(call.target())].distribution;
  const bool is_owners = tuning.owners == Owners::cyclic_2d && target &&
                         target->grid == tuning.grid && target->devices == tuning.workers;
  Tuning blocks = tuning;
  blocks.owners = Owners::blocks;
  return is_owners ? deal_to_owners(call.problem, call.cuts, blocks, *target)
                   : deal_tiles(call.problem, call.cuts, blocks);
}

/// Has some device no room for one more tile? Then copies may have left before their last use.
bool is_full(const Plan& plan) {
  for (std::size_t d = 0; d < plan.slots.size() && d < plan.tuning.memory_cap.size(); ++d) {
    std::int64_t bytes = plan.arena_bytes[d], largest = 0;
    for (const Slot& slot : plan.slots[d]) {
      if (slot.outlives_plan()) bytes += slot.bytes;
      largest = std::max(largest, slot.bytes);
    }
    if (bytes + largest > plan.tuning.memory_cap[d]) return true;
  }
  return false;
}

/// Plans and simulates a candidate. Refused: it does not fit into memory or lacks a route.
ProgramTuner::Outcome ProgramTuner::attempt(const Tuning& tuning) {
  Considered c{.tuning = tuning};
  try {
    std::vector<Dealing> deals;
    for (const ProgramCall& call : program_->calls) deals.push_back(deal(call, tuning));
    Plan plan = schedule(program_, deals, machine_, tuning, before_);
    std::int64_t rates_given = 0;
    const Trace trace = simulate(plan, machine_, &rates_given);
    const Cost cost = cost_of(plan, machine_, trace);
    c.seconds = trace.seconds;
    c.joules = request_.goal.is_time() ? 0 : cost.joules;
    c.value = request_.goal.value(cost);
    c.tasks = std::ssize(plan.tasks);
    c.effort = std::max(c.tasks, rates_given / limits::kRatesOfTask);
    spent_ += c.effort;
    least_s_ = std::min(least_s_, c.seconds);
    ++tuned_.planned;
    const Outcome outcome = is_full(plan) ? Outcome::full : Outcome::planned;
    if (is_better(c)) {
      best_ = tuned_.search.list.size();
      tuned_.plan = std::move(plan);
      tuned_.cost = cost;
    }
    tuned_.search.list.push_back(std::move(c));
    return outcome;
  } catch (const Error& error) {
    if (error.status() != Status::no_memory && error.status() != Status::unreachable) throw;
    refusal_ = error;
    c.refusal = error.what();
    tuned_.search.pass_over(std::move(c), Considered::Verdict::refused);
    return Outcome::refused;
  }
}

bool ProgramTuner::is_better(const Considered& c) const {
  if (!best_) return true;
  const Considered& best = tuned_.search.list[*best_];
  const double most_s =
      request_.goal.is_time() ? kNever : request_.goal.objective.most_time * least_s_;
  if ((c.seconds > most_s) != (best.seconds > most_s)) return best.seconds > most_s;
  // A result that is not where it belongs has to travel sooner or later.
  const bool leaves_owners =
      best.tuning.owners == Owners::cyclic_2d && c.tuning.owners != Owners::cyclic_2d;
  return c.value < best.value * (leaves_owners ? 1 - limits::kWorthLeavingOwners : 1.0);
}

// Results where they belong, for each way in which some are distributed.
void ProgramTuner::attempt_owners() {
  std::vector<Distribution> known;
  for (const ProgramCall& call : program_->calls) {
    const auto& target = program_->matrices[static_cast<std::size_t>(call.target())].distribution;
    if (!target) continue;
    const bool is_usable = std::ranges::all_of(target->devices, [&](DeviceId device) {
      return std::ranges::count(base_.workers, device) > 0;
    });
    const bool is_known = std::ranges::any_of(known, [&](const Distribution& other) {
      return other.grid == target->grid && other.devices == target->devices;
    });
    if (!is_usable || is_known) continue;
    known.push_back(*target);
    Tuning tuning = base_;
    tuning.workers = target->devices;
    tuning.grid = target->grid;
    tuning.owners = Owners::cyclic_2d;
    tuning.tile = longest_tile();
    if (attempt(tuning) == Outcome::refused) attempt_smaller(tuning);
  }
}

// All grids of a set of workers, in core, else in the largest groups of tiles that fit.
void ProgramTuner::attempt_team(const Team& team) {
  const int workers = static_cast<int>(team.size());
  std::vector<Grid> grids = grids_of(workers);
  if (request_.grid.rows * request_.grid.cols == workers)
    grids = {request_.grid};
  else if (!base_.rules.has(Rule::grid))
    grids = {near_square_grid(workers)};
  for (const Grid& grid : grids) {
    Tuning tuning = base_;
    tuning.workers = team;
    tuning.grid = grid;
    tuning.tile = longest_tile();  // no more than a name: tiles are given
    const Outcome whole = attempt(tuning);
    // In a full device copies leave and come again, which may be slower than groups.
    if (whole == Outcome::refused || (whole == Outcome::full && before_.empty()))
      attempt_smaller(tuning);
  }
}

// The largest groups of tiles that fit. Where tiles lie on devices, copies leave beside them, and
// else each call has the slots of a device for itself. Results that stay need their memory in any
// groups.
void ProgramTuner::attempt_smaller(Tuning tuning) {
  const bool all_stay = std::ranges::all_of(program_->calls, [&](const ProgramCall& call) {
    return program_->matrices[static_cast<std::size_t>(call.target())].stays;
  });
  if (!base_.rules.has(Rule::outofcore) || (all_stay && !before_.empty())) return;
  if (before_.empty()) tuning.out_of_core = OutOfCore::stationary;
  for (std::int64_t pieces = before_.empty() ? 1 : 2; pieces <= limits::kMostPieces;
       pieces += std::max<std::int64_t>(1, pieces / 2)) {
    tuning.group = ceil_div(longest_edge(), pieces);
    if (attempt(tuning) != Outcome::refused) break;
    if (tuning.group <= limits::kLeastTile) break;
  }
}

// The best plans in core with the tiles of each call in groups that are computed one after another,
// so that the first of them go home, and are fetched, while others are computed.
void ProgramTuner::attempt_groups() {
  std::vector<const Considered*> best;
  for (const Considered& c : tuned_.search.list)
    if (c.is_planned() && c.tuning.group == 0) best.push_back(&c);
  std::ranges::stable_sort(best, {}, &Considered::value);
  std::vector<Tuning> tunings;
  for (const Considered* c : best)
    if (tunings.size() < limits::kMostGrouped) tunings.push_back(c->tuning);
  for (const limits::Groups& groups : limits::kGroups)
    for (Tuning tuning : tunings) {
      tuning.group = ceil_div(longest_edge(), groups.cols);
      if (groups.rows == 1) tuning.group_m = longest_edge();
      attempt(tuning);
    }
}

Tuned ProgramTuner::run() {
  attempt_owners();
  attempt_team(base_.workers);
  const std::int64_t whole = std::max(limits::kMostTasks, 2 * spent_);
  if (request_.selects)
    for (const Team& team : teams(largest_, machine_, base_.workers, request_.goal)) {
      if (spent_ > whole) break;
      if (team != base_.workers) attempt_team(team);
    }
  if (!best_) throw refusal_;
  if (base_.rules.has(Rule::order)) attempt_groups();
  tuned_.cost.source = CostSource::predicted;
  tuned_.search.choose(*best_, machine_.issue_s);
  return std::move(tuned_);
}

}  // namespace

RegularTiles regular_tiles(const Machine& corrected, Storage storage, std::int64_t tile) {
  // By the rates as they were measured: tiles must not change with what runs teach.
  Machine devices;
  devices.devices = corrected.devices;
  const Machine machine = uncorrected(std::move(devices));
  RegularTiles tiles{.devices = machine.device_count(), .tile = tile};
  const DataType type{.storage = storage};
  const auto is_fast = [&](DeviceId d, std::int64_t edge) {
    const auto e = static_cast<double>(edge);
    const double flops = (is_complex(storage) ? 8 : 2) * e * e * e;
    return flops >= limits::kFastEnough * machine.best_rate(d, type) *
                        machine.multiply_s(d, type, edge, edge, edge);
  };
  for (DeviceId d = kFirstDevice; d < std::ssize(machine.devices); ++d)
    while (machine.can_compute(d, type) && tiles.least < limits::kLargestTile / 2 &&
           !is_fast(d, tiles.least))
      tiles.least *= 2;
  tiles.most = std::max(tiles.least, tiles.most);
  return tiles;
}

Tuned tune_program(std::shared_ptr<const TileProgram> program, const Machine& machine,
                   const TuneRequest& request, const Residency& before) {
  return tuned_for_lasting(machine, [&](const Machine& lasting) {
    return ProgramTuner(program, lasting, request, before).run();
  });
}

Tuned tune_program(const Composition& composition, const Machine& machine,
                   const TuneRequest& request) {
  const Storage storage = composition.calls.front().problem.type.storage;
  auto program = std::make_shared<const TileProgram>(
      expand(composition, regular_tiles(machine, storage, request.tile)));
  const Residency before = at_owners(*program);
  return tune_program(std::move(program), machine, request, before);
}

}  // namespace fleet
