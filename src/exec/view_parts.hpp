// SPDX-License-Identifier: BSD-3-Clause
// view_parts.hpp: blocks of a view, for products that are taken apart. It knows no product.
#pragma once
#include "exec/backend.hpp"

namespace fleet {

inline View part(const View& x, DataType type, std::int64_t row, std::int64_t col,
                 std::int64_t rows, std::int64_t cols, Fill fill = Fill::full) {
  void* data = static_cast<char*>(x.data) + (row + col * x.ld) * bytes_of(type);
  return {.data = data, .rows = rows, .cols = cols, .ld = x.ld, .fill = fill};
}

/// The larger half of n, which is whole leaves.
inline std::int64_t half_of(std::int64_t n, std::int64_t leaf_edge) {
  return (n / 2 + leaf_edge - 1) / leaf_edge * leaf_edge;
}

}  // namespace fleet
