// SPDX-License-Identifier: BSD-3-Clause
// tune.cpp: plans and simulates the best few candidates, then variants of the fastest. Pure: the
// budget is counted in tasks, not in seconds.
#include "tune/tune.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/error.hpp"
#include "base/sizes.hpp"
#include "plan/bound.hpp"
#include "program/decompose.hpp"
#include "sim/simulate.hpp"
#include "tune/candidates.hpp"
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

class Tuner {
 public:
  Tuner(const Problem& problem, const Machine& machine, const TuneRequest& request)
      : problem_(problem),
        machine_(machine),
        request_(request),
        base_(base_tuning(problem, machine, request)) {}

  Tuned run();

 private:
  Tuned trivial();
  Tuned best();
  std::vector<Considered> listed(const Team& team) const;
  std::optional<double> attempt(Considered candidate, std::vector<double>* ends_s = nullptr);
  std::optional<double> attempt_before(std::int64_t end, Considered candidate,
                                       std::vector<double>* ends_s = nullptr);
  std::vector<double> ends_of(const Plan& plan, const Trace& trace) const;
  void attempt_list(std::vector<Considered> list);
  void attempt_teams(std::int64_t end);
  int owner(const Team& workers) const;
  double all_by_s(DeviceId device, const Tuning& tuning) const;
  void attempt_variants(const Team& team, std::int64_t for_groups);
  void attempt_ramps(const Team& team);
  bool may_share() const;
  std::vector<double> speeds(const Tuning& tuning) const;
  void attempt_proportions(const Team& team, std::int64_t end);
  void attempt_shares(const Team& team, std::int64_t end);
  void attempt_groups(const std::vector<Considered>& ungrouped_ones, std::int64_t end);
  std::optional<Tuning> grouped(Tuning tuning, const limits::Groups& groups) const;
  std::vector<Considered> fastest(std::size_t most, const Team* team = nullptr) const;
  std::int64_t outer_size() const { return problem_.side == Side::left ? problem_.n : problem_.m; }

  struct Kept {
    Plan plan;
    std::size_t candidate;  ///< its index in `search_`
    double seconds;
  };

  const Problem& problem_;
  const Machine& machine_;
  const TuneRequest& request_;
  const Tuning base_;      ///< of all workers
  Expansions expansions_;  ///< shared by candidates with equal cuts
  Search search_;
  std::vector<Kept> near_;  ///< the fastest so far and those within kNear of it
  double fastest_s_ = std::numeric_limits<double>::infinity();
  Error refusal_{Status::no_memory, "the memory caps hold no tile product"};
  Budget budget_{0};
  int planned_ = 0;
};

// Without a product, C is scaled at its home, or left as it is.
Tuned Tuner::trivial() {
  const DeviceId home = problem_.operands[kC].home;
  Tuning t = base_;
  t.workers = {on_host(home) ? kHost : home};
  t.grid = {1, 1};
  t.tile = std::max<std::int64_t>({1, problem_.m, problem_.n});
  Tuned tuned;
  tuned.plan = make_plan(problem_, machine_, t);
  tuned.predicted_s = simulate(tuned.plan, machine_).seconds;
  tuned.planned = 1;
  tuned.search.list.push_back(
      {.tuning = t, .seconds = tuned.predicted_s, .tasks = std::ssize(tuned.plan.tasks)});
  tuned.search.choose(0, machine_.issue_s);
  return tuned;
}

// Plans and simulates one tuning, and keeps its plan if it is among the best so far. Returns its
// seconds, or nullopt if it does not fit into memory or lacks a route.
std::optional<double> Tuner::attempt(Considered c, std::vector<double>* ends_s) {
  try {
    Plan plan = make_plan(problem_, machine_, c.tuning, expansions_);
    const Trace trace = simulate(plan, machine_);
    c.seconds = trace.seconds;
    c.tasks = std::ssize(plan.tasks);
    if (ends_s != nullptr) *ends_s = ends_of(plan, trace);
    budget_.spend(c.tasks);
    fastest_s_ = std::min(fastest_s_, c.seconds);
    near_.push_back({std::move(plan), search_.list.size(), c.seconds});
    std::erase_if(near_, [&](const Kept& k) { return k.seconds > limits::kNear * fastest_s_; });
    ++planned_;
    search_.list.push_back(std::move(c));
    return search_.list.back().seconds;
  } catch (const Error& e) {
    if (e.status() != Status::no_memory && e.status() != Status::unreachable) throw;
    refusal_ = e;
    c.refusal = e.what();
    search_.pass_over(std::move(c), Verdict::refused);
    return {};
  }
}

// The same if its tasks fit into the budget up to `end`.
std::optional<double> Tuner::attempt_before(std::int64_t end, Considered c,
                                            std::vector<double>* ends_s) {
  const std::int64_t left = end - budget_.spent();
  if (c.tasks <= left) return attempt(std::move(c), ends_s);
  search_.pass_over(std::move(c), Verdict::over_budget, left);
  return {};
}

/// When the last product of each worker ended.
std::vector<double> Tuner::ends_of(const Plan& plan, const Trace& trace) const {
  std::vector<double> of_device(machine_.devices.size(), 0.0);
  for (std::size_t id = 0; id < plan.tasks.size(); ++id)
    if (plan.tasks[id].kind == TaskKind::compute) {
      double& end_s = of_device[static_cast<std::size_t>(plan.tasks[id].device())];
      end_s = std::max(end_s, trace.spans[id].stop_s);
    }
  std::vector<double> ends_s;
  for (const DeviceId worker : plan.tuning.workers)
    ends_s.push_back(of_device[static_cast<std::size_t>(worker)]);
  return ends_s;
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
    if (planned_ >= limits::kMostPlanned)
      search_.pass_over(std::move(c), Verdict::enough_plans, planned_);
    else if (planned_ > 0 && mode && c.tasks > left)
      search_.pass_over(std::move(c), Verdict::over_budget, left);
    else
      mode |= attempt(std::move(c)).has_value();
  }
}

// Plans the first candidates of the teams that do without some of the workers. A team that is far
// behind is given up.
void Tuner::attempt_teams(std::int64_t end) {
  if (request_.grid.rows * request_.grid.cols == std::ssize(base_.workers)) return;
  for (const Team& team : teams(problem_, machine_, base_.workers)) {
    if (team == base_.workers) continue;
    double team_s = std::numeric_limits<double>::infinity();
    int tried = 0;
    for (Considered& c : listed(team)) {
      if (tried >= limits::kLeastOfTeam && team_s > limits::kHopelessTeam * fastest_s_) break;
      if (tried++ == limits::kMostOfTeam) break;
      if (const std::optional<double> seconds = attempt_before(end, std::move(c)))
        team_s = std::min(team_s, *seconds);
    }
  }
}

// Variants of the fastest plans of a team.
void Tuner::attempt_variants(const Team& team, std::int64_t for_groups) {
  if (base_.rules.has(Rule::tile)) attempt_ramps(team);
  std::vector<Considered> to_group = fastest(limits::kMostGrouped, &team);
  if (base_.rules.has(Rule::grid) && may_share()) {
    attempt_proportions(team, budget_.spent() + limits::kForShares(budget_.whole()));
    attempt_shares(team, budget_.spent() + limits::kForShares(budget_.whole()));
    if (const Considered best = fastest(1, &team).front(); best.seconds < to_group.front().seconds)
      to_group.insert(to_group.begin(), best);
  }
  if (base_.rules.has(Rule::order)) attempt_groups(to_group, budget_.spent() + for_groups);
}

Tuned Tuner::run() {
  if (problem_.k == 0 || problem_.m == 0 || problem_.n == 0) return trivial();
  std::vector<Considered> list = listed(base_.workers);
  budget_ = Budget(list.empty() ? 0 : list.front().estimate_s);
  attempt_list(std::move(list));
  if (planned_ == 0) throw refusal_;
  const std::int64_t for_groups =
      std::max(budget_.whole() - budget_.spent(), limits::kForGroups(budget_.whole()));
  attempt_variants(base_.workers, for_groups);
  if (request_.selects) {
    const std::int64_t for_teams = limits::kForTeams(budget_.whole());
    attempt_teams(budget_.spent() + for_teams);
    // What was worth a variant with all workers is tried with fewer, if they are the faster.
    if (const Team team = fastest(1).front().tuning.workers; team != base_.workers)
      attempt_variants(team, for_teams);
  }
  return best();
}

// Among the nearly fastest plans, the one least sensitive to the cost of issuing.
Tuned Tuner::best() {
  const auto surest = std::ranges::min_element(near_, {}, [&](const Kept& k) {
    return std::max(k.seconds, limits::kSame * fastest_s_) +
           machine_.issue_s * static_cast<double>(k.plan.tasks.size());
  });
  search_.choose(surest->candidate, machine_.issue_s);
  return {.plan = std::move(surest->plan),
          .predicted_s = surest->seconds,
          .planned = planned_,
          .search = std::move(search_)};
}

/// Those with a plan, of one team or of all.
std::vector<Considered> Tuner::fastest(std::size_t most, const Team* team) const {
  std::vector<const Considered*> sorted;
  for (const Considered& c : search_.list)
    if (c.is_planned() && (team == nullptr || c.tuning.workers == *team)) sorted.push_back(&c);
  std::ranges::stable_sort(sorted, {}, &Considered::seconds);
  sorted.resize(std::min(sorted.size(), most));
  std::vector<Considered> copies;
  for (const Considered* c : sorted) copies.push_back(*c);
  return copies;
}

// No device multiplies until the first tiles arrive: 6 of 92 ms (16384 from the host, two H200).
// Half types round C at each step, so they get no extra steps.
void Tuner::attempt_ramps(const Team& team) {
  if (is_half(problem_.type.storage) || request_.tile > 0 || problem_.traits().has_side()) return;
  for (Considered& ramped : fastest(limits::kMostRamped, &team)) {
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

/// Products of the tuning's tiles per second, by each of its workers alone.
std::vector<double> Tuner::speeds(const Tuning& tuning) const {
  std::vector<double> speeds;
  for (const DeviceId worker : tuning.workers) speeds.push_back(1 / all_by_s(worker, tuning));
  return speeds;
}

// Uneven devices get parts of C by their speeds, which are then adjusted until the workers'
// products end at about the same time (paper 2, 3.1: within 5 %).
void Tuner::attempt_proportions(const Team& team, std::int64_t end) {
  for (const Considered& equal : fastest(limits::kMostShared, &team)) {
    if (equal.tuning.out_of_core != OutOfCore::none) continue;
    std::vector<double> parts = speeds(equal.tuning);
    const auto [slowest, quickest] = std::ranges::minmax(parts);
    if (quickest < limits::kUneven * slowest) continue;
    double seconds = equal.seconds;
    for (int round = 0; round < limits::kProportionRounds; ++round) {
      Considered uneven{.tuning = in_proportion(equal.tuning, parts), .tasks = equal.tasks};
      uneven.estimate_s = equal.estimate_s;
      std::vector<double> ends_s;
      const std::optional<double> uneven_s = attempt_before(end, std::move(uneven), &ends_s);
      if (!uneven_s || *uneven_s >= seconds) break;
      seconds = *uneven_s;
      const auto [first, last] = std::ranges::minmax(ends_s);
      if (first <= 0 || last <= limits::kBalanced * first) break;
      for (std::size_t worker = 0; worker < parts.size(); ++worker) parts[worker] /= ends_s[worker];
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
  for (const Considered& equal : fastest(limits::kMostShared, &team)) {
    if (equal.tuning.out_of_core != OutOfCore::none || !equal.tuning.row_shares.empty()) continue;
    const double alone_s = all_by_s(team[static_cast<std::size_t>(favoured)], equal.tuning);
    double seconds = equal.seconds;
    for (int round = 0; round < limits::kShareRounds; ++round) {
      const double share = std::min((seconds + bound_s) / 2 / alone_s, limits::kMostOwned);
      if (share * workers < limits::kWorthFavouring) break;
      Considered uneven{.tuning = favour(equal.tuning, favoured, share), .tasks = equal.tasks};
      uneven.estimate_s = estimator.seconds(uneven.tuning);
      const std::optional<double> uneven_s = attempt_before(end, std::move(uneven));
      if (!uneven_s || *uneven_s >= seconds) break;
      seconds = *uneven_s;
    }
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
