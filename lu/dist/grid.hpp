// SPDX-License-Identifier: BSD-3-Clause
// grid.hpp: ranks in rows and columns. It knows no matrices.
#pragma once
#include <memory>

#include "comm/comm.hpp"

namespace fleet::lu {

/// P x Q ranks. All of `all` make it at the same time.
struct Grid {
  /// Ranks are numbered along the rows or, with `column_major`, along the columns. Throws Failure
  /// where they are not rows * cols.
  Grid(Comm& all, int rows, int cols, bool column_major = false);

  Comm& all;
  const int rows, cols;
  const int row, col;  ///< of this rank
  /// Those of this rank's row, ranked by column, and of its column, ranked by row. Pivots have a
  /// group of their own: their search does not wait for what else is under way in the column.
  const std::unique_ptr<Comm> row_ranks, col_ranks, pivot_ranks;
};

}  // namespace fleet::lu
