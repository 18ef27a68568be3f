// SPDX-License-Identifier: BSD-3-Clause
// taken_memory.hpp: pieces of device memory that a call takes, given back at its end. It knows no
// matrices.
#pragma once
#include <utility>
#include <vector>

#include "core/offloader.hpp"
#include "core/tile_memory.hpp"

namespace fleet {

/// The memory is that of tiles: devices are slow to allocate.
class TakenMemory {
 public:
  TakenMemory(Offloader& offloader, TileMemory& memory) : offloader_(offloader), memory_(memory) {}
  ~TakenMemory();
  TakenMemory(const TakenMemory&) = delete;
  TakenMemory& operator=(const TakenMemory&) = delete;
  /// A dense matrix of elements that are not set. Throws Error(no_memory).
  View take(DeviceId device, Storage storage, std::int64_t rows, std::int64_t cols);

 private:
  Offloader& offloader_;
  TileMemory& memory_;
  std::vector<std::pair<DeviceId, void*>> taken_;
};

}  // namespace fleet
