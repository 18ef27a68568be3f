// SPDX-License-Identifier: BSD-3-Clause
// strips.hpp: the tile program of a factorization: whole columns of the matrix as tiles. It knows
// no device, no link and no time.
#pragma once
#include "program/tile_program.hpp"

namespace fleet {

/// Strips of `width`, all but the last of the diagonal and of the matrix; the stage is all of it.
Strips strips_of(const Factorization& what, std::int64_t width);

/// The program of the stage. In its order each strip is updated by the panels before it, factored,
/// and its panel read by those after it; planners may take any order that reads the same.
TileProgram expand(const Strips& strips);

/// Its matrices without any chain: for sizes and times.
TileProgram matrices_of(const Strips& strips);

}  // namespace fleet
