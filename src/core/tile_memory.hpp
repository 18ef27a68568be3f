// SPDX-License-Identifier: BSD-3-Clause
// tile_memory.hpp: memory of devices for tiles that outlive plans: cut from large pieces, since
// devices are slow to allocate. It knows no tile; its owner locks.
#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "run/backend.hpp"

namespace fleet {

class TileMemory {
 public:
  /// A piece of at least `bytes`, aligned as those of a backend. Throws Error(no_memory).
  void* take(Backend& backend, DeviceId device, std::int64_t bytes);
  void give_back(DeviceId device, void* address) noexcept;
  /// Bytes in use.
  std::int64_t used(DeviceId device) const;
  /// Gives what is not in use back to the backend.
  void trim(Backend& backend);

 private:
  /// Memory from the backend, with its free pieces by offset.
  struct Chunk {
    char* data = nullptr;
    std::int64_t bytes = 0;
    std::map<std::int64_t, std::int64_t> free = {};  ///< bytes by offset; neighbours are joined
  };
  struct Piece {
    std::size_t chunk = 0;
    std::int64_t bytes = 0;
    /// Among the free pieces again without any memory.
    std::map<std::int64_t, std::int64_t>::node_type node = {};
  };
  struct Store {
    std::vector<Chunk> chunks;  ///< those given back have no data
    std::map<void*, Piece> pieces;
    std::int64_t used = 0;
  };

  static void* cut(Store& store, std::int64_t bytes);
  static void add_chunk(Store& store, Backend& backend, DeviceId device, std::int64_t bytes);
  Store& store(DeviceId device);

  std::vector<Store> stores_;  ///< per device
};

}  // namespace fleet
