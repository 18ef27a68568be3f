// SPDX-License-Identifier: BSD-3-Clause
// piece_borders.hpp: cuts copies where one pinned piece of memory ends and the next begins. Pure.
#pragma once
#include <algorithm>
#include <cstdint>

namespace fleet {

/// Bytes [first_byte, first_byte + bytes) of columns [first_col, first_col + cols).
struct ColumnBytes {
  std::int64_t first_byte = 0;
  std::int64_t bytes = 0;
  std::int64_t first_col = 0;
  std::int64_t cols = 0;
  friend bool operator==(const ColumnBytes&, const ColumnBytes&) = default;
};

/// Calls put(ColumnBytes) for parts of `cols` columns of `bytes` bytes, `pitch` bytes apart, which
/// begin at `address`. No part goes over a multiple of `piece` as an address; in its order they are
/// all there is.
template <typename Put>
void cut_at_borders(std::uintptr_t address, std::int64_t pitch, std::int64_t bytes,
                    std::int64_t cols, std::int64_t piece, Put put) {
  for (std::int64_t col = 0; col < cols;) {
    const std::uintptr_t first = address + static_cast<std::uintptr_t>(col * pitch);
    const std::int64_t room =
        piece - static_cast<std::int64_t>(first % static_cast<std::uintptr_t>(piece));
    if (room >= bytes) {
      const std::int64_t whole =
          std::min(cols - col, pitch > 0 ? (room - bytes) / pitch + 1 : cols - col);
      put(ColumnBytes{0, bytes, col, whole});
      col += whole;
      continue;
    }
    std::int64_t part = room;
    for (std::int64_t at = 0; at < bytes; at += part) {
      part = std::min(at == 0 ? room : piece, bytes - at);
      put(ColumnBytes{at, part, col, 1});
    }
    ++col;
  }
}

}  // namespace fleet
