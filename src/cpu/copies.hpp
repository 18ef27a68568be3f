// SPDX-License-Identifier: BSD-3-Clause
// copies.hpp: a copy between two pieces of host memory. It must not know whose they are.
#pragma once
#include <algorithm>
#include <utility>

#include "run/launch.hpp"

namespace fleet {

/// The rows [first, second) of a column that count.
inline std::pair<std::int64_t, std::int64_t> rows_of(const View& view, std::int64_t col) {
  return {view.fill == Fill::lower ? std::min(col, view.rows) : 0,
          view.fill == Fill::upper ? std::min(col + 1, view.rows) : view.rows};
}

/// Columns [first, last) of `from` into the same of `to`, which has as many rows. Touches nothing
/// between the columns.
void copy_columns(const View& from, const View& to, std::int64_t element_bytes, std::int64_t first,
                  std::int64_t last);

/// The same for copies too large for the CPU's caches: writes past them where the processor can, so
/// that the old contents are not read first (docs/performance/lessons.md).
void copy_columns_past_caches(const View& from, const View& to, std::int64_t element_bytes,
                              std::int64_t first, std::int64_t last);

}  // namespace fleet
