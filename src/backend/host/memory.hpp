// SPDX-License-Identifier: BSD-3-Clause
// memory.hpp: the memory of virtual devices: an arena per device that grows on demand and is
// kept, and blocks that callers ask for, within a limit per device. It must not know plans.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "problem/problem.hpp"

namespace fleet::host {

/// Thread-safe. All addresses are aligned to kAlignmentBytes.
class Memory {
 public:
  struct Settings {
    std::vector<std::int64_t> limit_bytes;  ///< per location; 0: no limit
    std::int64_t failing_allocation = 0;    ///< the N-th one fails; 0: none
    bool poison = false;                    ///< fresh and freed memory is NaN of every type
  };
  explicit Memory(Settings settings);

  /// Makes the arena of each location at least this large; contents are not kept. Throws
  /// Error(no_memory). Those that are not 0 stay where they are until let_go.
  void reserve(const std::vector<std::int64_t>& arena_bytes);
  void let_go(DeviceId location);
  char* arena(DeviceId location) const;
  /// Frees all arenas that are not reserved now.
  void trim();

  void* allocate(DeviceId location, std::int64_t bytes);
  void release(DeviceId location, void* data);
  /// Bytes that allocate can still give; arenas are for plans and do not count as taken.
  std::int64_t available_bytes(DeviceId location) const;

  /// Writes NaN over the first bytes of each arena.
  void poison_arenas(const std::vector<std::int64_t>& bytes);
  /// Writes NaN over everything at `location`, whose memory is gone.
  void forget(DeviceId location);

 private:
  struct Free {
    void operator()(char* data) const;
  };
  struct Block {
    std::unique_ptr<char, Free> data;
    std::int64_t bytes = 0;
  };
  struct Store {
    Block arena;
    std::map<void*, Block> blocks;
    std::int64_t blocks_bytes = 0;
    bool is_reserved = false;  ///< the arena
  };

  Block get(DeviceId location, std::int64_t bytes);
  void give_back(Block& block);
  std::int64_t limit(DeviceId location) const;
  Store& store(DeviceId location);
  const Store& store(DeviceId location) const;

  Settings settings_;
  mutable std::mutex mutex_;
  std::int64_t allocations_ = 0;
  std::vector<Store> stores_;
};

}  // namespace fleet::host
