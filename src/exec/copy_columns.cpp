// SPDX-License-Identifier: BSD-3-Clause
// copy_columns.cpp: one memcpy where the columns follow each other, else one for each. It must not
// know whose memory it is.
#include "exec/copy_columns.hpp"

#include <cstring>

namespace fleet {

void copy_columns(const View& from, const View& to, std::int64_t element_bytes, std::int64_t first,
                  std::int64_t last) {
  const auto address = [&](const View& view, std::int64_t col) {
    return static_cast<char*>(view.data) + col * view.ld * element_bytes;
  };
  const auto column_bytes = static_cast<std::size_t>(from.rows * element_bytes);
  if (column_bytes == 0 || first >= last) return;
  if (from.ld == from.rows && to.ld == to.rows) {
    std::memcpy(address(to, first), address(from, first),
                column_bytes * static_cast<std::size_t>(last - first));
    return;
  }
  for (std::int64_t col = first; col < last; ++col)
    std::memcpy(address(to, col), address(from, col), column_bytes);
}

}  // namespace fleet
