// SPDX-License-Identifier: BSD-3-Clause
// strip_memory.cpp: which columns of which tile are where in which strip.
#include "core/strip_memory.hpp"

#include <algorithm>

namespace fleet {

StripMemory::StripMemory(Offloader& offloader, TileMemory& memory, const Block& matrix,
                         const Strips& strips, std::span<const Residents::Held> tiles)
    : memory_(offloader, memory) {
  for (int j = 0; j < strips.count(); ++j) find_pieces(matrix, strips, j, tiles);
}

void StripMemory::find_pieces(const Block& matrix, const Strips& strips, int j,
                              std::span<const Residents::Held> tiles) {
  const std::int64_t bytes = bytes_of(matrix.storage), top = strips.top_of(j);
  const std::int64_t begin = strips.begin_of(j), end = begin + strips.width_of(j);
  const std::size_t first = pieces_.size();
  std::vector<std::pair<std::int64_t, std::int64_t>> at;  ///< of each piece: row, column
  std::int64_t row_begin = top;
  for (const auto& [block, device, address] : tiles) {
    const auto elements = static_cast<std::int64_t>(block.begin - matrix.begin) / bytes;
    const std::int64_t row = elements % matrix.ld, col = elements / matrix.ld;
    const std::int64_t from = std::max(begin, col), to = std::min(end, col + block.cols);
    if (from >= to || row + block.rows <= top) continue;
    const Block whole =
        block_of({.data = address, .rows = block.rows, .cols = block.cols, .ld = block.rows},
                 matrix.storage);
    pieces_.push_back({.tile_device = device,
                       .strip_device = strips.home_of(j),
                       .tile = part_of(whole, 0, from - col, block.rows, to - from)});
    at.emplace_back(row, from);
    row_begin = std::min(row_begin, row);
  }
  const std::int64_t rows = matrix.rows - row_begin;
  const View taken = memory_.take(strips.home_of(j), matrix.storage, rows, end - begin);
  const Block all = block_of(taken, matrix.storage);
  strips_.push_back(
      {.data = static_cast<char*>(taken.data) + (top - row_begin) * bytes, .ld = taken.ld});
  for (std::size_t p = first; p < pieces_.size(); ++p) {
    const auto& [row, col] = at[p - first];
    const Block& tile = pieces_[p].tile;
    pieces_[p].strip = part_of(all, row - row_begin, col - begin, tile.rows, tile.cols);
  }
}

}  // namespace fleet
