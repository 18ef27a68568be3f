// SPDX-License-Identifier: BSD-3-Clause
// call_queue.hpp: calls that nobody waits for yet, computed in their order by a thread of the
// context. It knows no plans and no devices.
#pragma once
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/worker_crew.hpp"
#include "core/call.hpp"

namespace fleet {

/// The outcome of a queued call.
class Event {
 public:
  /// Is the call done, or has it failed? Never waits; also in a forked child.
  bool done() const noexcept { return done_.load(std::memory_order_acquire); }
  /// Once done: throws the call's error, which names the call.
  void require_ok() const;
  Status status() const noexcept { return status_; }

  /// By whoever computes the call, once.
  void finish(Status status, const std::string& message) noexcept;

 private:
  std::atomic<bool> done_{false};
  Status status_ = Status::ok;
  std::string message_;  ///< empty if there was no memory for it
};

struct QueuedCall {
  Call call;
  std::shared_ptr<Event> event;
};

/// Thread-safe. In a forked child, and while the process exits, no call is queued: push() computes
/// it, and what the parent had queued is never done.
class CallQueue {
 public:
  /// `compute` does calls in their order and finishes their events; it does not throw.
  explicit CallQueue(std::function<void(std::span<QueuedCall>)> compute);
  /// Waits for all calls, and for the thread.
  ~CallQueue();
  CallQueue(const CallQueue&) = delete;
  CallQueue& operator=(const CallQueue&) = delete;

  /// Waits for all calls.
  void drain();
  /// Queues the call. What is queued within a moment, or before somebody waits, is handed to
  /// `compute` together. Throws Error(no_memory) where the system gives no thread.
  std::shared_ptr<Event> push(const Call& call);
  /// Waits for the event of a call of this queue, and throws its error. Throws Error(unsupported)
  /// in a forked child for a call of the parent.
  void wait(const Event& event);

  /// Is any queued call under way? The one question that takes no lock.
  bool is_busy() const noexcept;
  enum class Use { any, writing };
  /// Waits for the queued calls that use (or only those that write) this memory.
  void wait_for(const Block& block, Use use);
  /// Throws Error(device_failed) if a call that failed has left an element of this memory
  /// undefined, and nobody has written it since.
  void require_defined(const Block& block);
  void note_undefined(const Block& block) noexcept;
  void note_written(const Block& block);

 private:
  struct Line;

  void wait_until(const std::function<bool(const Line&)>& is_over);

  const std::shared_ptr<Line> line_;  ///< shared with the thread, which may outlive this
  std::mutex hiring_;
  bool is_hired_ = false;  // guarded by hiring_
  WorkerCrew crew_;
};

}  // namespace fleet
