// SPDX-License-Identifier: BSD-3-Clause
// call_queue.cpp: the thread's loop. It knows no plans.
#include "core/call_queue.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.hpp"
#include "base/gate.hpp"

namespace fleet {
namespace {

using namespace std::chrono_literals;

// Calls that follow each other within kPause are computed together, as long as the first need not
// wait for longer than kLongest. Queuing a call takes a few microseconds, from Python some tens.
constexpr auto kPause = 300us;
constexpr auto kLongest = 5ms;

}  // namespace

void Event::require_ok() const {
  if (status_ != Status::ok)
    throw Error(status_, message_.empty() ? "a queued call failed" : message_);
}

void Event::finish(Status status, const std::string& message) noexcept {
  status_ = status;
  try {
    message_ = message;
  } catch (const std::bad_alloc&) {
    message_.clear();
  }
  done_.store(true, std::memory_order_release);
}

struct CallQueue::Line {
  explicit Line(std::function<void(std::span<QueuedCall>)> computes)
      : compute(std::move(computes)) {}

  void serve() {
    std::unique_lock lock(mutex);
    for (;;) {
      bell.wait(lock, [&] { return closed || !pending.empty(); });
      if (pending.empty()) return;
      gather(lock);
      running.swap(pending);
      is_urgent = false;
      lock.unlock();
      compute(running);
      lock.lock();
      under_way.fetch_sub(running.size());
      running.clear();
      over.notify_all();
    }
  }

  /// Waits for more calls, unless somebody waits for these.
  void gather(std::unique_lock<std::mutex>& lock) {
    const auto end = std::chrono::steady_clock::now() + kLongest;
    std::size_t known = 0;
    while (!is_urgent && !closed && known < pending.size() &&
           std::chrono::steady_clock::now() < end) {
      known = pending.size();
      bell.wait_for(lock, kPause, [&] { return is_urgent || closed; });
    }
  }

  bool is_used(const Block& block, Use use) const {
    const auto uses = [&](const QueuedCall& queued) {
      if (queued.event->done()) return false;
      for (const int x : {kA, kB, kC})
        if ((use == Use::any || x == kC) && overlap(block_of(queued.call, x), block)) return true;
      return false;
    };
    return std::ranges::any_of(running, uses) || std::ranges::any_of(pending, uses);
  }

  const std::function<void(std::span<QueuedCall>)> compute;
  std::mutex mutex;
  std::condition_variable bell;  ///< for the thread
  std::condition_variable over;  ///< for those who wait
  std::vector<QueuedCall> pending, running;
  std::vector<Block> undefined;
  bool is_urgent = false, closed = false;
  bool is_all_undefined = false;          ///< there was no memory for one more block
  std::atomic<std::size_t> under_way{0};  ///< pending and running
};

CallQueue::CallQueue(std::function<void(std::span<QueuedCall>)> compute)
    : line_(std::make_shared<Line>(std::move(compute))),
      crew_(1, [line = line_](int) { line->serve(); }) {}

CallQueue::~CallQueue() {
  if (gate::only_cpu_left()) return;
  {
    const std::lock_guard lock(line_->mutex);
    line_->closed = true;
  }
  line_->bell.notify_one();
  crew_.wait();
}

std::shared_ptr<Event> CallQueue::push(const Call& call) {
  std::vector<QueuedCall> one{{call, std::make_shared<Event>()}};
  if (gate::only_cpu_left()) {
    line_->compute(one);
    return one.front().event;
  }
  {
    const std::lock_guard hiring(hiring_);
    if (!is_hired_) {
      if (!crew_.hire({0}))
        throw Error(Status::no_memory, "the system gives no thread for queued calls");
      crew_.invite({0});
      is_hired_ = true;
    }
  }
  {
    const std::lock_guard lock(line_->mutex);
    line_->pending.push_back(one.front());
    line_->under_way.fetch_add(1);
  }
  line_->bell.notify_one();
  return one.front().event;
}

void CallQueue::wait_until(const std::function<bool(const Line&)>& is_over) {
  std::unique_lock lock(line_->mutex);
  while (!is_over(*line_)) {
    if (!std::exchange(line_->is_urgent, true)) line_->bell.notify_one();
    line_->over.wait(lock);
  }
}

void CallQueue::drain() {
  if (!is_busy() || gate::only_cpu_left()) return;
  wait_until([](const Line& line) { return line.pending.empty() && line.running.empty(); });
}

void CallQueue::wait(const Event& event) {
  if (!event.done()) {
    if (gate::only_cpu_left())
      throw Error(Status::unsupported, gate::in_forked_child()
                                           ? "the call was queued by the parent of this process"
                                           : "the process ends before the queued call");
    wait_until([&](const Line&) { return event.done(); });
  }
  event.require_ok();
}

bool CallQueue::is_busy() const noexcept { return line_->under_way.load() > 0; }

void CallQueue::wait_for(const Block& block, Use use) {
  if (!is_busy() || gate::only_cpu_left()) return;
  wait_until([&](const Line& line) { return !line.is_used(block, use); });
}

void CallQueue::require_defined(const Block& block) {
  if (gate::only_cpu_left()) return;
  const std::lock_guard lock(line_->mutex);
  if (line_->is_all_undefined ||
      std::ranges::any_of(line_->undefined, [&](const Block& b) { return overlap(b, block); }))
    throw Error(
        Status::device_failed,
        "elements of the matrix are undefined: a call that wrote them failed, or the device "
        "that alone had them was lost");
}

void CallQueue::note_undefined(const Block& block) noexcept {
  const std::lock_guard lock(line_->mutex);
  try {
    line_->undefined.push_back(block);
  } catch (const std::bad_alloc&) {
    line_->is_all_undefined = true;
  }
}

void CallQueue::note_written(const Block& block) {
  if (gate::only_cpu_left()) return;
  const std::lock_guard lock(line_->mutex);
  std::erase_if(line_->undefined, [&](const Block& b) { return overlap(b, block); });
}

}  // namespace fleet
