// SPDX-License-Identifier: BSD-3-Clause
// tune.cpp: plans and simulates the best few candidates, then variants of the best. Pure: the
// budget is counted in tasks, not in seconds.
#include "tune/tune.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "base/error.hpp"
#include "base/sizes.hpp"
#include "program/decompose.hpp"
#include "sim/simulate.hpp"
#include "tune/attempts.hpp"
#include "tune/candidates.hpp"
#include "tune/choice.hpp"
#include "tune/cpu_share.hpp"
#include "tune/fits.hpp"
#include "tune/lasting.hpp"
#include "tune/limits.hpp"
#include "tune/preset.hpp"
#include "tune/team_search.hpp"
#include "tune/teams.hpp"
#include "tune/uneven_parts.hpp"

namespace fleet {
namespace {

using Verdict = Considered::Verdict;

constexpr std::int64_t kNoEnd = INT64_MAX;

class Tuner {
 public:
  Tuner(const Problem& problem, const Machine& machine, const TuneRequest& request)
      : problem_(problem),
        machine_(machine),
        request_(request),
        base_(base_tuning(problem, machine, request)),
        choice_(problem, machine, request.goal) {}

  Tuned run();

 private:
  Tuned trivial();
  using List = decltype(candidates);
  std::vector<Considered> listed(const Team& team, List* list = candidates) const;
  void attempt_list(std::vector<Considered> list);
  void attempt_variants(const Team& team, std::int64_t for_groups);
  void attempt_parts_of_k(const Team& team);
  void attempt_ramps(const Team& team);
  void attempt_both_sides(const Team& team, const Considered& ungrouped);
  void attempt_shared();
  void attempt_cpu();
  void balance_cpu(const Considered& without, double alone_s, std::int64_t end);
  std::vector<Considered> in_groups(const std::vector<Considered>& ungrouped_ones,
                                    std::span<const limits::Groups> all) const;
  void attempt_all(std::vector<Considered> list, std::int64_t end);
  void attempt_inputs_first(const Team& team, const std::vector<Considered>& ungrouped_ones,
                            std::int64_t end);
  void attempt_smaller_tiles(const Team& team, std::int64_t end);
  std::vector<Considered> of_other_edges(const Team& team,
                                         const std::vector<Considered>& these) const;
  std::optional<Tuning> grouped(Tuning tuning, const limits::Groups& groups) const;
  std::int64_t outer_size() const { return problem_.side == Side::left ? problem_.n : problem_.m; }

  const Problem& problem_;
  const Machine& machine_;
  const TuneRequest& request_;
  const Tuning base_;  ///< of all workers
  Choice choice_;
  Budget budget_{0};
  Attempts attempts_{choice_, budget_, request_.gives_up};
  UnevenParts uneven_parts_{problem_, machine_, request_, attempts_};
  TeamSearch team_search_{
      attempts_, base_.workers, [this](const Team& team) { return listed(team); },
      [this](const Team& team, std::int64_t for_groups) { attempt_variants(team, for_groups); }};
};

// Without a product, C is scaled at its home, or left as it is.
Tuned Tuner::trivial() {
  const DeviceId home = problem_.operands[kC].home;
  Tuning t = base_;
  t.workers = {on_host(home) ? kHost : home};
  t.grid = {1, 1};
  t.tile = std::max<std::int64_t>({1, problem_.m, problem_.n});
  if (attempts_.attempt({.tuning = std::move(t)}) == nullptr) throw choice_.refusal();
  return choice_.take();
}

/// What `list` has for a team: its candidates, the most promising first, or some others.
std::vector<Considered> Tuner::listed(const Team& team, List* list) const {
  Tuning base = base_;
  base.workers = team;
  const Estimator estimator(problem_, machine_, team);
  return list(problem_, machine_, request_, base, estimator);
}

// Plans candidates while the budget lasts, and at least one of each out-of-core mode.
void Tuner::attempt_list(std::vector<Considered> list) {
  attempts_.expect(list, limits::kForTiles(budget_.whole()));
  bool seen[3] = {};
  for (Considered& c : list) {
    bool& mode = seen[static_cast<std::size_t>(c.tuning.out_of_core)];
    const std::int64_t left = limits::kForTiles(budget_.whole()) - budget_.spent();
    if (choice_.planned() >= limits::kMostPlanned)
      choice_.pass_over(std::move(c), Verdict::enough_plans, choice_.planned());
    else if (choice_.planned() > 0 && mode && c.tasks > left)
      choice_.pass_over(std::move(c), Verdict::over_budget, left);
    else
      mode |= attempts_.attempt(std::move(c)) != nullptr;
  }
}

// Variants of the fastest plans of a team: halved first steps, other shares and edges, and where
// these do not leave the team far behind, groups, one chain for both sides of C, and results that
// wait for inputs.
void Tuner::attempt_variants(const Team& team, std::int64_t for_groups) {
  if (!request_.quick && team.size() <= limits::kMostEnumerated) attempt_parts_of_k(team);
  if (base_.rules.has(Rule::tile)) attempt_ramps(team);
  std::vector<Considered> to_group = choice_.best(limits::kMostGrouped, &team);
  // Where A is triangular, groups gain more than shares, so these are tried with them.
  const bool shares_last = problem_.traits().triangular;
  if (!shares_last) {
    uneven_parts_.attempt(team);
    const Considered best = choice_.best(1, &team).front();
    if (choice_.rank(best) > within(limits::kHopelessTeam, choice_.least())) return;
    if (choice_.rank(best) < choice_.rank(to_group.front())) {
      to_group.insert(to_group.begin(), best);
      to_group.resize(std::min(to_group.size(), limits::kMostGrouped));
    }
  }
  const bool orders = base_.rules.has(Rule::order);
  if (orders) {
    std::vector<Considered> list = in_groups(to_group, limits::kGroups);
    for (Considered& c : in_groups(of_other_edges(team, to_group), limits::kGroups))
      list.push_back(std::move(c));
    attempt_all(std::move(list), budget_.spent() + for_groups);
  }
  attempt_both_sides(team, to_group.front());
  if (orders)
    attempt_inputs_first(team, to_group,
                         budget_.spent() + limits::kForInputsFirst(budget_.whole()));
  if (shares_last) uneven_parts_.attempt(team);
}

/// Beside a triangular A, the fastest with tiles of A of each of a few edges that none of these has
/// and that are not far behind: with long tiles of A groups gain most.
std::vector<Considered> Tuner::of_other_edges(const Team& team,
                                              const std::vector<Considered>& these) const {
  std::vector<Considered> found;
  if (!problem_.traits().triangular) return found;
  for (Considered& c : choice_.best(static_cast<std::size_t>(choice_.planned()), &team)) {
    const auto is_alike = [&](const Considered& other) {
      return other.tuning.edge_m() == c.tuning.edge_m();
    };
    const bool is_near = choice_.rank(c) <= within(limits::kOtherEdge, choice_.least());
    if (is_near && found.size() < limits::kMostOtherEdges &&
        std::ranges::none_of(these, is_alike) && std::ranges::none_of(found, is_alike))
      found.push_back(std::move(c));
  }
  return found;
}

Tuned Tuner::run() {
  if (problem_.k == 0 || problem_.m == 0 || problem_.n == 0) return trivial();
  std::vector<Considered> list = listed(base_.workers);
  budget_ = Budget(list.empty() ? 0 : list.front().estimate_s, request_.quick ? limits::kQuick : 1);
  if (budget_.whole() >= limits::kWorthHelpers) choice_.helpers().use(request_.helpers);
  attempt_list(std::move(list));
  if (choice_.planned() == 0) throw choice_.refusal();
  const std::int64_t for_groups =
      std::max(budget_.whole() - budget_.spent(), limits::kForGroups(budget_.whole()));
  attempt_variants(base_.workers, for_groups);
  const bool selects = request_.selects && !request_.quick &&
                       request_.grid.rows * request_.grid.cols != std::ssize(base_.workers);
  if (selects) team_search_.search(teams(problem_, machine_, base_.workers, Goal{}));
  // What another goal chooses is at least as good as what is fastest, which has just been found.
  choice_.rank_by_goal();
  if (selects && !request_.goal.is_time())
    team_search_.search(teams(problem_, machine_, base_.workers, request_.goal));
  team_search_.pass_over_rest();
  attempt_shared();
  attempt_cpu();
  return choice_.take();
}

void Tuner::attempt_parts_of_k(const Team& team) {
  std::vector<Considered> list = listed(team, few_tiles_of_parts);
  attempts_.expect(list, kNoEnd);
  for (Considered& c : list) attempts_.attempt(std::move(c));
}

// No device multiplies until the first tiles arrive: 6 of 92 ms (16384 from the host, two H200).
// Half types round C at each step, so they get no extra steps.
void Tuner::attempt_ramps(const Team& team) {
  if (is_half(problem_.type.storage) || request_.tile > 0 || problem_.traits().has_side()) return;
  std::vector<Considered> ramped = choice_.best_of_grids(limits::kMostRamped, team);
  std::erase_if(ramped,
                [](const Considered& c) { return c.tuning.out_of_core == OutOfCore::cube; });
  for (Considered& c : ramped) c.tuning.ramp = limits::kRamp;
  attempts_.expect(ramped, kNoEnd);
  for (Considered& c : ramped) attempts_.attempt(std::move(c));
}

// A tile that is a factor on both sides of C would else come from the host a second time where that
// is sooner than from a device, and take the host's memory from others.
void Tuner::attempt_both_sides(const Team& team, const Considered& ungrouped) {
  if (!base_.rules.has(Rule::batching) || team.size() < 2 || !problem_.traits().by_itself) return;
  std::vector<Considered> list = choice_.best(limits::kMostBothSides, &team);
  if (std::ranges::find(list, ungrouped.tuning, &Considered::tuning) == list.end())
    list.push_back(ungrouped);
  for (Considered& c : list) c.tuning.both_sides = true;
  attempts_.expect(list, kNoEnd);
  for (Considered& c : list) attempts_.attempt(std::move(c));
}

// The best plans, and the best on all workers, with operands in place that lie in memory which
// devices share with the host; also without cuts, which serve nothing where nothing has to arrive.
void Tuner::attempt_shared() {
  std::vector<Considered> plans = choice_.best(limits::kMostInPlace);
  for (Considered& c : choice_.best(limits::kMostInPlace, &base_.workers))
    if (std::ranges::find(plans, c.tuning, &Considered::tuning) == plans.end())
      plans.push_back(std::move(c));
  for (const Considered& best : plans) {
    const std::optional<Tuning> in_place = shared(best.tuning, problem_, machine_, request_);
    if (!in_place) continue;
    attempts_.attempt({.tuning = *in_place, .estimate_s = best.estimate_s, .tasks = best.tasks});
    if (request_.tile > 0 || has_square_tiles(problem_)) continue;
    Tuning whole = *in_place;
    whole.tile = std::max({problem_.m, problem_.n, problem_.k});
    whole.tile_m = whole.tile_k = whole.group = whole.group_m = 0;
    whole.ramp = 0;
    whole.row_tiles.clear();
    whole.col_tiles.clear();
    attempts_.attempt(
        {.tuning = std::move(whole), .estimate_s = best.estimate_s, .tasks = best.tasks});
  }
}

// The CPU beside the devices of the best plans (paper 3, section III).
void Tuner::attempt_cpu() {
  if (std::string why = why_no_cpu(problem_, machine_, request_); !why.empty())
    return choice_.leave_cpu_out(std::move(why));
  std::vector<Considered> best = choice_.best(static_cast<std::size_t>(choice_.planned()));
  std::erase_if(best, [](const Considered& c) { return c.tuning.split_k; });
  best.resize(std::min(best.size(), limits::kMostWithCpu));
  if (best.empty()) return choice_.leave_cpu_out("the best plans split sums");
  // On the cores that it has.
  const double alone_s =
      host_s(problem_, machine_) / (request_.cpu_part * machine_.devices[kHost].beside);
  if (!request_.cpu_share && best.front().seconds < request_.cpu_least_s)
    return choice_.leave_cpu_out("the devices take less than " +
                                 std::to_string(std::lround(1e6 * request_.cpu_least_s)) +
                                 " us without it");
  const double share = balanced_share(alone_s * request_.cpu_margin, best.front().seconds);
  if (!request_.cpu_share && 1 < (1 - share) * limits::kWorthTheCpu)
    return choice_.leave_cpu_out("in the time of the devices it computes less than " +
                                 std::to_string(static_cast<int>(100 * share) + 1) + " % of it");
  const std::int64_t end = budget_.spent() + limits::kForCpu(budget_.whole());
  for (const Considered& without : best) balance_cpu(without, alone_s, end);
  if (request_.cpu_share) choice_.require_cpu();
}

// A given part is planned as it is. Else the CPU gets what it computes in the time of the devices,
// adjusted until both end together, C being at home, if it takes cpu_margin times as long as known.
void Tuner::balance_cpu(const Considered& without, double alone_s, std::int64_t end) {
  const double margin = request_.cpu_share ? 1 : request_.cpu_margin;
  double share = request_.cpu_share.value_or(balanced_share(alone_s * margin, without.seconds));
  double least = kNever;
  for (int round = 0; round < limits::kCpuRounds; ++round) {
    if (cpu_strip(problem_, share).empty()) return;
    Considered c{.tuning = with_cpu(without.tuning, problem_, share, request_.cpu_part),
                 .estimate_s = without.estimate_s,
                 .tasks = without.tasks};
    share = c.tuning.cpu_share;
    if (request_.cpu_share) {
      attempts_.attempt(std::move(c));
      return;
    }
    const Considered* planned = attempts_.attempt_before(end, std::move(c));
    if (planned == nullptr || choice_.rank(*planned) >= least) return;
    least = choice_.rank(*planned);
    const double cpu_s = planned->ends_s.back() * margin, devices_s = planned->devices_end_s;
    if (std::max(cpu_s, devices_s) <= limits::kBalanced * std::min(cpu_s, devices_s)) return;
    share = balanced_share(cpu_s / share, devices_s / (1 - share));
  }
}

/// The tuning with C in groups; nullopt if C is too small for them.
std::optional<Tuning> Tuner::grouped(Tuning t, const limits::Groups& groups) const {
  const std::int64_t whole = std::max(problem_.m, problem_.n);
  if (t.group > 0) return {};
  if (problem_.traits().triangular) {
    if (groups.rows != 1 || outer_size() < groups.cols * t.tile) return {};
    t.group = ceil_div(outer_size(), groups.cols);
  } else if (groups.rows == 1) {
    if (problem_.traits().triangle || problem_.n < groups.cols * t.tile) return {};
    t.group = ceil_div(problem_.n, groups.cols);
    t.group_m = problem_.m * problem_.batch;
  } else {
    if (whole < groups.rows * t.tile) return {};
    t.group = ceil_div(whole, groups.rows);
  }
  return t;
}

/// All of them in each of these groups, where C is large enough. They keep the estimate of their
/// tuning: estimates consider neither groups nor ramps.
std::vector<Considered> Tuner::in_groups(const std::vector<Considered>& ungrouped_ones,
                                         std::span<const limits::Groups> all) const {
  std::vector<Considered> list;
  for (const limits::Groups& groups : all)
    for (const Considered& ungrouped : ungrouped_ones) {
      std::optional<Tuning> tuning = grouped(ungrouped.tuning, groups);
      if (!tuning) continue;
      list.push_back({.tuning = std::move(*tuning),
                      .estimate_s = ungrouped.estimate_s,
                      .tasks = ungrouped.tasks});
    }
  return list;
}

void Tuner::attempt_all(std::vector<Considered> list, std::int64_t end) {
  attempts_.expect(list, end);
  for (Considered& c : list) attempts_.attempt_before(end, std::move(c));
}

// Products by a triangle and solves multiply little until much has come, and both ways share the
// host's memory: results that wait leave it to the inputs.
void Tuner::attempt_inputs_first(const Team& team, const std::vector<Considered>& ungrouped_ones,
                                 std::int64_t end) {
  if (!problem_.traits().triangular || !on_host(problem_.operands[kC].home)) return;
  std::vector<Considered> list = in_groups(ungrouped_ones, limits::kTurns);
  for (Considered& fast : choice_.best(limits::kMostInputsFirst, &team))
    if (std::ranges::find(list, fast.tuning, &Considered::tuning) == list.end())
      list.push_back(std::move(fast));
  std::erase_if(list, [](const Considered& c) { return c.tuning.out_of_core != OutOfCore::none; });
  for (Considered& c : list) c.tuning.inputs_first = true;
  attempt_all(std::move(list), end);
  attempt_smaller_tiles(team, end);
}

// Tiles were chosen without: where results wait, smaller ones may be faster.
void Tuner::attempt_smaller_tiles(const Team& team, std::int64_t end) {
  Considered best = choice_.best(1, &team).front();
  if (!best.tuning.inputs_first) return;
  std::vector<Considered> list = listed(team);
  std::erase_if(list, [&](const Considered& c) {
    return c.tuning.grid != best.tuning.grid || c.tuning.tile >= best.tuning.tile ||
           c.tuning.out_of_core != OutOfCore::none;
  });
  std::ranges::stable_sort(list, std::greater{}, [](const Considered& c) { return c.tuning.tile; });
  double least = choice_.rank(best);
  for (std::size_t i = 0; i < list.size(); ++i) {
    for (Considered& c : in_groups({list[i]}, limits::kTurns)) {
      c.tuning.inputs_first = true;
      const Considered* const planned = attempts_.attempt_before(end, std::move(c));
      if (planned != nullptr && choice_.rank(*planned) < choice_.rank(best)) best = *planned;
    }
    if (i + 1 < list.size() && list[i + 1].tuning.tile == list[i].tuning.tile) continue;
    if (choice_.rank(best) >= least) return;  // by none of this edge
    least = choice_.rank(best);
  }
}

Tuned tune_for(const Machine& machine, const Problem& problem, const TuneRequest& request) {
  if (problem.traits().vectors && problem.k > 0 && problem.n > 0)
    return tune_vectors(problem, machine, request);
  if (problem.m > 0 && problem.n > 0 && problem.k > 0)
    for (const PresetPolicy& policy : preset_policies())
      if (policy.preset == request.preset) return tune_as(policy, problem, machine, request);
  return Tuner(problem, machine, request).run();
}

}  // namespace

Tuned tune(const Problem& problem, const Machine& machine, const TuneRequest& request) {
  return tuned_for_lasting(
      machine, [&](const Machine& lasting) { return tune_for(lasting, problem, request); });
}

}  // namespace fleet
