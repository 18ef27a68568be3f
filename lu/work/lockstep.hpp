// SPDX-License-Identifier: BSD-3-Clause
// lockstep.hpp: work of microseconds by several cores, one piece after another. It knows no
// matrices.
#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>

namespace fleet::lu {

/// A leader gives out work in as many parts as there are threads, and the followers look for it
/// without sleeping as long as it comes soon. Nobody waits for a follower that has not come:
/// whoever is there does its part. A part is done by the same thread each time if that one is
/// there, so that its data stay in the caches of one core.
class Lockstep {
 public:
  explicit Lockstep(int threads);

  /// By the leader: followers are to look from now on, and no longer.
  void begin() { is_on_.store(true, std::memory_order_release); }
  void end() { is_on_.store(false, std::memory_order_release); }
  bool is_on() const { return is_on_.load(std::memory_order_acquire); }
  /// By a follower, which has a number from 1 on: does parts until end().
  void follow(int thread);

  int parts() const { return parts_; }
  /// By the leader: work(part) for each part in [0, parts()). Returns when all are done; throws
  /// what the first failing one threw.
  void each(const std::function<void(int)>& work);

 private:
  using Round = std::uint64_t;
  struct alignas(64) Part {
    std::atomic<Round> taken = 0;  ///< in this round, or an earlier one
  };

  /// All parts of the round that nobody has taken, the thread's own first.
  void do_parts(Round round, int thread);

  const int parts_;
  std::unique_ptr<Part[]> of_parts_;
  const std::function<void(int)>* work_ = nullptr;  ///< of the round: read by who has taken a part
  alignas(64) std::atomic<Round> round_ = 0;
  alignas(64) std::atomic<int> done_ = 0;
  std::atomic<bool> is_on_ = false;
  std::mutex mutex_;
  std::exception_ptr error_;  // guarded by mutex_
};

}  // namespace fleet::lu
