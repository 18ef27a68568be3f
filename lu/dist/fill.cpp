// SPDX-License-Identifier: BSD-3-Clause
// fill.cpp: each block of a column is entered once.
#include "dist/fill.hpp"

#include "dist/generator.hpp"

namespace fleet::lu {

void fill(const Grid& grid, System& system) {
  const Blocks& rows = system.rows;
  for (std::int64_t col = 0; col < system.local_cols; ++col) {
    const auto before = static_cast<std::uint64_t>(system.cols.global(col, grid.col) * rows.n);
    for (std::int64_t row = 0; row < system.local_rows; row += rows.nb) {
      const std::int64_t end = std::min(row + rows.nb, system.local_rows);
      Sequence numbers;
      numbers.skip(before + static_cast<std::uint64_t>(rows.global(row, grid.row)));
      for (std::int64_t i = row; i < end; ++i) *system.at(i, col) = numbers.next();
    }
  }
}

}  // namespace fleet::lu
