// SPDX-License-Identifier: BSD-3-Clause
// distribution.hpp: matrices that are dealt to devices block by block, in two dimensions. It knows
// no call and no memory.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "machine/machine.hpp"
#include "program/tile_program.hpp"

namespace fleet {

struct RegularTiles;

/// What the word of a block-cyclic place asks for; 0: the model decides.
struct CyclicPlace {
  Grid grid{0, 0};
  std::int64_t block = 0;
  friend bool operator==(const CyclicPlace&, const CyclicPlace&) = default;
};

/// Is the word of a place meant as a block-cyclic one?
inline bool is_cyclic(std::string_view place) { return place.starts_with('c'); }
/// "c2x2:1024": a grid of devices, rows by columns, and the edge of the blocks. Either may be left
/// out ("c", "c2x2", "c:1024"). Throws Error(bad_argument) saying what is wrong with the word.
CyclicPlace parse_cyclic(std::string_view word);

/// For a matrix of this shape. The model's grid is the one of all devices with the least edges of
/// a device's part; its block is the edge of regular tiles. Throws Error(bad_argument) where there
/// are fewer devices than the grid has places.
Distribution distribution_of(const CyclicPlace& place, std::int64_t rows, std::int64_t cols,
                             const RegularTiles& tiles);

}  // namespace fleet
