// SPDX-License-Identifier: BSD-3-Clause
// run.hpp: one run of a plan on virtual devices: what is enqueued, what is done, and how one
// piece of work is done. It must not know threads, nor who chooses what is next.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/clock.hpp"
#include "cpu/blas.hpp"
#include "run/backend.hpp"
#include "run/faults.hpp"

namespace fleet::host {

/// A kernel, or one chunk of a copy: the unit in which virtual devices work.
struct Piece {
  TaskId task = kNoTask;
  int index = 0;
};

/// One thread enqueues and closes, any number do pieces. open() and trace() are for times at which
/// nobody else does anything here. Kept for the next run, with its memory.
class Run {
 public:
  Run(std::shared_ptr<CpuBlas> blas, std::shared_ptr<Faults> faults);

  /// `plan` must stay until trace().
  void open(const Plan& plan);
  /// Tasks come in plan order; throws Error(internal) otherwise. Workers may begin at once.
  void enqueue(TaskId id, const Launch& work);
  /// Nothing more will come.
  void close();
  Trace trace();

  const Plan& plan() const { return *plan_; }
  const Task& task(TaskId id) const { return plan_->tasks[static_cast<std::size_t>(id)]; }
  TaskId enqueued() const { return enqueued_.load(std::memory_order_acquire); }
  bool closed() const { return closed_.load(); }
  bool failed() const { return failed_.load(std::memory_order_relaxed); }

  /// Whether everything that this piece waits for is done.
  bool runnable(const Piece& piece) const;
  /// Does the piece. A task that fails ends the run; tasks that were begun may still be completed.
  void do_piece(const Piece& piece);
  void fail(Status status, TaskId id, const char* message);

  /// A number that changes whenever there may be new work.
  int bell() const { return bell_.load(); }
  void ring();
  void wait_for_bell(int heard) const { bell_.wait(heard); }

 private:
  double elapsed_s() const { return now_s() - start_s_; }
  bool done(TaskId id) const {
    const std::size_t t = static_cast<std::size_t>(id);
    return pieces_done_[t].load(std::memory_order_acquire) == plan_->tasks[t].chunks;
  }
  const char* fault_of(const Task& task, bool doomed) const;
  void copy_piece(const Piece& piece);
  void pause(double seconds) const;

  std::shared_ptr<CpuBlas> blas_;
  std::shared_ptr<Faults> faults_;
  const Plan* plan_ = nullptr;
  double start_s_ = 0;
  std::vector<Launch> work_;  ///< per task; a copy goes from a to c
  std::vector<char> doomed_;  ///< per task: fails on purpose
  std::vector<Span> spans_;
  std::unique_ptr<std::atomic<std::uint8_t>[]> pieces_done_;
  std::size_t capacity_ = 0;
  std::atomic<TaskId> enqueued_{0};
  std::atomic<bool> closed_{false};
  std::atomic<bool> failed_{false};
  std::mutex failure_mutex_;
  Trace failure_;  ///< status, message, failed
  // std::atomic<int>: the one type on which waiting is a plain futex.
  std::atomic<int> bell_{0};
};

}  // namespace fleet::host
