// SPDX-License-Identifier: BSD-3-Clause
// tune.cpp: plans and simulates the best few candidates, then variants of the best. Pure: the
// budget is counted in tasks, not in seconds.
#include "tune/tune.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.hpp"
#include "base/sizes.hpp"
#include "plan/bound.hpp"
#include "program/decompose.hpp"
#include "tune/candidates.hpp"
#include "tune/choice.hpp"
#include "tune/cpu_share.hpp"
#include "tune/fits.hpp"
#include "tune/limits.hpp"
#include "tune/teams.hpp"

namespace fleet {
namespace {

using Verdict = Considered::Verdict;

/// The budget of planning, in tasks. It grows with the size of the plans made.
class Budget {
 public:
  /// `run_s` is the estimated time of the run.
  explicit Budget(double run_s)
      : affordable_(limits::kLargestShare * run_s * limits::kTasksPerSecond) {
    const double usual =
        std::max(limits::kUsualBudget, limits::kUsualShare * run_s * limits::kTasksPerSecond);
    whole_ = std::max(whole_, static_cast<std::int64_t>(std::min(affordable_, usual)));
  }

  void spend(std::int64_t tasks) {
    spent_ += tasks;
    const double wanted = limits::kBudgetFactor * static_cast<double>(tasks);
    whole_ = std::max(whole_, static_cast<std::int64_t>(std::min(wanted, affordable_)));
  }
  std::int64_t whole() const { return whole_; }
  std::int64_t spent() const { return spent_; }

 private:
  double affordable_;
  std::int64_t spent_ = 0, whole_ = limits::kLeastBudget;
};

// The tuning with this share of C for one worker and equal shares for the others as far as the grid
// allows: in a grid of several rows and columns, the worker's row and column both get more.
Tuning favour(Tuning tuning, int worker, double share) {
  const auto shares = [](int count, int favoured, double part) {
    std::vector<double> parts(static_cast<std::size_t>(count), (1 - part) / std::max(1, count - 1));
    parts[static_cast<std::size_t>(favoured)] = count == 1 ? 1 : part;
    return parts;
  };
  const auto [rows, cols] = tuning.grid;
  const double more = rows == 1 || cols == 1 ? share * rows * cols : std::sqrt(share * rows * cols);
  tuning.row_shares = shares(rows, worker / cols, std::min(limits::kMostOwned, more / rows));
  tuning.col_shares = shares(cols, worker % cols, std::min(limits::kMostOwned, more / cols));
  return tuning;
}

/// The tuning with shares of C in proportion to the workers' speeds, as far as the grid allows: a
/// row of the grid has one height for all its workers.
Tuning in_proportion(Tuning tuning, const std::vector<double>& speeds) {
  const auto [rows, cols] = tuning.grid;
  tuning.row_shares.assign(static_cast<std::size_t>(rows), 0.0);
  tuning.col_shares.assign(static_cast<std::size_t>(cols), 0.0);
  for (std::size_t worker = 0; worker < speeds.size(); ++worker) {
    tuning.row_shares[worker / static_cast<std::size_t>(cols)] += speeds[worker];
    tuning.col_shares[worker % static_cast<std::size_t>(cols)] += speeds[worker];
  }
  return tuning;
}

/// When the simulated parts of a plan ended.
struct Ends {
  std::vector<double> products_s;  ///< the last product of each worker
  double devices_s = 0;            ///< the last task that is not the CPU's, with C at home
};

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
  std::vector<Considered> listed(const Team& team) const;
  const Considered* attempt(Considered candidate, Ends* ends = nullptr);
  const Considered* attempt_before(std::int64_t end, Considered candidate, Ends* ends = nullptr);
  Ends ends_of(const Plan& plan, const Trace& trace) const;
  void attempt_list(std::vector<Considered> list);
  std::vector<Team> best_teams() const;
  void search_teams(const Goal& goal);
  void attempt_teams(std::int64_t end, const std::vector<Team>& list);
  int owner(const Team& workers) const;
  double all_by_s(DeviceId device, const Tuning& tuning) const;
  void attempt_variants(const Team& team, std::int64_t for_groups);
  void attempt_ramps(const Team& team);
  bool may_share() const;
  std::vector<double> speeds(const Tuning& tuning) const;
  void attempt_proportions(const Team& team, std::int64_t end);
  void attempt_shares(const Team& team, std::int64_t end);
  void attempt_cpu();
  void balance_cpu(const Considered& without, double alone_s, std::int64_t end);
  void attempt_groups(const std::vector<Considered>& ungrouped_ones, std::int64_t end);
  std::optional<Tuning> grouped(Tuning tuning, const limits::Groups& groups) const;
  std::int64_t outer_size() const { return problem_.side == Side::left ? problem_.n : problem_.m; }

  const Problem& problem_;
  const Machine& machine_;
  const TuneRequest& request_;
  const Tuning base_;  ///< of all workers
  Choice choice_;
  Budget budget_{0};
};

// Without a product, C is scaled at its home, or left as it is.
Tuned Tuner::trivial() {
  const DeviceId home = problem_.operands[kC].home;
  Tuning t = base_;
  t.workers = {on_host(home) ? kHost : home};
  t.grid = {1, 1};
  t.tile = std::max<std::int64_t>({1, problem_.m, problem_.n});
  if (attempt({.tuning = std::move(t)}) == nullptr) throw choice_.refusal();
  return choice_.take();
}

// Plans and simulates one tuning. Returns what came out, until the next one; null if it does not
// fit into memory or lacks a route.
const Considered* Tuner::attempt(Considered c, Ends* ends) {
  std::optional<Considered> direct;
  if (c.tuning.max_hops > 0) direct = c;
  const auto planned = choice_.attempt(std::move(c));
  if (!planned && direct) {
    // Tiles that pass through a worker take memory there.
    direct->tuning.max_hops = 0;
    return attempt(*std::move(direct), ends);
  }
  if (!planned) return nullptr;
  budget_.spend(planned->considered.tasks);
  if (ends != nullptr) *ends = ends_of(planned->plan, planned->trace);
  return &planned->considered;
}

// The same if its tasks fit into the budget up to `end`.
const Considered* Tuner::attempt_before(std::int64_t end, Considered c, Ends* ends) {
  const std::int64_t left = end - budget_.spent();
  if (c.tasks <= left) return attempt(std::move(c), ends);
  choice_.pass_over(std::move(c), Verdict::over_budget, left);
  return nullptr;
}

Ends Tuner::ends_of(const Plan& plan, const Trace& trace) const {
  Ends ends;
  std::vector<double> of_device(machine_.devices.size(), 0.0);
  for (std::size_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& task = plan.tasks[id];
    const double stop_s = trace.spans[id].stop_s;
    const bool computes = task.kind == TaskKind::compute;
    double& end_s = of_device[static_cast<std::size_t>(task.device())];
    if (computes) end_s = std::max(end_s, stop_s);
    if (!computes || !on_host(task.device())) ends.devices_s = std::max(ends.devices_s, stop_s);
  }
  for (const DeviceId worker : plan.tuning.workers)
    ends.products_s.push_back(of_device[static_cast<std::size_t>(worker)]);
  return ends;
}

/// The candidates of a team, the most promising first.
std::vector<Considered> Tuner::listed(const Team& team) const {
  Tuning base = base_;
  base.workers = team;
  const Estimator estimator(problem_, machine_, team);
  return candidates(problem_, machine_, request_, base, estimator);
}

// Plans candidates while the budget lasts, and at least one of each out-of-core mode.
void Tuner::attempt_list(std::vector<Considered> list) {
  bool seen[3] = {};
  for (Considered& c : list) {
    bool& mode = seen[static_cast<std::size_t>(c.tuning.out_of_core)];
    const std::int64_t left = limits::kForTiles(budget_.whole()) - budget_.spent();
    if (choice_.planned() >= limits::kMostPlanned)
      choice_.pass_over(std::move(c), Verdict::enough_plans, choice_.planned());
    else if (choice_.planned() > 0 && mode && c.tasks > left)
      choice_.pass_over(std::move(c), Verdict::over_budget, left);
    else
      mode |= attempt(std::move(c)) != nullptr;
  }
}

/// The teams of the best plans.
std::vector<Team> Tuner::best_teams() const {
  std::vector<Team> best;
  for (const Considered& c : choice_.best(static_cast<std::size_t>(choice_.planned())))
    if (best.size() < limits::kMostVaried &&
        std::ranges::find(best, c.tuning.workers) == best.end())
      best.push_back(c.tuning.workers);
  return best;
}

// Plans the first candidates of the teams that do without some of the workers: one of each team,
// then the next of each, but for teams that are far behind.
void Tuner::attempt_teams(std::int64_t end, const std::vector<Team>& list) {
  struct Trial {
    std::vector<Considered> list;
    double least = kNever;
  };
  std::vector<Trial> trials;
  for (const Team& team : list) trials.push_back({.list = listed(team)});
  for (std::size_t round = 0; round < limits::kMostOfTeam; ++round)
    for (Trial& trial : trials) {
      const bool is_hopeless = round >= limits::kLeastOfTeam &&
                               trial.least > within(limits::kHopelessTeam, choice_.least());
      if (is_hopeless || round >= trial.list.size()) continue;
      if (const Considered* planned = attempt_before(end, std::move(trial.list[round])))
        trial.least = std::min(trial.least, choice_.rank(*planned));
    }
}

// Variants of the fastest plans of a team.
void Tuner::attempt_variants(const Team& team, std::int64_t for_groups) {
  if (base_.rules.has(Rule::tile)) attempt_ramps(team);
  std::vector<Considered> to_group = choice_.best(limits::kMostGrouped, &team);
  if (base_.rules.has(Rule::grid) && may_share()) {
    attempt_proportions(team, budget_.spent() + limits::kForShares(budget_.whole()));
    attempt_shares(team, budget_.spent() + limits::kForShares(budget_.whole()));
    if (const Considered best = choice_.best(1, &team).front();
        choice_.rank(best) < choice_.rank(to_group.front()))
      to_group.insert(to_group.begin(), best);
  }
  if (base_.rules.has(Rule::order)) attempt_groups(to_group, budget_.spent() + for_groups);
}

Tuned Tuner::run() {
  if (problem_.k == 0 || problem_.m == 0 || problem_.n == 0) return trivial();
  std::vector<Considered> list = listed(base_.workers);
  budget_ = Budget(list.empty() ? 0 : list.front().estimate_s);
  attempt_list(std::move(list));
  if (choice_.planned() == 0) throw choice_.refusal();
  const std::int64_t for_groups =
      std::max(budget_.whole() - budget_.spent(), limits::kForGroups(budget_.whole()));
  attempt_variants(base_.workers, for_groups);
  const bool selects =
      request_.selects && request_.grid.rows * request_.grid.cols != std::ssize(base_.workers);
  if (selects) search_teams(Goal{});
  // What another goal chooses is at least as good as what is fastest, which has just been found.
  choice_.rank_by_goal();
  if (selects && !request_.goal.is_time()) search_teams(request_.goal);
  attempt_cpu();
  return choice_.take();
}

/// Plans with sets of workers that may be better than those that were tried, and varies the best.
void Tuner::search_teams(const Goal& goal) {
  std::vector<Team> fresh = teams(problem_, machine_, base_.workers, goal);
  const auto is_known = [&](const Team& team) { return !choice_.best(1, &team).empty(); };
  std::erase_if(fresh, is_known);
  const std::int64_t for_teams = limits::kForTeams(budget_.whole());
  attempt_teams(budget_.spent() + for_teams, fresh);
  for (const Team& team : best_teams())
    if (std::ranges::find(fresh, team) != fresh.end()) attempt_variants(team, for_teams);
}

// No device multiplies until the first tiles arrive: 6 of 92 ms (16384 from the host, two H200).
// Half types round C at each step, so they get no extra steps.
void Tuner::attempt_ramps(const Team& team) {
  if (is_half(problem_.type.storage) || request_.tile > 0 || problem_.traits().has_side()) return;
  for (Considered& ramped : choice_.best(limits::kMostRamped, &team)) {
    if (ramped.tuning.out_of_core == OutOfCore::cube) continue;
    ramped.tuning.ramp = limits::kRamp;
    attempt(std::move(ramped));
  }
}

/// The worker that holds C, or if C is on the host, the one that holds both A and B; -1 if none.
int Tuner::owner(const Team& workers) const {
  const auto& operands = problem_.operands;
  DeviceId home = operands[kC].home;
  if (on_host(home) && operands[kA].home == operands[kB].home) home = operands[kA].home;
  const auto found = std::ranges::find(workers, home);
  return found == workers.end() ? -1 : static_cast<int>(found - workers.begin());
}

bool Tuner::may_share() const {
  const RoutineTraits& traits = problem_.traits();
  return problem_.batch == 1 && !traits.triangle && !traits.triangular;
}

/// How fast each worker of the tuning alone multiplies its tiles, relative to the first.
std::vector<double> Tuner::speeds(const Tuning& tuning) const {
  std::vector<double> speeds;
  const double first_s = all_by_s(tuning.workers.front(), tuning);
  for (const DeviceId worker : tuning.workers) speeds.push_back(first_s / all_by_s(worker, tuning));
  return speeds;
}

// Uneven devices get parts of C by their speeds, which are then adjusted until the workers'
// products end at about the same time (paper 2, 3.1: within 5 %).
void Tuner::attempt_proportions(const Team& team, std::int64_t end) {
  for (const Considered& equal : choice_.best(limits::kMostShared, &team)) {
    if (equal.tuning.out_of_core != OutOfCore::none) continue;
    std::vector<double> parts = speeds(equal.tuning);
    const auto [slowest, quickest] = std::ranges::minmax(parts);
    if (quickest < limits::kUneven * slowest) continue;
    double least = choice_.rank(equal);
    for (int round = 0; round < limits::kProportionRounds; ++round) {
      Considered uneven{.tuning = in_proportion(equal.tuning, parts), .tasks = equal.tasks};
      uneven.estimate_s = equal.estimate_s;
      Ends ends;
      const Considered* planned = attempt_before(end, std::move(uneven), &ends);
      if (planned == nullptr || choice_.rank(*planned) >= least) break;
      least = choice_.rank(*planned);
      const auto [first, last] = std::ranges::minmax(ends.products_s);
      if (first <= 0 || last <= limits::kBalanced * first) break;
      for (std::size_t worker = 0; worker < parts.size(); ++worker)
        parts[worker] *= last / ends.products_s[worker];
    }
  }
}

// With equal parts the other workers still wait for links when the owner is done, because its tiles
// need no copies. The owner therefore gets the share that it computes in the mean of the bound and
// the time of the best plan so far.
void Tuner::attempt_shares(const Team& team, std::int64_t end) {
  const int favoured = owner(team);
  const auto workers = static_cast<int>(team.size());
  if (favoured < 0 || workers < 2) return;
  const Estimator estimator(problem_, machine_, team);
  const double bound_s = bound(problem_, machine_).seconds;
  for (const Considered& equal : choice_.best(limits::kMostShared, &team)) {
    if (equal.tuning.out_of_core != OutOfCore::none || !equal.tuning.row_shares.empty()) continue;
    const double alone_s = all_by_s(team[static_cast<std::size_t>(favoured)], equal.tuning);
    double seconds = equal.seconds, least = choice_.rank(equal);
    for (int round = 0; round < limits::kShareRounds; ++round) {
      const double share = std::min((seconds + bound_s) / 2 / alone_s, limits::kMostOwned);
      if (share * workers < limits::kWorthFavouring) break;
      Considered uneven{.tuning = favour(equal.tuning, favoured, share), .tasks = equal.tasks};
      uneven.estimate_s = estimator.seconds(uneven.tuning);
      const Considered* planned = attempt_before(end, std::move(uneven));
      if (planned == nullptr || choice_.rank(*planned) >= least) break;
      seconds = planned->seconds;
      least = choice_.rank(*planned);
    }
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
  const double alone_s = host_s(problem_, machine_) / request_.cpu_part;  // on the cores it has
  const double share = balanced_share(alone_s, best.front().seconds);
  if (!request_.cpu_share && 1 < (1 - share) * limits::kWorthTheCpu)
    return choice_.leave_cpu_out("in the time of the devices it computes less than " +
                                 std::to_string(static_cast<int>(100 * share) + 1) + " % of it");
  const std::int64_t end = budget_.spent() + limits::kForCpu(budget_.whole());
  for (const Considered& without : best) balance_cpu(without, alone_s, end);
  if (request_.cpu_share) choice_.require_cpu();
}

// A given part is planned as it is. Else the CPU gets what it computes in the time of the devices,
// adjusted until both end together, C being at home.
void Tuner::balance_cpu(const Considered& without, double alone_s, std::int64_t end) {
  double share = request_.cpu_share.value_or(balanced_share(alone_s, without.seconds));
  double least = kNever;
  for (int round = 0; round < limits::kCpuRounds; ++round) {
    if (cpu_strip(problem_, share).empty()) return;
    Considered c{.tuning = with_cpu(without.tuning, problem_, share, request_.cpu_part),
                 .estimate_s = without.estimate_s,
                 .tasks = without.tasks};
    share = c.tuning.cpu_share;
    if (request_.cpu_share) {
      attempt(std::move(c));
      return;
    }
    Ends ends;
    const Considered* planned = attempt_before(end, std::move(c), &ends);
    if (planned == nullptr || choice_.rank(*planned) >= least) return;
    least = choice_.rank(*planned);
    const double cpu_s = ends.products_s.back();
    if (std::max(cpu_s, ends.devices_s) <= limits::kBalanced * std::min(cpu_s, ends.devices_s))
      return;
    share = balanced_share(cpu_s / share, ends.devices_s / (1 - share));
  }
}

/// Seconds of the whole problem in these tiles on one device that holds all operands.
double Tuner::all_by_s(DeviceId device, const Tuning& tuning) const {
  const std::int64_t m = std::min(tuning.edge_m(), problem_.m),
                     n = std::min(tuning.tile, problem_.n),
                     k = std::min(longest_step(problem_.type.storage, tuning.edge_k()), problem_.k);
  const auto volume = [](std::int64_t x, std::int64_t y, std::int64_t z) {
    return static_cast<double>(x) * static_cast<double>(y) * static_cast<double>(z);
  };
  return machine_.multiply_s(device, problem_.type, m, n, k) *
         volume(problem_.m, problem_.n, problem_.k) / volume(m, n, k);
}

/// The tuning with C in groups; nullopt if C is too small for them.
std::optional<Tuning> Tuner::grouped(Tuning t, const limits::Groups& groups) const {
  const std::int64_t whole = std::max(problem_.m, problem_.n);
  if (t.group > 0) return {};
  if (problem_.traits().triangular) {
    if (groups.rows != 1 || outer_size() < groups.cols * t.tile) return {};
    t.group = ceil_div(outer_size(), groups.cols);
  } else if (groups.rows == 1) {
    if (has_square_tiles(problem_) || problem_.n < groups.cols * t.tile) return {};
    t.group = ceil_div(problem_.n, groups.cols);
    t.group_m = problem_.m * problem_.batch;
  } else {
    if (whole < groups.rows * t.tile) return {};
    t.group = ceil_div(whole, groups.rows);
  }
  return t;
}

// Groups keep the estimate of their tuning: estimates consider neither groups nor ramps.
void Tuner::attempt_groups(const std::vector<Considered>& ungrouped_ones, std::int64_t end) {
  for (const limits::Groups& groups : limits::kGroups)
    for (const Considered& ungrouped : ungrouped_ones) {
      std::optional<Tuning> tuning = grouped(ungrouped.tuning, groups);
      if (!tuning) continue;
      Considered c{.tuning = std::move(*tuning),
                   .estimate_s = ungrouped.estimate_s,
                   .tasks = ungrouped.tasks};
      attempt_before(end, std::move(c));
    }
}

}  // namespace

Tuned tune(const Problem& problem, const Machine& machine, const TuneRequest& request) {
  if (problem.traits().vectors && problem.k > 0 && problem.n > 0)
    return tune_vectors(problem, machine, request);
  return Tuner(problem, machine, request).run();
}

}  // namespace fleet
