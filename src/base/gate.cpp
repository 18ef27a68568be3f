// SPDX-License-Identifier: BSD-3-Clause
// gate.cpp: a count of passes under way and a lock, and a fork that waits until both are free.
// It knows no context.
#include "base/gate.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "base/exit_guard.hpp"

namespace fleet::gate {
namespace {

constexpr auto kPollEvery = std::chrono::microseconds(50);

std::atomic<int> passes{0};
std::atomic<int> forks{0};  // under way, by any threads
std::atomic<bool> forked{false};
constinit std::mutex state_mutex;

void before_fork() {
  forks.fetch_add(1);
  while (passes.load() > 0) std::this_thread::sleep_for(kPollEvery);
  state_mutex.lock();
}

void after_fork() {
  state_mutex.unlock();
  forks.fetch_sub(1);
  forks.notify_all();
}

void in_child() {
  state_mutex.unlock();
  forked.store(true);
  forks.store(0);
  // Threads that came to a Pass while the fork was under way counted themselves for a moment; the
  // child has none of them.
  passes.store(0);
}

}  // namespace

void install() {
  static std::once_flag once;
  std::call_once(once, [] {
    pthread_atfork(before_fork, after_fork, in_child);
    Dl_info info{};
    if (dladdr(reinterpret_cast<void*>(&install), &info) != 0 && info.dli_fname != nullptr)
      dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
  });
}

bool in_forked_child() { return forked.load(std::memory_order_relaxed); }

bool only_cpu_left() { return in_forked_child() || ExitGuard::exiting(); }

Pass::Pass() {
  for (;;) {
    passes.fetch_add(1);
    const int under_way = forks.load();
    if (under_way == 0) return;
    passes.fetch_sub(1);
    forks.wait(under_way);
  }
}

Pass::~Pass() { passes.fetch_sub(1); }

StateLock::StateLock() { state_mutex.lock(); }
StateLock::~StateLock() { state_mutex.unlock(); }

}  // namespace fleet::gate
