// SPDX-License-Identifier: BSD-3-Clause
// solve.cpp: back substitution, block by block.
#include <cmath>

#include "factor/factor.hpp"

namespace fleet::lu {
namespace {

/// y -= (rows x cols of a)*x. Four columns at a time: y is rounded a quarter as often.
void subtract(const double* a, std::int64_t ld, std::int64_t rows, std::int64_t cols,
              const double* x, double* y) {
  std::int64_t c = 0;
  for (; c + 4 <= cols; c += 4) {
    const double* const a0 = a + c * ld;
    const double *const a1 = a0 + ld, *const a2 = a1 + ld, *const a3 = a2 + ld;
    for (std::int64_t r = 0; r < rows; ++r)
      y[r] -= (a0[r] * x[c] + a1[r] * x[c + 1]) + (a2[r] * x[c + 2] + a3[r] * x[c + 3]);
  }
  for (; c < cols; ++c)
    for (std::int64_t r = 0; r < rows; ++r) y[r] -= a[r + c * ld] * x[c];
}

}  // namespace

std::vector<double> solve(const Grid& grid, System& system, const Rank& rank) {
  const std::int64_t n = system.rows.n, nb = system.rows.nb;
  std::vector<double> x(static_cast<std::size_t>(std::max<std::int64_t>(1, system.local_cols)));
  // What this rank's columns leave of its rows' right sides; their sum over the row of the grid is
  // what is left.
  std::vector<double> left(static_cast<std::size_t>(std::max<std::int64_t>(1, system.local_rows)));
  if (grid.col == system.cols.owner(n))
    std::copy_n(system.at(0, system.cols.local(n)), system.local_rows, left.begin());
  for (std::int64_t block = system.rows.count() - 1; block >= 0; --block) {
    const std::int64_t begin = block * nb, width = std::min(nb, n - begin);
    const int row = system.rows.owner(begin), col = system.cols.owner(begin);
    const std::int64_t above = system.rows.local_begin(begin, grid.row);
    std::vector<double> part(static_cast<std::size_t>(width));
    if (grid.row == row) {
      std::copy_n(left.begin() + above, width, part.begin());
      grid.row_ranks->reduce(part, Reduction::sum);
      if (grid.col == col)
        rank.all_cores.solve({FLEET_LEFT, FLEET_UPPER, FLEET_NO_TRANS, FLEET_NON_UNIT,
                              system.at(above, system.cols.local(begin)), system.ld},
                             width, 1, part.data(), width);
    }
    if (grid.col != col) continue;
    grid.col_ranks->broadcast(part, row)->wait();
    const std::int64_t local = system.cols.local(begin);
    std::ranges::copy(part, x.begin() + local);
    subtract(system.at(0, local), system.ld, above, width, part.data(), left.data());
  }
  return x;
}

}  // namespace fleet::lu
