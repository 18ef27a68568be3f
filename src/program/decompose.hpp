// SPDX-License-Identifier: BSD-3-Clause
// decompose.hpp: where the tiles begin and who computes which tile of C (paper 1, III-A). It knows
// no link and no time.
#pragma once
#include <utility>

#include "program/tile_program.hpp"
#include "program/tuning.hpp"

namespace fleet {

/// Who computes which tile of C, and when: every chain of a call belongs to one worker (or, with
/// split sums, to several), and to a group of tiles that are computed side by side.
///
/// C is split into groups (one, unless the tuning asks for more), each group into grid.rows x
/// grid.cols blocks, each block into tiles. Rows of C run over all items of a batch: item b has
/// rows b*tile_count(m) and up. Where C is symmetric, the tiles are dealt to the rows and columns
/// of the grid to and fro (0 1 1 0 0 1 ...), because blocks of a triangle differ in size. Where A
/// is triangular, every tile of C along its side is a group of its own, in the order of dependence,
/// and dealt to and fro as well. The CPU beside the grid has the last rows or columns of tiles, and
/// all of C in them.
struct Dealing {
  static constexpr int kCpu = -1;  ///< an owner that is no row or column of the grid

  Grid grid;
  /// Per row of C tiles its grid row, and per column its grid column, or kCpu.
  std::vector<int> row_owner, col_owner;
  /// The worker of each tile of C, row by row over all items, where rows and columns of a grid do
  /// not tell; empty: they do. Single tiles are not fetched for several workers at once.
  std::vector<int> tile_owner;
  std::vector<int> row_group, col_group;
  std::vector<int> step_cube;  ///< per op of a chain: which cube of k it is in
  /// Per op of a chain: which row of the grid computes it, in ascending order (levels 1 and 2, and
  /// with split_k). Their sums are added at the first of them, in the order of the ops. Empty: the
  /// owner of the tile computes all.
  std::vector<int> step_owner;
  int row_groups = 1, col_groups = 1, cubes = 1;
  /// Groups follow each other row by row, columns to and fro (so that B is used again at the turn);
  /// where A is triangular, those along its side are the inner loop.
  bool cols_outside = false, to_and_fro = true;
  /// Where A is triangular: results go home when their turn is over (Tuning::inputs_first).
  bool is_late = false;
  /// Late, and groups of all turns but the last are computed in the reverse of the order of
  /// dependence: a product by a triangle needs the fewest inputs first then.
  bool reversed = false;
  /// Levels 1 and 2: tiles are used once and not kept. They go to the columns of the grid in turn
  /// (paper 2, 4.1: round-robin), a column of tiles at a time.
  bool streams = false;

  int owner_of(int row, int col) const {
    const auto r = static_cast<std::size_t>(row), c = static_cast<std::size_t>(col);
    return tile_owner.empty() ? row_owner[r] * grid.cols + col_owner[c]
                              : tile_owner[r * col_owner.size() + c];
  }
  /// The most tiles of one worker in one group, where single tiles are dealt; else 0.
  std::int64_t most_single_tiles() const;
  int groups() const { return row_groups * col_groups; }
  /// The number of groups along the side of a triangular A, which follow each other: a turn.
  int groups_in_turn() const { return cols_outside ? row_groups : col_groups; }
  /// The turn of the group at this position.
  int turn_of(int position) const { return position / groups_in_turn(); }
  int position(int row_group, int col_group) const;
  std::pair<int, int> group_at(int position) const;  ///< {row group, column group}
  friend bool operator==(const Dealing&, const Dealing&) = default;

 private:
  /// The place of a group within its turn, and the inverse.
  int place_in_turn(int turn, int group) const;
};

/// The tiles of a call under a tuning, and who computes them. Tiles of a block are of nearly equal
/// size: a block of 5000 with tile edge 2048 becomes 3 tiles of 1667, not 2048 + 2048 + 904, so no
/// tile is padding. A symmetric or triangular matrix has its rows and columns cut alike, so that a
/// tile of the triangle that is not stored is the transpose of a stored one.
struct Decomposition {
  CallCuts cuts;
  Dealing deal;
};

/// The longest step of k: one tile edge, or four for halves, because each step rounds C to its
/// storage. Their tiles of A and B then have as many bytes as square tiles of doubles.
std::int64_t longest_step(Storage storage, std::int64_t tile);

Decomposition decompose(const Problem& problem, const Tuning& tuning);

/// Deals a call whose tiles are given to the grid of the tuning: each line of the grid gets those
/// whose middles lie in its equal part.
Dealing deal_tiles(const Problem& problem, const CallCuts& cuts, const Tuning& tuning);

/// The same, where C is distributed over the very grid of the tuning: each tile to the device that
/// it belongs to.
Dealing deal_to_owners(const Problem& problem, const CallCuts& cuts, const Tuning& tuning,
                       const Distribution& distribution);

/// The last rows and columns of C, in elements, which the CPU computes beside the devices. What of
/// C is in them depends on nothing else of C: one of the two is 0, but for a triangle, of which the
/// strip is the same rows and columns.
struct CpuStrip {
  std::int64_t rows = 0, cols = 0;
  bool empty() const { return rows == 0 && cols == 0; }
};
/// The strip with nearest to `share` of the multiply-adds: along the longer edge of C, or the one
/// that A leaves free, in multiples of 64 (paper 3, section III) unless C is small. Part of C is
/// left for the devices.
CpuStrip cpu_strip(const Problem& problem, double share);
/// The part of the multiply-adds that is in the strip.
double share_of(const Problem& problem, const CpuStrip& strip);
/// Whether Tuning::cpu_share means anything for this problem: products of whole matrices, all of
/// them in host memory, where the CPU computes in place.
bool may_have_cpu(const Problem& problem);

/// Whether Tuning::split_k means anything for this problem.
bool may_split_k(const Problem& problem);

/// Where A is triangular: the position of tile `tile`, one of `tiles` along its side, in the order
/// of dependence. trsm solves for a tile after the tiles that it reads; trmm replaces a tile before
/// the tiles that it reads. The function is its own inverse.
int rank_of_tile(const Problem& problem, int tiles, int tile);

/// The grids that hold `workers`: all factor pairs, rows ascending (7 -> 1x7, 7x1).
std::vector<Grid> grids_of(int workers);
/// The grid with the rule `grid` off: as square as possible, more rows than columns (paper 2, 2.1:
/// 4x2, 3x3, 5x1).
Grid near_square_grid(int workers);

}  // namespace fleet
