// SPDX-License-Identifier: BSD-3-Clause
// matrix.hpp: a rank's part of a matrix whose blocks are dealt over a grid, in host memory.
#pragma once
#include "dist/blocks.hpp"
#include "dist/buffer.hpp"
#include "dist/grid.hpp"

namespace fleet::lu {

/// [A b] of a system of n equations: n x (n+1) in blocks of nb x nb, column-major.
class System {
 public:
  System(const Grid& grid, std::int64_t n, std::int64_t nb)
      : rows{n, nb, grid.rows},
        cols{n + 1, nb, grid.cols},
        local_rows(rows.local_size(grid.row)),
        local_cols(cols.local_size(grid.col)),
        ld((local_rows + 7) / 8 * 8 + 8) {
    elements_.take(ld * std::max<std::int64_t>(1, local_cols));
  }

  /// Of local indices.
  double* at(std::int64_t row, std::int64_t col) { return elements_.data() + row + col * ld; }

  std::size_t bytes() const { return elements_.bytes(); }

  const Blocks rows, cols;
  const std::int64_t local_rows, local_cols, ld;

 private:
  Buffer elements_;
};

}  // namespace fleet::lu
