// SPDX-License-Identifier: BSD-3-Clause
// pool_pins.hpp: pins what devices use of the pool of large blocks, beside the calls, and gives
// back what the program has freed. It knows no calls.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>

#include "base/worker_crew.hpp"
#include "pool/pool.hpp"
#include "run/backend.hpp"

namespace fleet {

/// The pool of the preload library, if this process has loaded it and has not turned the pool off;
/// else nullptr.
const Pool* find_pool();

/// The counters of that pool; zeros where there is none.
PoolCounters pool_counters();

/// A context's use of the pool, which belongs to the first one that pins. Thread-safe. In a forked
/// child nothing may be asked but state().
class PoolPins {
 public:
  using Find = const Pool*();
  explicit PoolPins(Find* find = find_pool);
  /// Unpins all.
  ~PoolPins();
  PoolPins(const PoolPins&) = delete;
  PoolPins& operator=(const PoolPins&) = delete;

  /// What is known of some bytes: `elsewhere` too where the pool is of another context.
  PoolState state(const void* data, std::int64_t bytes);
  /// Has the pieces with these bytes pinned by and by, where they are plain. The backend must
  /// outlive this, and be the same each time.
  void pin_soon(Backend& backend, const void* data, std::int64_t bytes);
  /// Gives back at once what the program has freed.
  void trim();

 private:
  struct Desk;

  const Pool* pool(std::int64_t bytes);
  bool is_owner();

  Find* const find_;
  std::atomic<const Pool*> pool_{nullptr};
  std::atomic<double> next_look_s_{0};
  const std::shared_ptr<Desk> desk_;  ///< shared with the thread, which may outlive this
  WorkerCrew crew_;
};

}  // namespace fleet
