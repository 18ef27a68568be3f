// SPDX-License-Identifier: BSD-3-Clause
// later_calls.hpp: what the calls of a program do with the tiles of earlier ones. It knows no
// device.
#pragma once
#include <vector>

#include "program/tile_program.hpp"

namespace fleet {

class LaterCalls {
 public:
  /// `program` must outlive it. Nothing is found out unless it `is_asked`.
  LaterCalls(const TileProgram& program, bool is_asked);

  /// Does a call after `call` read or write the tile?
  bool use(const TileId& tile, int call) const { return last_use_[place(tile)] > call; }
  /// May the version of a tile that `call` makes stay away from home, because a later call makes
  /// another one? What it was computed from must be at home until then, since devices may fail.
  bool replace(const TileId& tile, int call) const {
    return may_wait_[static_cast<std::size_t>(call)] && last_write_[place(tile)] > call;
  }

 private:
  std::size_t place(const TileId& tile) const;
  bool may_wait(int call) const;

  const TileProgram& program_;
  std::vector<std::size_t> bases_;  ///< per matrix
  std::vector<int> last_use_, last_write_;
  std::vector<char> may_wait_;  ///< per call
};

}  // namespace fleet
