// SPDX-License-Identifier: BSD-3-Clause
// crew.hpp: the cores of a rank, each with a task of its own. It knows no matrices.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "work/lockstep.hpp"

namespace fleet::lu {

/// Threads that share work whose parts are independent.
class Crew {
 public:
  /// Of the caller and `threads` - 1 others. With `has_helpers`, threads of somebody else may call
  /// help() meanwhile. Throws Failure where the system gives no threads.
  explicit Crew(int threads, bool has_helpers = false);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  /// `work(begin, end)` for parts of [0, count), by one core each: large ones first and the last
  /// ones small, so that all end together (paper 3, 4.7). Returns when all are done; throws what
  /// the first failing part, or `between`, threw. `between` is called by the caller's thread before
  /// each of its parts; what it shares itself, that thread does alone.
  void share(std::int64_t count, const std::function<void(std::int64_t, std::int64_t)>& work,
             const std::function<void()>& between = {});
  /// One part of what is shared now; false where there is none.
  bool help();
  /// `body` by the caller, while the other threads stay awake for the pieces that it gives out: for
  /// work whose pieces take microseconds. A call of share() meanwhile is done by its caller alone.
  void in_lockstep(const std::function<void(Lockstep&)>& body);
  int threads() const { return static_cast<int>(others_.size()) + 1; }

  /// Who can be asked for help is told when there is work.
  std::function<void()> on_work;

 private:
  struct Share {
    std::int64_t count = 0;
    const std::function<void(std::int64_t, std::int64_t)>* work = nullptr;
    std::int64_t next = 0;  ///< the first that nobody has taken
    int busy = 0;           ///< parts that are being worked on
    std::exception_ptr error;
  };

  void run(int number);
  /// With the lock: nobody takes another part.
  void fail(const std::exception_ptr& error);
  /// With the lock, which it leaves for the work. False: there is nothing left to take.
  bool take_part(std::unique_lock<std::mutex>& lock);

  const bool has_helpers_;
  std::mutex mutex_;
  std::condition_variable begins_, ends_;
  Share share_;         // guarded by mutex_
  bool stops_ = false;  // guarded by mutex_
  Lockstep lockstep_;
  std::vector<std::thread> others_;
};

}  // namespace fleet::lu
