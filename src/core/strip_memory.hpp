// SPDX-License-Identifier: BSD-3-Clause
// strip_memory.hpp: memory on devices for the strips of a distributed matrix while it is factored,
// and how its tiles fill them. It moves nothing.
#pragma once
#include <span>
#include <vector>

#include "core/residents.hpp"
#include "core/taken_memory.hpp"
#include "run/binding.hpp"

namespace fleet {

/// Some columns of a tile, and their place in a strip.
struct StripPiece {
  DeviceId tile_device = kHost, strip_device = kHost;
  Block tile;   ///< its columns where the tile lies, one after another
  Block strip;  ///< the same elements in the strip
};

/// Each strip has whole tile rows, so that a tile is cut between its columns only.
class StripMemory {
 public:
  /// `tiles` are all those of `matrix`, and none is a part of a larger one. Throws
  /// Error(no_memory).
  StripMemory(Offloader& offloader, TileMemory& memory, const Block& matrix, const Strips& strips,
              std::span<const Residents::Held> tiles);

  /// Per strip.
  const std::vector<Binding::Matrix>& strips() const { return strips_; }
  const std::vector<StripPiece>& pieces() const { return pieces_; }

 private:
  void find_pieces(const Block& matrix, const Strips& strips, int j,
                   std::span<const Residents::Held> tiles);

  TakenMemory memory_;
  std::vector<Binding::Matrix> strips_;
  std::vector<StripPiece> pieces_;
};

}  // namespace fleet
