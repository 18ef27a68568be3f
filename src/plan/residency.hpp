// SPDX-License-Identifier: BSD-3-Clause
// residency.hpp: where tiles lie between programs, apart from their homes. A value; it knows no
// address.
#pragma once
#include <compare>
#include <vector>

#include "program/tile_program.hpp"

namespace fleet {

/// The newest versions of the tiles of a program's matrices, before it runs or after. A tile that
/// is not named is at home only.
struct Residency {
  /// A device whose memory has the tile as it is now.
  struct Copy {
    TileId tile;
    DeviceId device = kHost;
    friend auto operator<=>(const Copy&, const Copy&) = default;
  };
  std::vector<Copy> copies;  ///< sorted; each tile at most once on a device
  std::vector<TileId> away;  ///< sorted; the home of these has an older version
  bool empty() const { return copies.empty() && away.empty(); }
  friend bool operator==(const Residency&, const Residency&) = default;
};

}  // namespace fleet
