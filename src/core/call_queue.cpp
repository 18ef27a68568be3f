// SPDX-License-Identifier: BSD-3-Clause
// call_queue.cpp: the thread's loop. It knows no plans.
#include "core/call_queue.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <set>
#include <string>
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
/// A plan has fewer calls. What is queued meanwhile may have to be computed before the next ones.
constexpr std::size_t kMostAtOnce = 128;

constexpr const char* kLost =
    "elements of the matrix are undefined: the device that alone had them was lost";

constexpr std::size_t kMostKinds = 4096;

/// Neither a read nor a transfer.
bool is_computed(const QueuedCall& queued) {
  return !queued.only_reads && queued.transfer == nullptr;
}

/// Throws what an event has failed with.
[[noreturn]] void refuse_for(const Event& failed, const std::string& what) {
  throw Error(failed.status(), what + std::string(failed.why()));
}

}  // namespace

struct CallQueue::Line {
  struct Hold {
    Block block;
    std::shared_ptr<const Event> event;
    bool is_open;  ///< counted as under way
  };
  struct Undefined {
    Block block;
    std::shared_ptr<const Event> event;  ///< of the call that was to write it; null: see kLost
  };

  explicit Line(Compute computes) : compute(std::move(computes)) { running.reserve(kMostAtOnce); }

  void serve() {
    std::unique_lock lock(mutex);
    bool is_idle = true;  // all calls before these are done, or wait for events
    for (;;) {
      bell.wait(lock, [&] { return has_changed || (closed && pending.empty()); });
      if (closed && pending.empty()) return;
      if (is_idle) gather(lock);
      has_changed = false;
      take_next();
      is_idle = running.empty();
      if (is_idle) continue;
      is_urgent = false;
      const std::size_t done = do_first(lock);
      is_idle = done == running.size();
      has_changed = true;  // what waited for these may start
      note_failed(done);
      note_kinds(done);
      under_way.fetch_sub(std::erase_if(
          pending, [](const PendingCall& call) { return call.queued.event->done(); }));
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

  /// Copies what is next into `running`: calls to be computed, or one that can only fail.
  void take_next() noexcept {
    choose_next();
    // An event is done a moment before it says so. What it has brought must be noted before the
    // calls that waited for it start: later it would count as newer than what they have made.
    // Events that were done for the choice are done here.
    close_holds();
  }

  void choose_next() noexcept {
    running.clear();
    failed = nullptr;
    try {
      for (const std::size_t i : next_calls(pending, kMostAtOnce)) {
        auto why = failed_before(pending[i]);
        if (why != nullptr && !running.empty()) return;  // in its turn
        running.push_back(pending[i].queued);
        failed = std::move(why);
        if (failed != nullptr) return;
      }
    } catch (const std::bad_alloc&) {  // one by one, then
      running.clear();
      if (pending.empty() || !may_start(pending.front())) return;
      running.push_back(pending.front().queued);
      failed = failed_before(pending.front());
    }
  }

  /// Without the lock: events call those who have asked for them.
  std::size_t do_first(std::unique_lock<std::mutex>& lock) {
    lock.unlock();
    std::size_t done = 1;
    if (failed == nullptr)
      done = compute(running);
    else
      running.front().fail(failed->status(), "what it waits for failed: ", failed->why());
    lock.lock();
    return done;
  }

  void note_failed(std::size_t done) noexcept {
    try {
      for (const QueuedCall& queued : std::span(running).first(done))
        if (queued.event->status() != Status::ok)
          if (!queued.only_reads) undefined.push_back({queued.block(kC), queued.event});
    } catch (const std::bad_alloc&) {
      is_all_undefined = true;
    }
    has_undefined = is_all_undefined || !undefined.empty();
  }

  void note_kinds(std::size_t done) noexcept {
    try {
      if (kinds.size() > kMostKinds) kinds.clear();
      for (const QueuedCall& queued : std::span(running).first(done))
        if (is_computed(queued) && queued.event->status() == Status::ok) kinds.insert(queued.call);
    } catch (const std::bad_alloc&) {
      // They count as new ones again.
    }
  }

  /// May one start that is the first of its kind?
  bool has_first_calls() const {
    return std::ranges::any_of(pending, [&](const PendingCall& call) {
      return is_computed(call.queued) && may_start(call) && !kinds.contains(call.queued.call);
    });
  }

  bool is_used(const Block& block, Use use) const {
    const auto holds_it = [&](const Hold& hold) {
      return hold.is_open && overlap(hold.block, block);
    };
    // Also a call whose event is done, until it is known what it has left undefined.
    const auto uses_it = [&](const PendingCall& call) {
      for (const int x : {kA, kB, kC})
        if ((use == Use::any || x == kC) && overlap(call.queued.block(x), block)) return true;
      return false;
    };
    return std::ranges::any_of(holds, holds_it) || std::ranges::any_of(pending, uses_it);
  }

  void add(const QueuedCall& queued, int priority) {
    PendingCall call{.queued = queued, .priority = priority};
    for (const Hold& hold : holds)
      for (const int x : {kA, kB, kC})
        if (overlap(queued.block(x), hold.block)) {
          call.after.push_back(hold.event);
          break;
        }
    pending.push_back(std::move(call));
    pushes.fetch_add(1);
    under_way.fetch_add(1);
    has_changed = true;
  }

  /// Copies of the block on devices are old.
  void note_arrived(const Block& block) {
    arrived.push_back(block);
    arrivals.store(arrived.size());
  }

  void add_hold(const Block& block, const std::shared_ptr<const Event>& event) {
    // Events finish without room for errors.
    arrived.reserve(arrived.size() + holds.size() + 1);
    const bool is_open = !event->done();
    if (!is_open && event->status() == Status::ok) return note_arrived(block);
    holds.push_back({block, event, is_open});
    has_holds = true;
    if (is_open) under_way.fetch_add(1);
  }

  /// After an event.
  void close_holds() {
    for (Hold& hold : holds)
      if (hold.is_open && hold.event->done()) {
        hold.is_open = false;
        if (hold.event->status() == Status::ok) note_arrived(hold.block);
        under_way.fetch_sub(1);
      }
    std::erase_if(holds, [](const Hold& hold) {
      return !hold.is_open && hold.event->status() == Status::ok;
    });
    has_holds = !holds.empty();
  }

  const Compute compute;
  std::mutex mutex;
  std::condition_variable bell;         ///< for the thread
  std::condition_variable over;         ///< for those who wait
  std::vector<PendingCall> pending;     ///< what is not done, in the order of the queue
  std::vector<QueuedCall> running;      ///< of these, what the thread is at; touched by nobody else
  std::shared_ptr<const Event> failed;  ///< why the one that is `running` cannot be computed
  std::atomic<std::uint64_t> pushes{0};
  std::vector<Hold> holds;
  std::atomic<bool> has_holds{false};
  std::vector<Undefined> undefined;
  std::atomic<bool> has_undefined{false};  ///< some of it, or all
  std::vector<Block> arrived;
  std::atomic<std::size_t> arrivals{0};  ///< arrived.size()
  std::set<CallShape> kinds;             ///< of calls that were done: one like them loads no kernel
  bool has_changed = false, is_urgent = false, closed = false;
  bool is_all_undefined = false;          ///< there was no memory for one more block
  std::atomic<std::size_t> under_way{0};  ///< calls, and holds that are open
};

CallQueue::CallQueue(Compute compute)
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

std::shared_ptr<Event> CallQueue::push_read(const Block& block) {
  // For all others it is a call that may write the block, and does not.
  Call call{};
  call.symbol = "fleet_matrix_read_async";
  call.type = {.storage = block.storage};
  call.m = block.rows;
  call.n = block.cols;
  call.batch = 1;
  call.arguments.data[kC] = reinterpret_cast<void*>(block.begin);
  call.arguments.ld = {1, 1, block.ld};
  return push({call, std::make_shared<Event>(), true});
}

std::vector<QueuedCall> CallQueue::next_after(std::span<const QueuedCall> under_way) const {
  const std::lock_guard lock(line_->mutex);
  std::vector<PendingCall> left;
  for (const PendingCall& call : line_->pending)
    if (std::ranges::find(under_way, call.queued.event, &QueuedCall::event) == under_way.end())
      left.push_back(call);
  std::vector<QueuedCall> next;
  for (const std::size_t i : next_calls(left, kMostAtOnce)) {
    if (failed_before(left[i]) != nullptr) break;
    next.push_back(left[i].queued);
  }
  return next;
}

std::uint64_t CallQueue::pushes() const noexcept { return line_->pushes; }

std::shared_ptr<Event> CallQueue::push(const char* symbol, const Transfer& transfer) {
  Call call{};
  call.symbol = symbol;
  call.batch = 1;
  return push({call, std::make_shared<Event>(), false, std::make_shared<const Transfer>(transfer)});
}

std::vector<Block> CallQueue::take_arrived() {
  const std::lock_guard lock(line_->mutex);
  std::vector<Block> arrived;
  arrived.reserve(line_->holds.size());  // what stays behind has room for all holds again
  line_->arrivals.store(0);
  arrived.swap(line_->arrived);
  return arrived;
}

bool CallQueue::has_arrived() const noexcept { return line_->arrivals.load() > 0; }

std::shared_ptr<Event> CallQueue::push(const QueuedCall& given) {
  QueuedCall one = given;
  if (gate::only_cpu_left()) {
    line_->compute({&one, 1});
    return one.event;
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
    line_->add(one, priority_);
  }
  line_->bell.notify_one();
  return one.event;
}

void CallQueue::wait_until(const std::function<bool(const Line&)>& is_over) {
  std::unique_lock lock(line_->mutex);
  while (!is_over(*line_)) {
    if (!std::exchange(line_->is_urgent, true)) line_->bell.notify_one();
    line_->over.wait(lock);
  }
}

void CallQueue::wait_for_first_calls(std::chrono::milliseconds most) {
  if (!is_busy() || gate::only_cpu_left()) return;
  const auto end = std::chrono::steady_clock::now() + most;
  std::unique_lock lock(line_->mutex);
  while (line_->has_first_calls() && std::chrono::steady_clock::now() < end) {
    if (!std::exchange(line_->is_urgent, true)) line_->bell.notify_one();
    line_->over.wait_until(lock, end);
  }
}

void CallQueue::drain() {
  if (!is_busy() || gate::only_cpu_left()) return;
  wait_until([](const Line& line) { return line.pending.empty(); });
}

void CallQueue::wait(const Event& event) {
  if (!event.done() && !gate::only_cpu_left())
    wait_until([&](const Line&) { return event.done(); });
  event.wait();
}

void CallQueue::hold(const Block& block, const std::shared_ptr<Event>& event) {
  if (gate::only_cpu_left()) return event->wait();
  // First, since it is known from then on that the hold will be closed.
  event->when_done([waiting = std::weak_ptr(line_)] {
    const auto line = waiting.lock();
    if (line == nullptr) return;
    {
      const std::lock_guard lock(line->mutex);
      line->close_holds();
      line->has_changed = true;
    }
    line->bell.notify_one();
    line->over.notify_all();
  });
  const std::lock_guard lock(line_->mutex);
  line_->add_hold(block, event);
}

void CallQueue::require_arrived(const Block& block) {
  if (!line_->has_holds || gate::only_cpu_left()) return;
  const std::lock_guard lock(line_->mutex);
  for (const Line::Hold& hold : line_->holds)
    if (!hold.is_open && overlap(hold.block, block))
      refuse_for(*hold.event, "what the matrix waits for failed: ");
}

bool CallQueue::is_busy() const noexcept { return line_->under_way.load() > 0; }

bool CallQueue::uses(const Block& block, Use use) const {
  if (!is_busy() || gate::only_cpu_left()) return false;
  const std::lock_guard lock(line_->mutex);
  return line_->is_used(block, use);
}

void CallQueue::wait_for(const Block& block, Use use) {
  if (!is_busy() || gate::only_cpu_left()) return;
  wait_until([&](const Line& line) { return !line.is_used(block, use); });
}

void CallQueue::require_defined(const Block& block) {
  if (!has_undefined() || gate::only_cpu_left()) return;
  const std::lock_guard lock(line_->mutex);
  if (line_->is_all_undefined)
    throw Error(Status::device_failed,
                "there was no memory to note what a failed call was to write");
  for (const Line::Undefined& part : line_->undefined) {
    if (!overlap(part.block, block)) continue;
    if (part.event == nullptr) throw Error(Status::device_failed, kLost);
    refuse_for(*part.event, "a call that was to write it failed: ");
  }
}

void CallQueue::note_undefined(const Block& block) noexcept {
  const std::lock_guard lock(line_->mutex);
  try {
    line_->undefined.push_back({block, nullptr});
  } catch (const std::bad_alloc&) {
    line_->is_all_undefined = true;
  }
  line_->has_undefined = true;
}

bool CallQueue::has_undefined() const noexcept { return line_->has_undefined; }

void CallQueue::note_written(const Block& block) {
  if (!(line_->has_holds || has_undefined()) || gate::only_cpu_left()) return;
  const std::lock_guard lock(line_->mutex);
  std::erase_if(line_->holds, [&](const Line::Hold& hold) {
    return !hold.is_open && (overlap(hold.block, block) || hold.block.bytes == 0);
  });
  line_->has_holds = !line_->holds.empty();
  std::vector<Line::Undefined> left;
  for (const Line::Undefined& part : line_->undefined)
    for (const Block& rest : without(part.block, block)) left.push_back({rest, part.event});
  line_->undefined = std::move(left);
  line_->has_undefined = line_->is_all_undefined || !line_->undefined.empty();
}

}  // namespace fleet
