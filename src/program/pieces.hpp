// SPDX-License-Identifier: BSD-3-Clause
// pieces.hpp: one dimension of C or of k in pieces, each the edge of tiles: how it is split into
// groups, these among the lines of the grid, and those into tiles. It knows no matrix.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "program/tile_program.hpp"

namespace fleet {

struct Piece {
  std::int64_t begin = 0;
  int group = 0;
  int block = 0;  ///< the row or column of the grid that has it
};

/// The rows (or columns) of the grid, which divide a dimension of C or of k among themselves.
struct GridLines {
  int count = 1;
  std::int64_t tile = 1;                     ///< largest edge of the tiles
  std::span<const double> shares = {};       ///< empty: equal ones
  std::span<const std::int64_t> tiles = {};  ///< largest edges by line; empty: `tile` for all
  const Cuts* cuts = nullptr;                ///< where the tiles begin, if that is given
  bool halves_last = false;                  ///< the last of several groups is cut in two

  std::int64_t edge_of(int line) const {
    return std::max<std::int64_t>(1, tiles.empty() ? tile : tiles[static_cast<std::size_t>(line)]);
  }
};

/// Tile edges are multiples of this, so that copies are aligned and tiles are whole numbers of the
/// 128 x 128 elements that a block of GPU threads computes. It grows with the piece, so that
/// rounding stays small beside it.
std::int64_t alignment_of(std::int64_t piece);

/// Splits [0, size) into groups of at most `group` (0: one group), each group into a block for each
/// row or column of the grid, and each block into tiles.
std::vector<Piece> pieces_of(std::int64_t size, std::int64_t group, const GridLines& lines);

/// Splits the first of `pieces` (of [0, size)) into pieces of growing length: it is halved, then
/// its first half, and so on.
void ramp_up(std::vector<Piece>& pieces, std::int64_t size, int halvings);

/// Deals pieces to the rows (or columns) of the grid to and fro.
void deal(std::vector<Piece>& pieces, int count);
/// The same in turn.
void cycle(std::vector<Piece>& pieces, int count);

/// Adds the pieces of a strip after `end`, where the others end, with `owner` as their block. They
/// are no longer than the others, because slots of devices have room for the longest piece of all.
void append_strip(std::vector<Piece>& pieces, std::int64_t end, std::int64_t strip, int owner);

/// The pieces of `other`, in one group.
std::vector<Piece> alike(std::vector<Piece> other);

}  // namespace fleet
