// SPDX-License-Identifier: BSD-3-Clause
// candidates.cpp: lists the tunings to consider, in the order of their estimates. It makes no plan.
#include "tune/candidates.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "base/sizes.hpp"
#include "plan/detours.hpp"
#include "plan/pools.hpp"
#include "program/decompose.hpp"
#include "tune/cpu_share.hpp"
#include "tune/fits.hpp"
#include "tune/limits.hpp"

namespace fleet {
namespace {

class Lister {
 public:
  Lister(const Problem& problem, const Machine& machine, const TuneRequest& request,
         const Tuning& base, const Estimator& estimator)
      : problem_(problem),
        machine_(machine),
        request_(request),
        base_(base),
        estimator_(estimator) {}

  std::vector<Considered> all() const;
  std::vector<Considered> few_tiles_of_parts() const;

 private:
  std::vector<Grid> grids() const;
  std::vector<std::int64_t> tiles(const Grid& grid) const;
  bool has_slow_columns() const {
    return std::ranges::any_of(machine_.links,
                               [](const Link& link) { return !link.columns.empty(); });
  }
  void add_uneven(std::vector<Considered>& list, std::size_t even, Tuning tuning) const;
  std::vector<std::pair<std::int64_t, std::int64_t>> stretched(const Tuning& t) const;
  void add(std::vector<Considered>& list, Tuning tuning) const;
  void add_out_of_core(std::vector<Considered>& list, Tuning tuning) const;
  bool may_split(const Tuning& tuning) const;
  void add_split(std::vector<Considered>& list, Tuning tuning) const;
  /// The longest pieces of m, n and k, and the numbers of pieces, those of m over all items.
  struct Pieces {
    std::int64_t m, n, k, rows, cols, steps;
  };
  Pieces pieces(const Tuning& t) const;
  std::int64_t tasks_of(const Tuning& t) const;
  std::int64_t ring_bytes(const Tuning& t) const;
  std::int64_t most_ring_bytes() const;
  void keep_small_rings(std::vector<Considered>& list) const;

  const Problem& problem_;
  const Machine& machine_;
  const TuneRequest& request_;
  const Tuning& base_;
  const Estimator& estimator_;
};

// Tile edges that cut a block into 1, 2, 3, ... pieces, and the one with the least tile_cost.
std::vector<std::int64_t> Lister::tiles(const Grid& grid) const {
  if (request_.tile > 0) return {request_.tile};
  if (!base_.rules.has(Rule::tile)) return {limits::kFixedTile};
  const int workers = static_cast<int>(base_.workers.size());
  const std::int64_t block_m = ceil_div(problem_.m * problem_.batch, grid.rows);
  const std::int64_t block_n = ceil_div(problem_.n, grid.cols);
  const std::int64_t longest = std::max({std::min(block_m, problem_.m), block_n, problem_.k});
  std::set<std::int64_t> edges;
  // Whole rounds dealt to and fro over the rows and columns of the grid give every worker an equal
  // part of a triangle. They are tried as long as tiles stay large enough for a product.
  const std::int64_t round = workers > 1 ? 2 * std::lcm(grid.rows, grid.cols) : 1;
  if (problem_.traits().triangle && problem_.n >= round * limits::kLeastOfRound) {
    for (const std::int64_t rounds : limits::kRounds)
      if (const std::int64_t edge = ceil_div(problem_.n, round * rounds);
          edge <= limits::kLargestTile && (edge >= limits::kLeastOfRound / 2 || edges.empty()))
        edges.insert(edge);
    if (!edges.empty()) return {edges.begin(), edges.end()};
  }
  for (const std::int64_t pieces : limits::kPieces) {
    const std::int64_t edge = ceil_div(longest, pieces);
    if (edge <= limits::kLargestTile || pieces == limits::kPieces.back())
      edges.insert(std::max(edge, std::min(longest, limits::kEdgeStep)));
  }
  const std::int64_t least = std::min({block_m, block_n, problem_.k});
  std::int64_t best = 0;
  for (std::int64_t edge = limits::kEdgeStep; edge <= least; edge += limits::kEdgeStep)
    if (best == 0 || tile_cost(problem_, workers, edge) < tile_cost(problem_, workers, best))
      best = edge;
  if (best > 0) edges.insert(best);
  return {edges.begin(), edges.end()};
}

// Edges (m, k) of square tiles, and if links are slow on strided columns also longer tiles of A and
// C (along m) and of B (along k). The columns of transposed operands run along the other edge. A
// symmetric or triangular A has square tiles, and what it multiplies needs a row of them: theirs
// are not longer than other square ones that are tried.
std::vector<std::pair<std::int64_t, std::int64_t>> Lister::stretched(const Tuning& t) const {
  std::vector<std::pair<std::int64_t, std::int64_t>> edges{{0, 0}};
  const bool may_stretch = request_.tile == 0 && base_.rules.has(Rule::tile) &&
                           !problem_.traits().triangle && has_slow_columns();
  if (!may_stretch || t.tile > limits::kLongestStretched) return edges;
  const std::int64_t block_m =
      std::min(problem_.m, ceil_div(problem_.m * problem_.batch, t.grid.rows));
  for (const std::int64_t times_m : limits::kStretchesM)
    for (const std::int64_t times_k : limits::kStretchesK) {
      const std::int64_t m = ceil_div(block_m, ceil_div(block_m, t.tile * times_m)),
                         k = std::min(t.tile * times_k, problem_.k);
      if (m <= t.tile && k <= t.tile) continue;
      if (problem_.traits().has_side() && (times_k > 1 || m > limits::kLongestStretched)) continue;
      if (std::pair edge{m, k}; std::ranges::find(edges, edge) == edges.end())
        edges.push_back(edge);
    }
  return edges;
}

Lister::Pieces Lister::pieces(const Tuning& t) const {
  const auto of_block = [](std::int64_t edge, std::int64_t length, std::int64_t parts) {
    return std::min(edge, std::max<std::int64_t>(1, ceil_div(length, parts)));
  };
  Pieces p{.m = of_block(t.edge_m(), problem_.m * problem_.batch, t.grid.rows),
           .n = of_block(t.tile, problem_.n, t.grid.cols),
           .k = std::min(longest_step(problem_.type.storage, t.edge_k()), problem_.k)};
  if (problem_.traits().has_side()) p.k = problem_.side == Side::left ? p.m : p.n;
  p.rows = ceil_div(problem_.m, p.m) * problem_.batch;
  p.cols = ceil_div(problem_.n, p.n);
  p.steps = ceil_div(problem_.k, p.k);
  return p;
}

std::int64_t Lister::tasks_of(const Tuning& t) const {
  const Pieces p = pieces(t);
  const std::int64_t passes = t.group > 0 ? ceil_div(std::max(problem_.m, problem_.n), t.group) : 1;
  const std::int64_t tasks = p.rows * p.cols * p.steps + 3 * p.rows * p.cols;
  const RoutineTraits& traits = problem_.traits();
  return (traits.triangle || traits.triangular ? (tasks + 1) / 2 : tasks) * (traits.twice ? 2 : 1) +
         passes * p.steps * (p.rows * t.grid.cols + p.cols * t.grid.rows);
}

// Each slot holds the largest tile of any matrix; a plan with few tiles has fewer. Blocks of uneven
// parts, which are tried later, may have longer pieces than even ones.
std::int64_t Lister::ring_bytes(const Tuning& t) const {
  const Pieces p = pieces(t);
  const std::int64_t m = std::min(t.edge_m(), problem_.m), n = std::min(t.tile, problem_.n);
  const std::int64_t tiles = p.rows * p.steps + p.steps * p.cols + 2 * p.rows * p.cols;
  return std::min(ring_slots(t), tiles) * std::max({m * p.k, p.k * n, m * n}) *
         bytes_of(problem_.type.storage);
}

/// Without pageable operands there is no ring.
std::int64_t Lister::most_ring_bytes() const {
  double pageable_bytes = 0;
  for (int o = 0; o < std::ssize(problem_.operands); ++o)
    if (problem_.operands[o].home == kPageable) pageable_bytes += bytes_that_count(problem_, o);
  if (request_.tile > 0 || pageable_bytes == 0) return std::numeric_limits<std::int64_t>::max();
  return std::max(limits::kMostRingBytes,
                  static_cast<std::int64_t>(limits::kRingShare * pageable_bytes));
}

void Lister::keep_small_rings(std::vector<Considered>& list) const {
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (const Considered& c : list) most = std::min(most, ring_bytes(c.tuning));
  most = std::max(most, most_ring_bytes());
  std::erase_if(list, [&](const Considered& c) { return ring_bytes(c.tuning) > most; });
}

void Lister::add(std::vector<Considered>& list, Tuning t) const {
  Considered c;
  c.estimate_s = estimator_.seconds(t);
  c.tasks = tasks_of(t);
  c.tuning = std::move(t);
  list.push_back(std::move(c));
}

// Tiles of a triangle that are no whole rounds, where links are so much faster on their columns
// that it may outweigh the uneven parts. `even`: where those of whole rounds begin in the list.
void Lister::add_uneven(std::vector<Considered>& list, std::size_t even, Tuning t) const {
  if (!problem_.traits().triangle || request_.tile > 0 || !base_.rules.has(Rule::tile) ||
      base_.workers.size() == 1 || even == list.size() || !has_slow_columns())
    return;
  double least_s = std::numeric_limits<double>::infinity();
  for (std::size_t i = even; i < list.size(); ++i) least_s = std::min(least_s, list[i].estimate_s);
  for (const std::int64_t pieces : limits::kPieces) {
    if (pieces < std::max(t.grid.rows, t.grid.cols)) continue;  // some workers would have none
    t.tile = ceil_div(problem_.n, pieces);
    if (t.tile < limits::kLeastOfRound / 2) return;
    if (t.tile <= limits::kLargestTile && fits_in_core(problem_, t) &&
        estimator_.seconds(t) < limits::kWorthUnevenParts * least_s)
      add(list, t);
  }
}

void Lister::add_out_of_core(std::vector<Considered>& list, Tuning t) const {
  t.out_of_core = OutOfCore::stationary;
  const std::int64_t stationary = t.group = largest_group(problem_, t);
  if (t.group > 0) add(list, t);
  if (problem_.traits().triangular) return;
  t.out_of_core = OutOfCore::cube;
  t.group = largest_group(problem_, t);
  // With k in a single cube that is the same plan.
  const bool cubes = t.group < problem_.k && !problem_.traits().has_side();
  if (t.group > 0 && (cubes || t.group != stationary)) add(list, t);
}

// Parts of k for the rows of the grid, where C is small beside k.
bool Lister::may_split(const Tuning& t) const {
  return t.grid.rows > 1 && may_split_k(problem_) && base_.rules.has(Rule::grid) &&
         problem_.k >= limits::kSplitAspect * std::max(problem_.m, problem_.n);
}

// In a few steps each.
void Lister::add_split(std::vector<Considered>& list, Tuning t) const {
  if (!may_split(t)) return;
  t.split_k = true;
  const std::int64_t part = ceil_div(problem_.k, t.grid.rows);
  const std::int64_t longest = std::max({problem_.m, ceil_div(problem_.n, t.grid.cols), part});
  for (const std::int64_t pieces : limits::kSplitPieces) {
    t.tile = request_.tile > 0 ? request_.tile : ceil_div(longest, pieces);
    if (t.tile <= limits::kLargestTile && fits_in_core(problem_, t)) add(list, t);
    if (request_.tile > 0) return;
  }
}

std::vector<Considered> Lister::few_tiles_of_parts() const {
  std::vector<Considered> list;
  if (request_.tile > 0 || !base_.rules.has(Rule::tile)) return list;
  for (const Grid& grid : grids()) {
    Tuning t = base_;
    t.grid = grid;
    if (!may_split(t) || grid.cols > limits::kMostColumnsOfParts) continue;
    t.split_k = true;
    for (const auto& [rows, cols, steps] : limits::kTilesOfPart) {
      t.tile_m = ceil_div(problem_.m, rows);
      t.tile = ceil_div(ceil_div(problem_.n, grid.cols), cols);
      t.tile_k = ceil_div(ceil_div(problem_.k, grid.rows), steps);
      if (std::max({t.tile_m, t.tile, t.tile_k}) <= limits::kLargestTile &&
          fits_in_core(problem_, t) && ring_bytes(t) <= most_ring_bytes())
        add(list, t);
    }
  }
  return list;
}

std::vector<Grid> Lister::grids() const {
  const int workers = static_cast<int>(base_.workers.size());
  if (request_.grid.rows * request_.grid.cols == workers) return {request_.grid};
  return base_.rules.has(Rule::grid) ? grids_of(workers)
                                     : std::vector<Grid>{near_square_grid(workers)};
}

std::vector<Considered> Lister::all() const {
  const bool may_leave_core = base_.rules.has(Rule::outofcore);
  std::vector<Considered> list;
  for (const Grid& grid : grids()) {
    Tuning t = base_;
    t.grid = grid;
    const std::size_t even = list.size();
    for (std::int64_t tile : tiles(grid)) {
      t.tile = tile;
      for (const auto& [edge_m, edge_k] : stretched(t)) {
        t.tile_m = edge_m;
        t.tile_k = edge_k;
        if (fits_in_core(problem_, t) || !may_leave_core)
          add(list, t);
        else
          add_out_of_core(list, t);
      }
      t.tile_m = t.tile_k = 0;
    }
    add_uneven(list, even, t);
    add_split(list, t);
    // Nothing fits with the fastest tiles, so smaller ones are tried.
    if (list.empty())
      for (t.tile = tiles(grid).front() / 2; t.tile >= limits::kLeastTile && list.empty();
           t.tile /= 2)
        add_out_of_core(list, t);
  }
  keep_small_rings(list);
  double least_s = std::numeric_limits<double>::infinity();
  for (const Considered& c : list) least_s = std::min(least_s, c.estimate_s);
  const auto rank = [&](const Considered& c) {
    const double alike_s = std::max(c.estimate_s, limits::kAlike * least_s);
    return std::tuple(c.tasks > limits::kMostTasks, alike_s, c.tasks);
  };
  std::stable_sort(list.begin(), list.end(),
                   [&](const Considered& a, const Considered& b) { return rank(a) < rank(b); });
  return list;
}

}  // namespace

Tuning base_tuning(const Problem& problem, const Machine& machine, const TuneRequest& request) {
  Tuning base;
  base.rules = request.rules;
  base.own_copies = request.own_copies;
  base.max_hops = request.max_hops;
  if (why_no_cpu(problem, machine, request).empty()) base.cpu_part = request.cpu_part;
  base.workers = request.workers;
  if (base.workers.empty())
    for (DeviceId d = kFirstDevice; d < std::ssize(machine.devices); ++d)
      if (machine.can_compute(d, problem.type)) base.workers.push_back(d);
  if (base.workers.empty())
    throw Error(Status::unsupported,
                "no device of machine '" + machine.name + "' computes this type");
  // Where no way over a worker is faster, nothing has to be kept ready for one.
  if (Detours(machine, LinkTable(machine), base).empty()) base.max_hops = 0;
  base.memory_cap = request.memory_cap;
  if (base.memory_cap.empty())
    for (const Device& d : machine.devices)
      base.memory_cap.push_back(
          static_cast<std::int64_t>(limits::kMemoryShare * static_cast<double>(d.memory_bytes)));
  return base;
}

bool has_square_tiles(const Problem& problem) {
  return problem.traits().triangle || problem.traits().has_side();
}

std::vector<Considered> candidates(const Problem& problem, const Machine& machine,
                                   const TuneRequest& request, const Tuning& base,
                                   const Estimator& estimator) {
  return Lister(problem, machine, request, base, estimator).all();
}

std::vector<Considered> few_tiles_of_parts(const Problem& problem, const Machine& machine,
                                           const TuneRequest& request, const Tuning& base,
                                           const Estimator& estimator) {
  return Lister(problem, machine, request, base, estimator).few_tiles_of_parts();
}

std::optional<Tuning> shared(Tuning tuning, const Problem& problem, const Machine& machine,
                             const TuneRequest& request) {
  const auto shares = [&](DeviceId worker) {
    return machine.devices[static_cast<std::size_t>(worker)].shares_host;
  };
  if (tuning.own_copies || request.preset != Preset::none || problem.traits().triangular ||
      tuning.split_k || tuning.out_of_core != OutOfCore::none ||
      !std::ranges::all_of(tuning.workers, shares))
    return {};
  const auto has_home = [&](DeviceId home) {
    return std::ranges::find(problem.operands, home, &Operand::home) != problem.operands.end();
  };
  const bool has_pageable = has_home(kPageable);
  if ((has_pageable && !request.shares_pageable) || (!has_pageable && !has_home(kHost))) return {};
  tuning.sharing = tuning.workers;
  return tuning;
}

}  // namespace fleet
