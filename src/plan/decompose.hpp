// SPDX-License-Identifier: BSD-3-Clause
// decompose.hpp: where the tiles begin and who computes which tile of C (paper 1, III-A). It knows
// no link and no time.
#pragma once
#include <utility>

#include "plan/plan.hpp"

namespace fleet {

/// The tiles of a problem under a tuning. C is split into groups (one, unless the tuning asks for
/// more), each group into grid.rows x grid.cols blocks, each block into tiles of nearly equal size:
/// a block of 5000 with tile edge 2048 becomes 3 tiles of 1667, not 2048 + 2048 + 904, so no tile
/// is padding. Rows of C run over all items of a batch: item b has rows b*tile_count(m) and up.
///
/// Where C is symmetric, its rows and columns are cut alike, and the tiles are dealt to the rows
/// and columns of the grid to and fro (0 1 1 0 0 1 ...): blocks of a triangle would be of unequal
/// size. Where A is, its rows and columns are cut alike, so that a tile of the triangle that is not
/// stored /// is one of the other, transposed. Where A is triangular, every tile of C along its
/// side is a group of its own, in the order of rank(), and dealt to and fro as well.
///
/// With vectors, tiles of C are dealt to the columns of the grid in turn (paper 2, 4.1: levels 1
/// and 2 round-robin), and the rows of the grid have consecutive parts of k each: what they sum up
/// meets in the order of k.
struct Decomposition {
  Cuts m, n, k;
  std::vector<int> row_owner, col_owner;  ///< grid row per row of C tiles; grid column per column
  std::vector<int> row_group, col_group;
  std::vector<int> k_owner;  ///< with vectors: grid row per step
  std::vector<int> k_group;  ///< per step, of which each tile of k makes two for syr2k and her2k
  int row_groups = 1, col_groups = 1, k_groups = 1;
  /// How groups follow each other: row by row, columns to and fro (so that B is used again at the
  /// turn); where A is triangular, those along its side one after another and the others outside.
  bool cols_outside = false, to_and_fro = true;

  int groups() const { return row_groups * col_groups; }
  int position(int row_group, int col_group) const;
  std::pair<int, int> group_at(int position) const;  ///< {row group, column group}
};

/// The longest step of k: the tile edge, and four of them for half types, where each step rounds C
/// to the type again. Their tiles of A and B then have the bytes of square tiles of doubles.
std::int64_t longest_step(DataType type, std::int64_t tile);

Decomposition decompose(const Problem& problem, const Tuning& tuning);

/// The grids that hold `workers`: all factor pairs, rows ascending (7 -> 1x7, 7x1).
std::vector<Grid> grids_of(int workers);
/// The fixed one: as square as possible, more rows than columns (paper 2, 2.1: 4x2, 3x3, 5x1).
Grid near_square_grid(int workers);

}  // namespace fleet
