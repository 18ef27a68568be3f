// SPDX-License-Identifier: BSD-3-Clause
// fill.hpp: Linpack's random systems.
#pragma once
#include "dist/matrix.hpp"

namespace fleet::lu {

/// What one rank has of a matrix whose rows and columns are dealt.
struct Share {
  Blocks rows;
  int row = 0;  ///< of the grid
  Blocks cols;
  int col = 0;
};
/// Local columns [begin, end), the first of them at `data`: element (i, j) of [A b] is number
/// i + j*n of the sequence, n being the number of rows.
void fill(const Share& share, std::int64_t begin, std::int64_t end, double* data, std::int64_t ld);
/// All of a system.
void fill(const Grid& grid, System& system);

}  // namespace fleet::lu
