// SPDX-License-Identifier: BSD-3-Clause
// worker_crew.hpp: the threads of virtual devices. It must not know what their work is.
#pragma once
#include <pthread.h>

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

namespace fleet {

/// Threads that stay. Each is started when it is first invited, with all signals blocked and a
/// small stack. For use by one thread at a time.
class WorkerCrew {
 public:
  /// `work(w)` is what worker w does each time it is invited. It, and all that it refers to, stays
  /// alive as long as a worker may be in it.
  WorkerCrew(int workers, std::function<void(int)> work);
  /// Waits two seconds at most for workers that are still at it, then leaves them behind.
  ~WorkerCrew();
  WorkerCrew(const WorkerCrew&) = delete;
  WorkerCrew& operator=(const WorkerCrew&) = delete;

  /// Makes sure that these workers exist. False when the system refuses a thread.
  bool hire(const std::vector<int>& workers);
  /// Sends these, which must have been hired and be idle, to work.
  void invite(const std::vector<int>& workers);
  /// Waits until all who were invited are back.
  void wait();
  /// The threads exist in this process: it is not a child of the one that hired them.
  bool present() const;

 private:
  struct Shared {
    std::function<void(int)> work;
    std::vector<std::atomic<int>> invitations;  ///< per worker: how often invited
    std::atomic<int> calls{0};                  ///< changes with every invitation, and at the end
    std::atomic<int> away{0};                   ///< invited and not yet back
    std::atomic<int> alive{0};
    std::atomic<bool> dismissed{false};
    Shared(int workers, std::function<void(int)> w)
        : work(std::move(w)), invitations(static_cast<std::size_t>(workers)) {}
  };
  struct Contract {
    std::shared_ptr<Shared> shared;
    int worker;
  };
  static void* thread_main(void* contract);
  static void serve(Shared& shared, int worker);
  bool start(int worker);

  std::shared_ptr<Shared> shared_;
  std::vector<pthread_t> threads_;
  std::vector<char> hired_;
  const pid_t process_;
};

}  // namespace fleet
