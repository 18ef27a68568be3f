// SPDX-License-Identifier: BSD-3-Clause
// call_queue.hpp: calls that nobody waits for yet, computed in their order by a thread of the
// context. It knows no plans and no devices.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "base/worker_crew.hpp"
#include "core/call_order.hpp"

namespace fleet {

/// Thread-safe. In a forked child, and while the process exits, no call is queued: push() computes
/// it, and what the parent had queued is never done.
class CallQueue {
 public:
  /// Does at least the first of the calls, in their order, finishes the events of those that it has
  /// done, and returns how many they are. It does not throw.
  using Compute = std::function<std::size_t(std::span<QueuedCall>)>;
  explicit CallQueue(Compute compute);
  /// Waits for all calls, and for the thread.
  ~CallQueue();
  CallQueue(const CallQueue&) = delete;
  CallQueue& operator=(const CallQueue&) = delete;

  /// Waits for all calls.
  void drain();
  /// Queues the call. What is queued within a moment, or before somebody waits, is handed to
  /// `compute` together. Throws Error(no_memory) where the system gives no thread.
  std::shared_ptr<Event> push(const Call& call) { return push({call, std::make_shared<Event>()}); }
  /// Queues that the memory is to be at home, in its turn.
  std::shared_ptr<Event> push_read(const Block& block);
  /// Queues a transfer. `symbol`: as in RawCall.
  std::shared_ptr<Event> push(const char* symbol, const Transfer& transfer);
  /// Calls that are pushed from now on are done before those of lower priority, unless they
  /// conflict. 0 at first.
  void set_priority(int priority) noexcept { priority_ = priority; }
  /// Waits for the event of a call of this queue, and throws its error. Throws Error(unsupported)
  /// in a forked child for a call of the parent.
  void wait(const Event& event);

  /// Calls that are pushed from now on and use this memory start after the event. If it fails, so
  /// do they, until note_written(). Until it is done the memory counts as written by a call. In a
  /// forked child and at exit, throws Error(unsupported) if it is not done, and its error.
  void hold(const Block& block, const std::shared_ptr<Event>& event);
  /// Throws the error of an event that hold() was given for this memory.
  void require_arrived(const Block& block);

  /// Waits until calls that may start, and whose like in kind and sizes the queue has not done yet,
  /// are done; for so long at most. Not in a forked child or at exit.
  void wait_for_first_calls(std::chrono::milliseconds most);

  /// What is handed to `compute` when these, which it has, are done. From any thread.
  std::vector<QueuedCall> next_after(std::span<const QueuedCall> under_way) const;
  /// Calls that were queued so far. Takes no lock.
  std::uint64_t pushes() const noexcept;
  /// Blocks that somebody else has written: their holds are over. Each is returned once.
  std::vector<Block> take_arrived();
  bool has_arrived() const noexcept;

  /// Is any queued call under way? The one question that takes no lock.
  bool is_busy() const noexcept;
  enum class Use { any, writing };
  /// Does any queued call use (or write) this memory? Never waits.
  bool uses(const Block& block, Use use) const;
  /// Waits for the queued calls that use (or only those that write) this memory.
  void wait_for(const Block& block, Use use);
  /// Throws the status of a call that failed and was to write an element of this memory, if nobody
  /// has written it since.
  void require_defined(const Block& block);
  /// Is anything undefined? Takes no lock.
  bool has_undefined() const noexcept;
  void note_undefined(const Block& block) noexcept;
  /// The memory has been written: what a failed call or event was to bring is not missed any more.
  void note_written(const Block& block);

 private:
  struct Line;

  std::shared_ptr<Event> push(const QueuedCall& one);
  void wait_until(const std::function<bool(const Line&)>& is_over);

  const std::shared_ptr<Line> line_;  ///< shared with the thread, which may outlive this
  std::atomic<int> priority_{0};
  std::mutex hiring_;
  bool is_hired_ = false;  // guarded by hiring_
  WorkerCrew crew_;
};

}  // namespace fleet
