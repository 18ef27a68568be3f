// SPDX-License-Identifier: BSD-3-Clause
// blocks.hpp: large blocks of memory for a program, whose pieces somebody may pin meanwhile, and
// which keep their pins for the next block. It knows neither malloc nor devices.
//
// All blocks lie in one range of addresses, so whether an address is the pool's is one comparison.
// A block begins at a multiple of kPoolPieceBytes, and no two have such a piece in common. Blocks
// without a pin go back to the system when they are freed, as with malloc; others stay, up to a
// cap, and are given again where they are not an eighth too large.
#pragma once
#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "pool/pool.hpp"

namespace fleet::pool {

/// Smaller ones are left to malloc.
inline constexpr std::size_t kLeastBlockBytes = std::size_t{64} << 20;

/// Thread-safe. It allocates nothing, has no destructor, and can be used before constructors run.
class Blocks {
 public:
  constexpr Blocks() = default;
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;

  /// Reserves addresses, for blocks of `cap` bytes in all. False, with nothing to give, where that
  /// is refused or the cap has no room for a block. Once.
  bool open(std::size_t cap);
  /// Gives all back to the system, with whatever is in use.
  void close();

  bool owns(const void* data) const {
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    const std::size_t extent = extent_.load(std::memory_order_acquire);  // it was set last
    return address - first_.load(std::memory_order_relaxed) < extent;
  }

  enum class Contents { any, zero };
  /// Memory for at least kLeastBlockBytes, at a multiple of kPoolPieceBytes. nullptr: there is
  /// none.
  void* allocate(std::size_t bytes, Contents contents);
  /// Makes a block so large without a copy, maybe elsewhere. nullptr: it is as it was, and the
  /// caller has to copy it.
  void* resize(void* block, std::size_t bytes);
  void release(void* block);
  /// Bytes that the program may use; 0 for an address at which no block begins.
  std::size_t usable_bytes(const void* block);

  PoolState state(const void* data, std::int64_t bytes);
  PoolCounters counters();

  /// See struct Pool.
  bool take_plain(const void* data, std::int64_t bytes, PoolPiece& piece);
  void note(const PoolPiece& piece, PoolState now);
  bool take_idle(std::int64_t least_age_ns, void*& block);
  bool take_any(void*& block);
  bool take_pinned(void* block, PoolPiece& piece);
  void give_back(void* block);
  bool has_pinned();

  /// Around a fork. In the child nothing is pinned or being pinned.
  void before_fork();
  void after_fork_in_parent();
  void after_fork_in_child();

 private:
  enum class Use : std::uint8_t { none, used, idle, leaving };
  /// kPoolPieceBytes of addresses.
  struct Granule {
    std::uint32_t block = 0;  ///< one more than where its block begins; 0: in no block
    bool is_pinned = false;
    bool is_busy = false;  ///< taken, until note()
    // Of the granule at which a block begins:
    Use use = Use::none;
    bool is_refused = false;
    std::uint32_t granules = 0;
    std::uint32_t pinned = 0, busy = 0;  ///< granules
    std::size_t bytes = 0;               ///< that have memory
    std::int64_t freed_ns = 0;
  };
  using Index = std::size_t;
  static constexpr Index kNone = ~Index{0};
  class Lock;

  char* address(Index granule) const {
    return reinterpret_cast<char*>(first_.load(std::memory_order_relaxed)) +
           granule * kPoolPieceBytes;
  }
  Index granule_of(const void* data) const {
    return (reinterpret_cast<std::uintptr_t>(data) - first_.load(std::memory_order_relaxed)) /
           kPoolPieceBytes;
  }
  Granule& at(Index granule) { return granules_[granule]; }
  Index block_at(const void* data);
  Index block_around(const void* data, std::int64_t bytes);
  PoolPiece piece_of(Index granule);
  Index find_idle(std::size_t bytes);
  Index find_free(std::size_t granules);
  bool is_free(Index first, std::size_t granules) const;
  Index make(std::size_t bytes);
  void claim(Index block, std::size_t bytes);
  void forget(Index block);
  bool may_grow(std::size_t bytes);
  std::size_t idle_bytes();
  bool resize_in_place(Index block, std::size_t bytes);
  void* move(Index block, std::size_t bytes);
  void set_idle(Index block);
  void retire(Index block);

  pthread_mutex_t mutex_ = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
  std::atomic<std::uintptr_t> first_{0};
  std::atomic<std::size_t> extent_{0};
  Granule* granules_ = nullptr;
  Index count_ = 0;  ///< of granules_
  Index end_ = 0;    ///< no block lies behind it
  std::size_t cap_ = 0;
  std::size_t held_ = 0;               ///< bytes of all blocks
  std::size_t pinned_ = 0, idle_ = 0;  ///< granules, blocks
  std::size_t room_wanted_ = 0;        ///< bytes that idle blocks kept the program from
  PoolCounters counters_ = {};
};

}  // namespace fleet::pool
