// SPDX-License-Identifier: BSD-3-Clause
// composition.hpp: calls that follow each other on matrices that some of them share, and the tile
// program that they become. It knows no device's memory, no link and no time.
#pragma once
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "program/distribution.hpp"

namespace fleet {

/// Calls, and which of their operands are one matrix.
struct Composition {
  struct Call {
    Problem problem;
    /// The matrices of A, B and C, as indices into `names`; -1 where the routine has none.
    std::array<int, 3> matrices{-1, -1, -1};
    std::string text = {};  ///< as it was written
  };
  std::vector<Call> calls;
  std::vector<std::string> names;  ///< of matrices; empty where a call does not name its own
  /// Of each matrix that lies on devices as the program begins; their homes are not used.
  std::vector<std::optional<CyclicPlace>> cyclic;
};

/// One call a line, as parse_problem() reads it, but with operands as "a=NAME@PLACE": operands with
/// one name are one matrix. "a@PLACE" is a matrix of this call only. PLACE may be block-cyclic.
/// Empty lines and what follows a
/// '#' are left out. Throws Error(bad_argument) naming the line, also where a name has two shapes,
/// types or places.
Composition parse_composition(std::string_view text);

/// Edges of the tiles of calls that may share matrices: from `least` to `most`, or `tile` if it is
/// not 0.
struct RegularTiles {
  int devices = 1;
  std::int64_t least = 512, most = 2048;
  std::int64_t tile = 0;
};

/// Where these tiles begin. Cuts of a dimension depend on its length alone, so matrices that meet
/// along a dimension are cut alike in whatever order and company calls come, and results have the
/// same bits. Edges are powers of two, the least one that cuts the dimension into no more than two
/// tiles for each device (paper 5 has ceil(N / (4 * gpus))); the last may be half as long again.
Cuts regular_cuts(std::int64_t size, const RegularTiles& tiles);
CallCuts regular_cuts(const Problem& problem, const RegularTiles& tiles);
/// The edge of all but the last.
std::int64_t regular_edge(std::int64_t size, const RegularTiles& tiles);

/// Those of the operands of a call that have one.
using Distributions = std::array<std::optional<Distribution>, 3>;
/// The same, where operands are block-cyclic: along their dimensions the tiles are their blocks.
/// Where two of them disagree, those of C come first, then A's.
CallCuts cuts_of_call(const Problem& problem, const RegularTiles& tiles,
                      const Distributions& distributions);

/// The program of all calls, with regular cuts; block-cyclic matrices stay, and the tiles of calls
/// are theirs. Throws Error(bad_argument) naming the call if it
/// needs a matrix stored in another way than an earlier call (as a triangle and as a whole).
TileProgram expand(const Composition& composition, const RegularTiles& tiles);

}  // namespace fleet
