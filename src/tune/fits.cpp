// SPDX-License-Identifier: BSD-3-Clause
// fits.cpp: the device memory that a tuning needs, computed from sizes alone.
#include "tune/fits.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/sizes.hpp"
#include "program/decompose.hpp"
#include "tune/limits.hpp"

namespace fleet {
namespace {

std::int64_t least_cap(const Tuning& t) {
  std::int64_t cap = INT64_MAX;
  for (DeviceId w : t.workers)
    if (!on_host(w)) cap = std::min(cap, t.memory_cap[static_cast<std::size_t>(w)]);
  return cap;
}

bool lazy(const Problem& problem, const Tuning& t) {
  const auto& o = problem.operands;
  return t.rules.has(Rule::lazy) && o[kC].access == Access::update &&
         (o[kA].home == o[kC].home || o[kB].home == o[kC].home);
}

// A worker holds its rows of op(A), half of which are zero, its part of C, and, for trmm or if
// several workers share a strip of C, the tiles of that whole strip.
bool fits_with_triangle(const Problem& problem, const Tuning& t) {
  const bool left = problem.side == Side::left;
  const std::int64_t along = left ? t.grid.rows : t.grid.cols,
                     across = left ? t.grid.cols : t.grid.rows;
  const double order = static_cast<double>(problem.k);
  const double outer = static_cast<double>(ceil_div((left ? problem.n : problem.m), across));
  const double of_a = (order + static_cast<double>(along * (left ? t.edge_m() : t.tile))) * order /
                      2 / static_cast<double>(along);
  const double of_c = order * outer;
  const bool seen = along > 1 || !problem.traits().solves;
  const double elements = of_a + of_c / static_cast<double>(along) + (seen ? of_c : 0);
  return limits::kSpareBytes + limits::kRoundedTriangle * elements *
                                   static_cast<double>(bytes_of(problem.type.storage)) <=
         static_cast<double>(least_cap(t));
}

bool group_fits(const Problem& problem, const Tuning& t, std::int64_t group) {
  Tuning trial = t;
  trial.group = group;
  const Decomposition made = decompose(problem, trial);
  const Dealing& d = made.deal;
  // The most pieces of one owner in one group, or (`stays`) in all groups together.
  const auto most = [](const std::vector<int>& owner, const std::vector<int>& of, bool stays) {
    std::map<std::pair<int, int>, std::int64_t> counts;
    std::int64_t largest = 0;
    for (std::size_t i = 0; i < of.size(); ++i)
      largest = std::max(largest, ++counts[{stays ? 0 : of[i], owner[i]}]);
    return largest;
  };
  // Solved tiles stay until every tile that depends on them is solved, and trmm needs all of C.
  const bool left = problem.side == Side::left, triangular = problem.traits().triangular;
  const std::int64_t rows = most(d.row_owner, d.row_group, triangular && left);
  const std::int64_t cols = most(d.col_owner, d.col_group, triangular && !left);
  const std::int64_t edge_m = longest_piece(made.cuts.m), edge_n = longest_piece(made.cuts.n),
                     edge_k = longest_piece(made.cuts.k);
  const std::int64_t element = bytes_of(problem.type.storage);
  const auto aligned = [](std::int64_t bytes) { return round_up(bytes, kAlignmentBytes); };
  const std::int64_t input = aligned(std::max(edge_m, edge_n) * edge_k * element);
  const std::int64_t output = aligned(edge_m * edge_n * element);
  const std::int64_t steps =
      t.out_of_core == OutOfCore::cube
          ? std::max<std::int64_t>(
                1, ceil_div(std::min(group, problem.k), std::max<std::int64_t>(1, edge_k)))
          : limits::kStepsInMemory;
  if (triangular) {
    const std::int64_t seen =
        static_cast<std::int64_t>(tile_count(made.cuts.k)) * (left ? cols : rows);
    return (rows * cols + limits::kMovingOutputs) * output +
               (seen + limits::kMovingInputs) * input <=
           least_cap(t);
  }
  const std::int64_t targets = std::max(rows * cols, d.most_single_tiles());
  return (targets + limits::kMovingOutputs) * output + steps * (rows + cols) * input <=
         least_cap(t);
}

}  // namespace

bool fits_in_core(const Problem& problem, const Tuning& t) {
  if (problem.traits().triangular) return fits_with_triangle(problem, t);
  const std::int64_t element = bytes_of(problem.type.storage), batch = problem.batch;
  if (t.split_k) {
    // Its parts of both factors, its sums, and for the first part those of all others.
    const std::int64_t n = ceil_div(problem.n, t.grid.cols), k = ceil_div(problem.k, t.grid.rows);
    const auto elements = static_cast<double>((problem.m + n) * k + t.grid.rows * problem.m * n);
    return limits::kSpareBytes + limits::kRounded * elements * static_cast<double>(element) <=
           static_cast<double>(least_cap(t));
  }
  const std::int64_t m = ceil_div(problem.m * batch, t.grid.rows),
                     n = ceil_div(problem.n, t.grid.cols);
  const auto away = [&](int x) {
    return t.own_copies || t.workers.size() > 1 ||
           problem.operands[static_cast<std::size_t>(x)].home != t.workers[0];
  };
  double bytes = limits::kSpareBytes;
  // If a matrix serves as both factors (syrk), or two matrices do (syr2k), a worker needs its rows
  // and its columns of each.
  if (problem.traits().twice)
    bytes += limits::kRounded * static_cast<double>((m + n) * problem.k * element);
  if (away(kA)) bytes += limits::kRounded * static_cast<double>(m * problem.k * element);
  if (away(kB))
    bytes += limits::kRounded * static_cast<double>(problem.k * n * element) *
             (problem.operands[kB].shared
                  ? 1.0
                  : static_cast<double>(std::max<std::int64_t>(1, batch / t.grid.rows)));
  if (away(kC))
    bytes += limits::kRounded * static_cast<double>(m * n * element) * (lazy(problem, t) ? 2 : 1);
  return bytes <= static_cast<double>(least_cap(t));
}

std::int64_t largest_group(const Problem& problem, const Tuning& t) {
  const std::int64_t whole =
      std::max({problem.m, problem.n, t.out_of_core == OutOfCore::cube ? problem.k : 1});
  for (std::int64_t pieces = 1; pieces <= limits::kMostPieces;
       pieces += std::max<std::int64_t>(1, pieces / 4)) {
    const std::int64_t group = ceil_div(whole, pieces);
    if (group_fits(problem, t, group)) return group;
    if (group <= t.tile && group <= limits::kLeastTile) break;
  }
  return 0;
}

}  // namespace fleet
