// SPDX-License-Identifier: BSD-3-Clause
// issuers.cpp: orders that pass from one thread to others without a lock.
#include "run/issuers.hpp"

#include <chrono>
#include <thread>
#include <utility>

namespace fleet {
namespace {

/// Most waits are for a thread that is at work, and take microseconds. Long ones sleep.
class Patience {
 public:
  void wait() {
    if (++looked_ < kLooks) return std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }

 private:
  static constexpr int kLooks = 200;
  int looked_ = 0;
};

/// As a program's own threads have: cuBLAS may load kernels in any call.
constexpr std::size_t kStackBytes = std::size_t{8} << 20;

}  // namespace

Issuers::Issuers(int threads)
    : desks_(static_cast<std::size_t>(threads)),
      crew_(
          threads, [this](int thread) { serve(thread); }, kStackBytes) {}

bool Issuers::begin(const std::vector<int>& threads, std::size_t tasks) {
  if (!crew_.present() || !crew_.hire(threads)) return false;
  for (const int thread : threads) {
    Desk& at = desk(thread);
    if (at.orders.size() < tasks) at.orders.resize(tasks);
    at.posted = 0;
    at.closed = false;
    at.last = kNoTask;
  }
  crew_.invite(threads);
  return true;
}

void Issuers::post(int thread, TaskId task, Put put) {
  Desk& at = desk(thread);
  const std::size_t index = at.posted.load(std::memory_order_relaxed);
  at.orders.at(index) = {.task = task, .put = std::move(put)};
  at.posted.store(index + 1, std::memory_order_release);
}

void Issuers::finish(const std::vector<int>& threads) {
  for (const int thread : threads) desk(thread).closed.store(true, std::memory_order_release);
  crew_.wait(threads);
}

void Issuers::await(int thread, TaskId task) const {
  const Desk& at = desk(thread);
  for (Patience patience; at.last.load(std::memory_order_acquire) < task;) patience.wait();
}

void Issuers::serve(int thread) {
  Desk& at = desk(thread);
  Patience patience;
  for (std::size_t next = 0;;) {
    // In this order: what was posted before the desk was closed is seen.
    const bool closed = at.closed.load(std::memory_order_acquire);
    if (next == at.posted.load(std::memory_order_acquire)) {
      if (closed) return;
      patience.wait();
      continue;
    }
    patience = {};
    Order& order = at.orders[next++];
    order.put();
    order.put = nullptr;  // what it holds belongs to the run
    at.last.store(order.task, std::memory_order_release);
  }
}

}  // namespace fleet
