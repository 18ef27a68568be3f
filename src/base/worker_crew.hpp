// SPDX-License-Identifier: BSD-3-Clause
// worker_crew.hpp: threads that wait for work. It must not know what their work is.
#pragma once
#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace fleet {

/// Persistent threads. hire() starts each with all signals blocked. Several threads may invite
/// workers, and wait for those that they alone invite; all else is for one thread at a time.
class WorkerCrew {
 public:
  /// A CPU BLAS keeps its workspace on the heap; this leaves room for its stack frames.
  static constexpr std::size_t kSmallStack = std::size_t{1} << 20;

  /// Worker w calls `work(w)` when it is invited, once for all invitations before. `work` and
  /// everything it refers to must stay alive as long as a worker may be in it.
  WorkerCrew(int workers, std::function<void(int)> work, std::size_t stack_bytes = kSmallStack);
  /// Waits at most two seconds for workers that are still busy, then detaches them.
  ~WorkerCrew();
  WorkerCrew(const WorkerCrew&) = delete;
  WorkerCrew& operator=(const WorkerCrew&) = delete;

  /// Starts those of these workers that do not exist yet. False if the system refuses a thread.
  bool hire(const std::vector<int>& workers);
  /// Sets the first `most` of these workers, which must be hired, to work: one that is at work
  /// begins again afterwards.
  void invite(const std::vector<int>& workers, std::size_t most = SIZE_MAX);
  /// Waits until these workers have done all that they were invited to.
  void wait(const std::vector<int>& workers) const;
  /// The same of all workers.
  void wait() const;
  /// Whether the threads exist in this process; false in a forked child of the one that hired them.
  bool present() const;

 private:
  struct Shared {
    std::function<void(int)> work;
    /// Per worker: how often invited, plus one when dismissed. A worker waits for a change of its
    /// own number, so that an invitation wakes nobody else.
    std::vector<std::atomic<int>> invitations;
    std::vector<std::atomic<int>> answers;  ///< per worker: of these, how many are done
    std::atomic<int> alive{0};
    std::atomic<bool> dismissed{false};
    Shared(int workers, std::function<void(int)> w)
        : work(std::move(w)),
          invitations(static_cast<std::size_t>(workers)),
          answers(static_cast<std::size_t>(workers)) {}
  };
  struct Contract {
    std::shared_ptr<Shared> shared;
    int worker;
  };
  static void* thread_main(void* contract);
  static void serve(Shared& shared, int worker);
  static void call(std::atomic<int>& invitations);
  bool start(int worker);
  void wait_for(std::size_t worker) const;

  std::shared_ptr<Shared> shared_;
  std::vector<pthread_t> threads_;
  std::vector<char> hired_;
  const std::size_t stack_bytes_;
  const pid_t process_;
};

}  // namespace fleet
