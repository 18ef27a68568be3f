// SPDX-License-Identifier: BSD-3-Clause
// row_order.hpp: rows of a dealt matrix in another order. It knows no pivots' meaning.
#pragma once
#include <span>
#include <vector>

#include "dist/grid.hpp"
#include "routines/local.hpp"

namespace fleet::lu {

/// sources[i] is where row i comes from, after row i was exchanged with row partners[i] - 1 for
/// `these` rows in their order, of n.
std::vector<std::int64_t> sources_of(std::span<const std::int64_t> partners, Range these,
                                     std::int64_t n);

/// Some columns of a rank, from row 0 on.
template <typename Number>
struct LocalColumns {
  Number* elements;
  std::int64_t ld, count;
};

/// Rows `these` of `to` become rows sources[i] of `from`, which may be the same memory. By the
/// ranks of a column of the grid, which have the same columns. Throws Failure.
void take_rows(const Grid& grid, const Rank& rank, const Dimension& rows, Range these,
               std::span<const std::int64_t> sources, LocalColumns<const double> from,
               LocalColumns<double> to, std::int64_t step);

}  // namespace fleet::lu
