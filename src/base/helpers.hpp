// SPDX-License-Identifier: BSD-3-Clause
// helpers.hpp: threads that do pieces of work before whoever needs them asks for them. It must not
// know what the work is.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/worker_crew.hpp"

namespace fleet {

/// For one thread, which must be the only one that calls it. There are none at first; without any,
/// or where the system refuses them, that thread does all of the work.
class Helpers {
 public:
  /// So many threads, which start when work is first offered.
  explicit Helpers(int threads = 0) : threads_(threads) {}
  /// What a helper is at is waited for.
  ~Helpers();
  Helpers(const Helpers&) = delete;
  Helpers& operator=(const Helpers&) = delete;

  /// A piece of work, done once.
  class Job {
   public:
    /// `work` must not throw.
    explicit Job(std::function<void()> work) : work_(std::move(work)) {}

   private:
    friend class Helpers;
    enum class State { waits, begun, done };
    std::function<void()> work_;
    State state_ = State::waits;
  };

  /// So many threads, unless some have started.
  void use(int threads) {
    if (crew_ == nullptr) threads_ = threads;
  }
  bool any() const { return threads_ > 0; }
  /// A helper may do it: one that rests is woken.
  void offer(const std::shared_ptr<Job>& job);
  /// Returns once it is done: by this thread, unless a helper has begun. Then this thread does
  /// others that wait.
  void finish(Job& job);
  /// Jobs that nobody has begun are not done.
  void withdraw();
  /// Does work(0) to work(count - 1), in any order and several at a time, and withdraws what was
  /// offered before. All are done when it returns or throws, which is what the first of them threw.
  void for_each(std::size_t count, const std::function<void(std::size_t)>& work);

 private:
  std::shared_ptr<Job> next();
  void run(Job& job, std::unique_lock<std::mutex>& lock);
  void serve(int helper);

  int threads_ = 0;
  std::mutex mutex_;
  std::condition_variable is_done_;
  std::deque<std::shared_ptr<Job>> waiting_;  // guarded by mutex_, as all jobs' states are
  std::unique_ptr<WorkerCrew> crew_;
  std::vector<int> resting_;  // guarded by mutex_: helpers that nothing was offered to
};

}  // namespace fleet
