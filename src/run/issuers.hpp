// SPDX-License-Identifier: BSD-3-Clause
// issuers.hpp: a thread for each device, which hands tasks to it beside the threads of others. It
// must not know what handing over means.
#pragma once
#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <vector>

#include "base/worker_crew.hpp"
#include "plan/plan.hpp"

namespace fleet {

/// To hand a task to a GPU takes a thread 2 to 13 us, whatever the GPU does meanwhile; threads of
/// several devices do not hinder each other. One run at a time has the thread of a device, while
/// other runs may have those of others.
class Issuers {
 public:
  /// Threads are numbered from 0, and start when they are first needed.
  explicit Issuers(int threads);

  /// Hands a task over. Must not throw.
  using Put = std::function<void()>;

  /// Gives these threads to a run that has at most so many tasks for each. By one caller at a time.
  /// False, with nothing begun, if the system refuses a thread, and in a forked child.
  bool begin(const std::vector<int>& threads, std::size_t tasks);
  /// `put` is called by the thread after all that was posted to it before, in rising order of
  /// tasks. By the thread that began the run.
  void post(int thread, TaskId task, Put put);
  /// Waits until what was posted to these threads is done, and gives them back.
  void finish(const std::vector<int>& threads);
  /// Waits until this thread has put `task`, which was posted to it. From the put of a later task.
  void await(int thread, TaskId task) const;

 private:
  struct Order {
    TaskId task = kNoTask;
    Put put;
  };
  /// What lies before one thread. Orders are written before `posted` counts them.
  struct alignas(64) Desk {
    std::vector<Order> orders;
    std::atomic<std::size_t> posted{0};
    std::atomic<bool> closed{false};
    alignas(64) std::atomic<TaskId> last{kNoTask};  ///< the latest task that was put
  };

  Desk& desk(int thread) { return desks_[static_cast<std::size_t>(thread)]; }
  const Desk& desk(int thread) const { return desks_[static_cast<std::size_t>(thread)]; }
  void serve(int thread);

  std::deque<Desk> desks_;  ///< they stay where they are
  WorkerCrew crew_;         ///< last: its threads use the desks
};

}  // namespace fleet
