// SPDX-License-Identifier: BSD-3-Clause
// rows.hpp: rows of a column-major matrix, to and from where they lie one after another. It knows
// no ranks.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

namespace fleet::lu {

/// A row of a matrix, and its place among packed rows.
struct RowPlace {
  std::int64_t row, packed;
};

/// Calls `visit(first, last)` for a few columns of [begin, end) at a time: packed rows are touched
/// by whole cache lines then.
template <typename Visit>
void for_columns(std::int64_t begin, std::int64_t end, Visit&& visit) {
  constexpr std::int64_t kFew = 8;
  for (std::int64_t first = begin; first < end; first += kFew)
    visit(first, std::min(end, first + kFew));
}

/// Calls `move(element of the matrix, element of the packed rows)` for columns [begin, end) of
/// rows. `matrix` is at row 0 of column 0; packed rows have `stride` columns.
template <typename Element, typename Packed, typename Move>
void for_rows(std::span<const RowPlace> rows, Element* matrix, std::int64_t ld, Packed* packed,
              std::int64_t stride, std::int64_t begin, std::int64_t end, Move&& move) {
  for_columns(begin, end, [&](std::int64_t first, std::int64_t last) {
    for (const RowPlace& at : rows)
      for (std::int64_t c = first; c < last; ++c)
        move(matrix[at.row + c * ld], packed[at.packed * stride + c]);
  });
}

inline void pack_rows(std::span<const RowPlace> rows, const double* matrix, std::int64_t ld,
                      double* packed, std::int64_t stride, std::int64_t begin, std::int64_t end) {
  for_rows(rows, matrix, ld, packed, stride, begin, end,
           [](const double& element, double& place) { place = element; });
}

inline void unpack_rows(std::span<const RowPlace> rows, double* matrix, std::int64_t ld,
                        const double* packed, std::int64_t stride, std::int64_t begin,
                        std::int64_t end) {
  for_rows(rows, matrix, ld, packed, stride, begin, end,
           [](double& element, const double& place) { element = place; });
}

}  // namespace fleet::lu
