// SPDX-License-Identifier: BSD-3-Clause
// tune.cpp: candidates, their estimates, and the best few planned and simulated. Pure: the budget
// is counted in tasks, not in seconds.
#include "tune/tune.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>

#include "base/error.hpp"
#include "exec/simulate.hpp"
#include "plan/bound.hpp"
#include "program/decompose.hpp"
#include "tune/fits.hpp"

namespace fleet {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::int64_t kFixedTile = 2048;    // rule `tile` off (paper 1: T_min)
constexpr std::int64_t kLargestTile = 8192;  // larger ones leave nothing to overlap
constexpr std::int64_t kLeastOfRound = 2048;
constexpr double kMemoryShare = 0.8;  // of the available memory (paper 1, III-C1)
// Planning and simulating costs 0.4 to 1 us a task. Budgets are counted in tasks: about 1 ms at
// least, and up to 7 ms (or 8 % of the estimated run, if that is more) where that is no more than
// 40 % of the run, since a first call should not plan longer than it gains; or three plans of the
// size at hand. A third of it is for groups, and half of it if tiles leave less; larger parts of an
// owner, and what a first step of k is halved for, come on top.
constexpr double kTasksPerSecond = 1 / 0.8e-6;
constexpr std::int64_t kLeastBudget = 1500;
constexpr double kUsualBudget = 9000;
constexpr double kUsualShare = 0.08, kLargestShare = 0.4;
constexpr double kBudgetFactor = 3.0;
constexpr std::int64_t kMostTasks = 30000;  // larger plans cost more than they gain
constexpr int kMostPlanned = 32;
// How much longer than wide tiles may be, and up to which width they are tried so.
constexpr std::int64_t kStretches[] = {1, 2, 4, 8};
constexpr std::int64_t kLongestStretched = 4096;
// Of the fastest so many, the same with a first step of k that is halved so often.
constexpr std::size_t kMostRamped = 5;
constexpr int kRamp = 3;
// Of the fastest so many, the same with C in groups one after another: the first go home while the
// last are computed. So many groups along the longer edge of C and as wide along the other one, or
// (one row) columns of C with all of their rows, since long tiles would not fit into less.
constexpr std::size_t kMostGrouped = 3;
constexpr struct { int rows, cols; } kGroups[] = {{3, 3}, {1, 4}, {2, 2}, {1, 8}, {4, 4}, {1, 2}};
// Of the fastest so many, the same with a larger part of C for the worker that it is at home with.
constexpr std::size_t kMostShared = 3;
constexpr int kShareRounds = 2;
constexpr double kMostOwned = 0.95;
constexpr double kWorthFavouring = 1.04;  // times an equal part; tiles are too coarse for less
// Estimates that are no further apart say nothing about which is better: the cheaper to plan first.
constexpr double kAlike = 1.12;
// Of plans that are simulated within this of the fastest, the one that would be so still if each
// task cost its issuing once more: copies of small tiles and much issuing are where runs fall
// behind their simulation (docs/performance/lessons.md). Differences below the second are none: of
// two plans that were simulated 0.5 % apart, that of larger tiles was 2 % faster.
constexpr double kNear = 1.02, kSame = 1.01;

struct Attempt {
  double seconds = 0;
  std::int64_t tasks = 0;
  Tuning tuning;
};

struct Candidate {
  Tuning tuning;
  double estimate_s = 0;
  std::int64_t tasks = 0;
};

// The same tuning with this share of C for one worker, and the same for all others as far as the
// grid allows: in a grid of several rows and columns, its row and its column get more.
Tuning favour(Tuning tuning, int worker, double share) {
  const auto shares = [](int count, int favoured, double part) {
    std::vector<double> parts(static_cast<std::size_t>(count), (1 - part) / std::max(1, count - 1));
    parts[static_cast<std::size_t>(favoured)] = count == 1 ? 1 : part;
    return parts;
  };
  const auto [rows, cols] = tuning.grid;
  const double more = rows == 1 || cols == 1 ? share * rows * cols : std::sqrt(share * rows * cols);
  tuning.row_shares = shares(rows, worker / cols, std::min(kMostOwned, more / rows));
  tuning.col_shares = shares(cols, worker % cols, std::min(kMostOwned, more / cols));
  return tuning;
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

class Tuner {
 public:
  Tuner(const Problem& problem, const Machine& machine, const TuneRequest& request)
      : problem_(problem), machine_(machine), request_(request) {
    base_.rules = request.rules;
    base_.own_copies = request.own_copies;
    base_.workers = request.workers;
    if (base_.workers.empty())
      for (DeviceId d = kFirstDevice; d < std::ssize(machine.devices); ++d)
        if (machine.can_compute(d, problem.type)) base_.workers.push_back(d);
    if (base_.workers.empty())
      throw Error(Status::unsupported,
                  "no device of machine '" + machine.name + "' computes this type");
    base_.memory_cap = request.memory_cap;
    if (base_.memory_cap.empty())
      for (const Device& d : machine.devices)
        base_.memory_cap.push_back(
            static_cast<std::int64_t>(kMemoryShare * static_cast<double>(d.memory_bytes)));
    estimator_.emplace(problem, machine, base_.workers);
  }

  Tuned run();

 private:
  Tuned trivial();
  void attempt(const Tuning& tuning);
  int owner() const;
  double all_by_s(DeviceId device, const Tuning& tuning) const;
  void attempt_ramps();
  void attempt_shares(std::int64_t end);
  void attempt_groups(const std::vector<Attempt>& ungrouped_ones, std::int64_t end);
  std::vector<Attempt> fastest(std::size_t most) const;
  int planned() const { return static_cast<int>(attempts_.size()); }
  std::vector<std::int64_t> tiles(const Grid& grid) const;
  std::vector<std::pair<std::int64_t, std::int64_t>> stretched(const Tuning& t) const;
  std::vector<Candidate> candidates() const;
  void add(std::vector<Candidate>& list, Tuning tuning) const;
  void add_out_of_core(std::vector<Candidate>& list, Tuning tuning) const;
  /// Tiles on a diagonal are square, and so are all.
  bool has_square_tiles() const {
    return problem_.traits().triangle || problem_.traits().has_side();
  }
  std::int64_t outer_size() const { return problem_.side == Side::left ? problem_.n : problem_.m; }
  std::int64_t tasks_of(const Tuning& t) const;

  const Problem& problem_;
  const Machine& machine_;
  const TuneRequest& request_;
  Tuning base_;
  std::optional<Estimator> estimator_;
  std::vector<Tuned> near_;        ///< the fastest so far and those that are nearly as fast
  std::vector<Attempt> attempts_;  ///< that there was a plan for
  double fastest_s_ = kNever;
  Error refusal_{Status::no_memory, "the memory caps hold no tile product"};
  std::int64_t spent_ = 0, budget_ = kLeastBudget;  ///< in tasks
  double affordable_ = 0;
};

// Nothing to multiply: where C lies it is scaled, or left alone.
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
  return tuned;
}

// Edges that cut a block into 1, 2, 3, ... pieces, and the one that the paper's cost likes best.
std::vector<std::int64_t> Tuner::tiles(const Grid& grid) const {
  if (request_.tile > 0) return {request_.tile};
  if (!base_.rules.has(Rule::tile)) return {kFixedTile};
  const int workers = static_cast<int>(base_.workers.size());
  const std::int64_t block_m = ceil_div(problem_.m * problem_.batch, grid.rows);
  const std::int64_t block_n = ceil_div(problem_.n, grid.cols);
  const std::int64_t longest = std::max({std::min(block_m, problem_.m), block_n, problem_.k});
  std::set<std::int64_t> edges;
  // Dealt to and fro, whole rounds over the rows and columns of the grid are equal parts of a
  // triangle: as long as that leaves tiles worth a product.
  const std::int64_t round = workers > 1 ? 2 * std::lcm(grid.rows, grid.cols) : 1;
  if (problem_.traits().triangle && problem_.n >= round * kLeastOfRound) {
    for (int rounds : {1, 2, 3, 4, 6, 8, 12, 16})
      if (const std::int64_t edge = ceil_div(problem_.n, round * rounds);
          edge <= kLargestTile && (edge >= kLeastOfRound / 2 || edges.empty()))
        edges.insert(edge);
    if (!edges.empty()) return {edges.begin(), edges.end()};
  }
  for (int pieces : {1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64}) {
    const std::int64_t edge = ceil_div(longest, pieces);
    if (edge <= kLargestTile || pieces == 64)
      edges.insert(std::max<std::int64_t>(edge, std::min<std::int64_t>(longest, 128)));
  }
  const std::int64_t least = std::min({block_m, block_n, problem_.k});
  std::int64_t best = 0;
  for (std::int64_t edge = 128; edge <= least; edge += 128)
    if (best == 0 || tile_cost(problem_, workers, edge) < tile_cost(problem_, workers, best))
      best = edge;
  if (best > 0) edges.insert(best);
  return {edges.begin(), edges.end()};
}

// Square tiles, and where columns that lie apart are slow on their way, longer ones of A and C
// (along m) and of B (along k). Transposed operands have their columns along the other edge.
std::vector<std::pair<std::int64_t, std::int64_t>> Tuner::stretched(const Tuning& t) const {
  std::vector<std::pair<std::int64_t, std::int64_t>> edges{{0, 0}};
  const bool may_stretch =
      request_.tile == 0 && base_.rules.has(Rule::tile) && !has_square_tiles() &&
      std::ranges::any_of(machine_.links, [](const Link& link) { return !link.columns.empty(); });
  if (!may_stretch || t.tile > kLongestStretched) return edges;
  const std::int64_t block_m =
      std::min(problem_.m, ceil_div(problem_.m * problem_.batch, t.grid.rows));
  for (const std::int64_t times_m : kStretches)
    for (const std::int64_t times_k : {1, 2, 4}) {
      const std::int64_t m = ceil_div(block_m, ceil_div(block_m, t.tile * times_m)),
                         k = std::min(t.tile * times_k, problem_.k);
      if (m <= t.tile && k <= t.tile) continue;
      if (std::pair edge{m, k}; edges.back() != edge) edges.push_back(edge);
    }
  return edges;
}

std::int64_t Tuner::tasks_of(const Tuning& t) const {
  const std::int64_t batch = problem_.batch;
  const std::int64_t rows =
      ceil_div(problem_.m,
               std::min(t.edge_m(),
                        std::max<std::int64_t>(1, ceil_div(problem_.m * batch, t.grid.rows)))) *
      batch;
  const std::int64_t cols = ceil_div(
      problem_.n, std::min(t.tile, std::max<std::int64_t>(1, ceil_div(problem_.n, t.grid.cols))));
  const std::int64_t steps = ceil_div(problem_.k, longest_step(problem_.type, t.edge_k()));
  const std::int64_t passes = t.group > 0 ? ceil_div(std::max(problem_.m, problem_.n), t.group) : 1;
  const std::int64_t tasks = rows * cols * steps + 3 * rows * cols;
  const RoutineTraits& traits = problem_.traits();
  return (traits.triangle || traits.triangular ? (tasks + 1) / 2 : tasks) * (traits.twice ? 2 : 1) +
         passes * steps * (rows * t.grid.cols + cols * t.grid.rows);
}

void Tuner::add(std::vector<Candidate>& list, Tuning t) const {
  Candidate c;
  c.estimate_s = estimator_->seconds(t);
  c.tasks = tasks_of(t);
  c.tuning = std::move(t);
  list.push_back(std::move(c));
}

void Tuner::add_out_of_core(std::vector<Candidate>& list, Tuning t) const {
  for (OutOfCore mode : {OutOfCore::stationary, OutOfCore::cube}) {
    if (mode == OutOfCore::cube && problem_.traits().triangular) continue;
    t.out_of_core = mode;
    t.group = largest_group(problem_, t);
    if (t.group > 0) add(list, t);
  }
}

std::vector<Candidate> Tuner::candidates() const {
  const int workers = static_cast<int>(base_.workers.size());
  const bool is_chosen = request_.grid.rows * request_.grid.cols == workers;
  const auto grids = is_chosen                     ? std::vector<Grid>{request_.grid}
                     : base_.rules.has(Rule::grid) ? grids_of(workers)
                                                   : std::vector<Grid>{near_square_grid(workers)};
  const bool may_split = base_.rules.has(Rule::outofcore);
  std::vector<Candidate> list;
  for (const Grid& grid : grids) {
    Tuning t = base_;
    t.grid = grid;
    for (std::int64_t tile : tiles(grid)) {
      t.tile = tile;
      for (const auto& [edge_m, edge_k] : stretched(t)) {
        t.tile_m = edge_m;
        t.tile_k = edge_k;
        if (fits_in_core(problem_, t) || !may_split)
          add(list, t);
        else
          add_out_of_core(list, t);
      }
      t.tile_m = t.tile_k = 0;
    }
    // Nothing fits at the tiles that would be fastest: smaller ones.
    if (list.empty())
      for (t.tile = tiles(grid).front() / 2; t.tile >= kLeastTile && list.empty(); t.tile /= 2)
        add_out_of_core(list, t);
  }
  double least_s = kNever;
  for (const Candidate& c : list) least_s = std::min(least_s, c.estimate_s);
  const auto rank = [&](const Candidate& c) {
    const double alike_s = std::max(c.estimate_s, kAlike * least_s);
    return std::tuple(c.tasks > kMostTasks, alike_s, c.tasks);
  };
  std::stable_sort(list.begin(), list.end(),
                   [&](const Candidate& a, const Candidate& b) { return rank(a) < rank(b); });
  return list;
}

// Plans and simulates one tuning and keeps it if it is the best so far. Tunings that fit nowhere,
// or for which there is no way, are passed over.
void Tuner::attempt(const Tuning& tuning) {
  try {
    Plan plan = make_plan(problem_, machine_, tuning);
    const double seconds = simulate(plan, machine_).seconds;
    const auto tasks = static_cast<std::int64_t>(plan.tasks.size());
    spent_ += tasks;
    const double wanted = kBudgetFactor * static_cast<double>(tasks);
    budget_ = std::max(budget_, static_cast<std::int64_t>(std::min(wanted, affordable_)));
    attempts_.push_back({seconds, tasks, tuning});
    fastest_s_ = std::min(fastest_s_, seconds);
    near_.push_back({.plan = std::move(plan), .predicted_s = seconds});
    std::erase_if(near_, [&](const Tuned& t) { return t.predicted_s > kNear * fastest_s_; });
  } catch (const Error& e) {
    if (e.status() != Status::no_memory && e.status() != Status::unreachable) throw;
    refusal_ = e;
  }
}

Tuned Tuner::run() {
  if (problem_.k == 0 || problem_.m == 0 || problem_.n == 0) return trivial();
  const std::vector<Candidate> list = candidates();
  const double run_s = list.empty() ? 0 : list.front().estimate_s;
  affordable_ = kLargestShare * run_s * kTasksPerSecond;
  const double usual = std::max(kUsualBudget, kUsualShare * run_s * kTasksPerSecond);
  budget_ = std::max(budget_, static_cast<std::int64_t>(std::min(affordable_, usual)));
  bool seen[3] = {};  // of each way to deal with memory, one at least is tried
  for (const Candidate& c : list) {
    bool& mode = seen[static_cast<std::size_t>(c.tuning.out_of_core)];
    if (planned() >= kMostPlanned) break;
    if (planned() > 0 && mode && spent_ + c.tasks > budget_ * 2 / 3) continue;
    const int before = planned();
    attempt(c.tuning);
    mode |= planned() > before;
  }
  if (planned() == 0) throw refusal_;
  const std::int64_t for_groups = std::max(budget_ - spent_, budget_ / 2);
  if (base_.rules.has(Rule::tile)) attempt_ramps();
  std::vector<Attempt> to_group = fastest(kMostGrouped);
  if (base_.rules.has(Rule::grid)) {
    attempt_shares(spent_ + budget_ / 5);
    if (const Attempt best = fastest(1).front(); best.seconds < to_group.front().seconds)
      to_group.insert(to_group.begin(), best);
  }
  if (base_.rules.has(Rule::order)) attempt_groups(to_group, spent_ + for_groups);
  const auto surest = std::ranges::min_element(near_, {}, [&](const Tuned& t) {
    return std::max(t.predicted_s, kSame * fastest_s_) +
           machine_.issue_s * static_cast<double>(t.plan.tasks.size());
  });
  surest->planned = planned();
  return std::move(*surest);
}

std::vector<Attempt> Tuner::fastest(std::size_t most) const {
  std::vector<Attempt> sorted = attempts_;
  std::ranges::stable_sort(sorted, {}, &Attempt::seconds);
  if (sorted.size() > most) sorted.resize(most);
  return sorted;
}

// Until the first tiles are there nothing multiplies: 6 of 92 ms (16384 from the host, two H200).
// Half types round C at each step, so theirs stay as few as they are.
void Tuner::attempt_ramps() {
  if (is_half(problem_.type) || request_.tile > 0 || problem_.traits().has_side()) return;
  for (const Attempt& even : fastest(kMostRamped)) {
    Tuning ramped = even.tuning;
    if (ramped.out_of_core == OutOfCore::cube) continue;
    ramped.ramp = kRamp;
    attempt(ramped);
  }
}

/// The worker at whose home tiles of C need not travel, or else neither A nor B; -1 if none.
int Tuner::owner() const {
  const auto& operands = problem_.operands;
  DeviceId home = operands[kC].home;
  if (on_host(home) && operands[kA].home == operands[kB].home) home = operands[kA].home;
  const auto found = std::ranges::find(base_.workers, home);
  return found == base_.workers.end() ? -1 : static_cast<int>(found - base_.workers.begin());
}

// The others wait for links when the owner is done with an equal part, and what it does itself
// needs none. It gets as much as takes it as long as the whole: more than the bound leaves to it,
// and less than with equal parts, whose time is longer.
void Tuner::attempt_shares(std::int64_t end) {
  const int favoured = owner();
  const auto workers = static_cast<int>(base_.workers.size());
  if (favoured < 0 || workers < 2 || problem_.batch > 1 || problem_.traits().triangle ||
      problem_.traits().triangular)
    return;
  const double bound_s = bound(problem_, machine_).seconds;
  for (const Attempt& equal : fastest(kMostShared)) {
    if (equal.tuning.out_of_core != OutOfCore::none) continue;
    const double alone_s =
        all_by_s(base_.workers[static_cast<std::size_t>(favoured)], equal.tuning);
    double seconds = equal.seconds;
    for (int round = 0; round < kShareRounds && spent_ + equal.tasks <= end; ++round) {
      const double share = std::min((seconds + bound_s) / 2 / alone_s, kMostOwned);
      const int before = planned();
      if (share * workers < kWorthFavouring) break;
      attempt(favour(equal.tuning, favoured, share));
      if (planned() == before || attempts_.back().seconds >= seconds) break;
      seconds = attempts_.back().seconds;
    }
  }
}

/// Seconds of the whole problem on one device that has all of it, in these tiles.
double Tuner::all_by_s(DeviceId device, const Tuning& tuning) const {
  const std::int64_t m = std::min(tuning.edge_m(), problem_.m),
                     n = std::min(tuning.tile, problem_.n),
                     k = std::min(longest_step(problem_.type, tuning.edge_k()), problem_.k);
  const auto volume = [](std::int64_t x, std::int64_t y, std::int64_t z) {
    return static_cast<double>(x) * static_cast<double>(y) * static_cast<double>(z);
  };
  return machine_.multiply_s(device, problem_.type, m, n, k) *
         volume(problem_.m, problem_.n, problem_.k) / volume(m, n, k);
}

void Tuner::attempt_groups(const std::vector<Attempt>& ungrouped_ones, std::int64_t end) {
  const std::int64_t whole = std::max(problem_.m, problem_.n);
  for (const auto& [rows, cols] : kGroups)
    for (const Attempt& ungrouped : ungrouped_ones) {
      Tuning grouped = ungrouped.tuning;
      if (grouped.group > 0 || spent_ + ungrouped.tasks > end) continue;
      if (problem_.traits().triangular) {
        if (rows != 1 || outer_size() < cols * grouped.tile) continue;
        grouped.group = ceil_div(outer_size(), cols);
      } else if (rows == 1) {
        if (has_square_tiles() || problem_.n < cols * grouped.tile) continue;
        grouped.group = ceil_div(problem_.n, cols);
        grouped.group_m = problem_.m * problem_.batch;
      } else {
        if (whole < rows * grouped.tile) continue;
        grouped.group = ceil_div(whole, rows);
      }
      attempt(grouped);
    }
}

}  // namespace

Tuned tune(const Problem& problem, const Machine& machine, const TuneRequest& request) {
  if (problem.traits().vectors && problem.k > 0 && problem.n > 0)
    return tune_vectors(problem, machine, request);
  return Tuner(problem, machine, request).run();
}

}  // namespace fleet
