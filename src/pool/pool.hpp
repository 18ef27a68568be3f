// SPDX-License-Identifier: BSD-3-Clause
// pool.hpp: what the library with the pool of large blocks tells the one that uses devices, and is
// told. Values and functions only: both sides come from the same build. It knows no device.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace fleet {

/// Of the whole process since its start, in bytes but for `blocks`.
struct PoolCounters {
  std::int64_t blocks = 0;  ///< given to the program
  std::int64_t given = 0;   ///< in all of them
  std::int64_t reused = 0;  ///< of `given`, in blocks that had been given before
  std::int64_t pinned = 0;  ///< each time that a piece was
  std::int64_t beyond = 0;  ///< left to malloc, since the pool was full
};

/// What is known of some bytes of the program.
enum class PoolState : int {
  elsewhere,  ///< not in one block of the pool
  plain,      ///< as malloc gives it
  pinned,     ///< all of it
  refused     ///< plain, and not to be pinned
};

struct PoolPiece {
  void* data = nullptr;
  std::size_t bytes = 0;
};

/// Pieces of blocks are pinned by themselves, and none has a multiple of this inside, as an
/// address: whoever may not go from one to the next knows the borders without asking.
inline constexpr std::size_t kPoolPieceBytes = std::size_t{256} << 20;

/// The functions may be called from any thread, and wait for nothing but each other.
struct Pool {
  static constexpr int kVersion = 1;
  int version;
  /// Whoever pins. Nobody else may call what follows `counters`.
  std::atomic<const void*>* owner;
  PoolState (*state)(const void* data, std::int64_t bytes);
  PoolCounters (*counters)();

  /// The next piece with some of these bytes that is not pinned yet. Until `note` its memory stays,
  /// whatever the program does. False: there is none.
  bool (*take_plain)(const void* data, std::int64_t bytes, PoolPiece* piece);
  /// Gives all pages memory, without a change of what they hold, by many threads.
  void (*touch)(const PoolPiece* piece);
  /// What became of a piece that was taken.
  void (*note)(const PoolPiece* piece, PoolState now);

  /// A block that the program has freed so long ago, or any freed one while the pool is full, which
  /// is then the caller's until give_back. False: there is none.
  bool (*take_idle)(std::int64_t least_age_ns, void** block);
  /// The same, but any block with a pin, also one in use.
  bool (*take_any)(void** block);
  /// The next pinned piece of such a block. False: there is none.
  bool (*take_pinned)(void* block, PoolPiece* piece);
  void (*give_back)(void* block);
  /// Blocks that take_idle may give sooner or later.
  bool (*has_pinned)();
};

/// Of libfleetblas_preload.so: nullptr where the pool is turned off.
using PoolFunction = const Pool*();
inline constexpr const char* kPoolFunction = "fleetblas_pool";

}  // namespace fleet
