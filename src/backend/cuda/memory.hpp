// SPDX-License-Identifier: BSD-3-Clause
// memory.hpp: the memory that the CUDA backend takes: an arena per location that grows on
// demand and is kept, and blocks that callers ask for. It must not know plans.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "backend/cuda/arena.hpp"
#include "backend/cuda/stream_memory.hpp"
#include "problem/problem.hpp"

namespace fleet::cuda {

/// Thread-safe. Locations are DeviceIds; `ordinals` are CUDA's numbers of the devices from
/// kFirstDevice on.
class Memory {
 public:
  struct Settings {
    std::vector<int> ordinals;
    std::int64_t limit_bytes = 0;         ///< per device, all together; 0: what there is
    std::int64_t failing_allocation = 0;  ///< the N-th one fails; 0: none
    bool poison = false;                  ///< arenas are NaN of every type before each run
    /// Are streams of the program held? CUDA may then wait for ever where it waits for devices.
    bool (*are_streams_held)() = any_stream_is_held;
  };
  explicit Memory(Settings settings);
  /// Gives everything back.
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// Makes the arena of each location at least this large; contents are not kept. Arenas of devices
  /// with virtual memory stay where they are, unless streams are held. Throws Error(no_memory,
  /// device_failed).
  void reserve(const std::vector<std::int64_t>& arena_bytes);
  /// Changes whenever an arena has moved or is gone.
  std::int64_t generation() const { return generation_; }
  char* arena(DeviceId location) const { return arenas_[static_cast<std::size_t>(location)].data; }
  void poison_arenas(const std::vector<std::int64_t>& bytes);
  void trim();

  void* allocate(DeviceId location, std::int64_t bytes);
  void release(DeviceId location, void* data);
  /// How many blocks were given back.
  std::int64_t releases() const { return releases_; }
  /// Bytes that plans could have at a location: the free ones and those of its arena.
  std::int64_t available_bytes(DeviceId location) const;

 private:
  struct Block {
    char* data = nullptr;
    std::int64_t bytes = 0;
    bool mapped = false;                ///< by mmap and registered, not by CUDA
    std::shared_ptr<Arena> arena = {};  ///< whose first bytes this block is, or null
  };

  void require(DeviceId location, std::int64_t bytes);
  Block get(DeviceId location, std::int64_t bytes);
  bool begin_arena(DeviceId location, Block& block);
  bool grow(DeviceId location, Block& block, std::int64_t bytes);
  void give_back(DeviceId location, Block& block);
  void give_back_kept();
  void free(DeviceId location, const Block& block);
  /// Of a location, whose memory is asked for in the context of this device: the host's in the
  /// context of the first one.
  int ordinal(DeviceId location) const {
    const DeviceId device = on_host(location) ? kFirstDevice : location;
    return settings_.ordinals[static_cast<std::size_t>(device - kFirstDevice)];
  }

  Settings settings_;
  mutable std::mutex mutex_;
  std::int64_t allocations_ = 0;
  std::atomic<std::int64_t> generation_{0};
  std::atomic<std::int64_t> releases_{0};
  std::vector<Block> arenas_;
  std::vector<std::map<void*, Block>> blocks_;
  /// Blocks that were given back while the program's streams were held: CUDA waits for all that a
  /// device does before it frees memory.
  std::vector<std::pair<DeviceId, Block>> kept_;
  std::vector<char> lacks_virtual_memory_;  ///< per location, as far as was tried
  std::vector<std::int64_t> held_bytes_;    ///< arena, blocks and kept_, per location
};

}  // namespace fleet::cuda
