// SPDX-License-Identifier: BSD-3-Clause
// solve.cpp: back substitution, block by block.
#include <algorithm>

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

/// By the host.
class HostSubstitution final : public Substitution {
 public:
  HostSubstitution(const Grid& grid, System& system, const Rank& rank)
      : system_(system),
        rank_(rank),
        left_(static_cast<std::size_t>(std::max<std::int64_t>(1, system.local_rows))) {
    if (grid.col == system.cols.owner(system.rows.n))
      std::copy_n(system.at(0, system.cols.local(system.rows.n)), system.local_rows, left_.begin());
  }

  void read_left(std::int64_t row, std::span<double> part) override {
    std::copy_n(left_.begin() + row, part.size(), part.begin());
  }
  void solve(std::int64_t row, std::int64_t col, std::span<double> part) override {
    rank_.all_cores.solve(
        {FLEET_LEFT, FLEET_UPPER, FLEET_NO_TRANS, FLEET_NON_UNIT, system_.at(row, col), system_.ld},
        std::ssize(part), 1, part.data(), std::ssize(part));
  }
  void subtract(std::int64_t row, std::int64_t col, std::span<const double> part) override {
    lu::subtract(system_.at(0, col), system_.ld, row, std::ssize(part), part.data(), left_.data());
  }

 private:
  System& system_;
  const Rank& rank_;
  std::vector<double> left_;
};

}  // namespace

std::vector<double> solve(const Grid& grid, const Blocks& rows, const Blocks& cols,
                          Substitution& own) {
  std::vector<double> x(
      static_cast<std::size_t>(std::max<std::int64_t>(1, cols.local_size(grid.col))));
  for (std::int64_t block = rows.count() - 1; block >= 0; --block) {
    const std::int64_t begin = block * rows.nb, width = std::min(rows.nb, rows.n - begin);
    const int row = rows.owner(begin), col = cols.owner(begin);
    const std::int64_t above = rows.local_begin(begin, grid.row), local = cols.local(begin);
    std::vector<double> part(static_cast<std::size_t>(width));
    if (grid.row == row) {
      own.read_left(above, part);
      // What the columns of all ranks of the row leave is their sum.
      grid.row_ranks->reduce(part, Reduction::sum);
      if (grid.col == col) own.solve(above, local, part);
    }
    if (grid.col != col) continue;
    grid.col_ranks->broadcast(part, row)->wait();
    std::ranges::copy(part, x.begin() + local);
    own.subtract(above, local, part);
  }
  return x;
}

std::vector<double> solve(const Grid& grid, System& system, const Rank& rank) {
  HostSubstitution own(grid, system, rank);
  return solve(grid, system.rows, system.cols, own);
}

}  // namespace fleet::lu
