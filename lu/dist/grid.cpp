// SPDX-License-Identifier: BSD-3-Clause
// grid.cpp: the groups of a grid.
#include "dist/grid.hpp"

namespace fleet::lu {
namespace {

int checked(const Comm& all, int rows, int cols) {
  if (rows < 1 || cols < 1 || rows * cols != all.size())
    throw Failure("a grid of " + std::to_string(rows) + " x " + std::to_string(cols) +
                  " needs as many ranks, and there are " + std::to_string(all.size()));
  return rows;
}

}  // namespace

Grid::Grid(Comm& ranks, int p, int q, bool column_major)
    : all(ranks),
      rows(checked(ranks, p, q)),
      cols(q),
      row(column_major ? ranks.rank() % p : ranks.rank() / q),
      col(column_major ? ranks.rank() / p : ranks.rank() % q),
      row_ranks(ranks.split(row, col)),
      col_ranks(ranks.split(col, row)),
      pivot_ranks(ranks.split(col, row)) {}

}  // namespace fleet::lu
