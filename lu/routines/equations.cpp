// SPDX-License-Identifier: BSD-3-Clause
// equations.cpp: Linpack's factorization on a copy of A, which leaves rows of L where their panel
// had them: on their way back to A they take the places that later pivots give them.
#include "routines/equations.hpp"

#include <optional>

#include "routines/row_order.hpp"
#include "routines/solution.hpp"

namespace fleet::lu {

struct Equations::Copy {
  /// The same ranks, with the first block of A on the first one: Linpack's matrices begin there.
  struct TurnedGrid {
    TurnedGrid(const Grid& grid, const Dealt& a) {
      if (a.rows.first == 0 && a.cols.first == 0) return;
      const int row = (grid.row - a.rows.first + grid.rows) % grid.rows;
      const int col = (grid.col - a.cols.first + grid.cols) % grid.cols;
      ranks = grid.all.split(0, row * grid.cols + col);
      turned.emplace(*ranks, grid.rows, grid.cols);
    }
    const Grid& or_else(const Grid& grid) const { return turned ? *turned : grid; }

    std::unique_ptr<Comm> ranks;
    std::optional<Grid> turned;
  };

  Copy(const Grid& grid, const Dealt& a, Overlap overlap)
      : turned(grid, a), on(turned.or_else(grid)), system(on, a.rows.size(), a.rows.blocks.nb) {
    workspace.touch(on, system, overlap);
  }
  TurnedGrid turned;
  const Grid& on;
  System system;
  Workspace workspace;
};

Equations::Equations(const Grid& grid, const Dealt& a, Overlap overlap)
    : grid_(grid), a_(a), overlap_(overlap) {
  if (a.rows.size() > 0) copy_ = std::make_unique<Copy>(grid, a, overlap);
}

Equations::~Equations() = default;

Factored Equations::factor(const Rank& rank) {
  const Grid& grid = grid_;
  const Dealt& a = a_;
  const std::int64_t n = a.rows.size(), nb = a.rows.blocks.nb;
  if (n == 0) return {};
  System& system = copy_->system;
  const std::int64_t rows = a.rows.local_size(grid.row), cols = a.cols.local_size(grid.col);
  for (std::int64_t c = 0; c < cols; ++c) std::copy_n(a.at(0, c), rows, system.at(0, c));
  // The right side, which there is none of.
  for (std::int64_t c = cols; c < system.local_cols; ++c) std::fill_n(system.at(0, c), rows, 0.0);
  Factored result;
  try {
    result = lu::factor(copy_->on, system, copy_->workspace, rank, {.overlap = overlap_});
  } catch (...) {
    keep_for_ever(std::shared_ptr<Copy>(std::move(copy_)));
    throw;
  }
  for (std::int64_t block = 0; block < a.cols.blocks.count(); ++block) {
    const std::int64_t begin = block * nb, end = std::min(n, begin + nb);
    if (a.cols.owner(begin) != grid.col) continue;
    const std::int64_t local = a.cols.local(begin), above = a.rows.local_begin(end, grid.row);
    for (std::int64_t c = local; c < local + end - begin; ++c)
      std::copy_n(system.at(0, c), above, a.at(0, c));
    const Range below{end, n};
    take_rows(grid, rank, a.rows, below, sources_of(result.pivots, below, n),
              {system.at(0, local), system.ld, end - begin}, {a.at(0, local), a.ld, end - begin},
              block);
  }
  copy_.reset();
  return result;
}

void solve_equations(const Grid& grid, const ConstDealt& a, std::span<const std::int64_t> pivots,
                     const Dealt& b, const Rank& rank, Overlap overlap) {
  const std::int64_t n = b.rows.size(), cols = b.cols.local_size(grid.col);
  take_rows(grid, rank, b.rows, {0, n}, sources_of(pivots, {0, n}, n), {b.elements, b.ld, cols},
            {b.elements, b.ld, cols}, 0);
  solve(grid, {FLEET_LEFT, FLEET_LOWER, FLEET_NO_TRANS, FLEET_UNIT, 1, a, b}, rank, overlap);
  solve(grid, {FLEET_LEFT, FLEET_UPPER, FLEET_NO_TRANS, FLEET_NON_UNIT, 1, a, b}, rank, overlap);
}

std::int64_t most_numbers_of_equations(const Grid& grid, const Dealt& a) {
  // Of a panel and its pivots, and of its rows in all columns; the right side's column is one more.
  const std::int64_t width = std::min(a.rows.blocks.nb, a.rows.size());
  return 1 +
         width * (width + 2 + std::max(a.rows.local_size(grid.row), a.cols.local_size(grid.col)));
}

}  // namespace fleet::lu
