// SPDX-License-Identifier: BSD-3-Clause
// fill.cpp: each block of a column is entered once.
#include "dist/fill.hpp"

#include <algorithm>

#include "dist/generator.hpp"

namespace fleet::lu {

void fill(const Share& share, std::int64_t begin, std::int64_t end, double* data, std::int64_t ld) {
  const Blocks& rows = share.rows;
  const std::int64_t local_rows = rows.local_size(share.row);
  for (std::int64_t col = begin; col < end; ++col) {
    double* const column = data + (col - begin) * ld;
    const auto before = static_cast<std::uint64_t>(share.cols.global(col, share.col) * rows.n);
    for (std::int64_t row = 0; row < local_rows; row += rows.nb) {
      Sequence numbers;
      numbers.skip(before + static_cast<std::uint64_t>(rows.global(row, share.row)));
      std::generate(column + row, column + std::min(row + rows.nb, local_rows),
                    [&] { return numbers.next(); });
    }
  }
}

void fill(const Grid& grid, System& system) {
  fill({system.rows, grid.row, system.cols, grid.col}, 0, system.local_cols, system.at(0, 0),
       system.ld);
}

}  // namespace fleet::lu
