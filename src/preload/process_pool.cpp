// SPDX-License-Identifier: BSD-3-Clause
// process_pool.cpp: reads the setting, watches forks, and shows the pool to whoever pins. It knows
// no device.
#include "preload/process_pool.hpp"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>

#include "pool/cap.hpp"
#include "pool/table.hpp"
#include "preload/preload.hpp"

namespace fleet::preload {

constinit pool::Blocks process_pool;

namespace {

constexpr int kWarningLevel = 2;

enum class Phase : int { unread, opening, on, off };
constinit std::atomic<Phase> phase{Phase::unread};

void before_fork() { process_pool.before_fork(); }
void after_fork_in_parent() { process_pool.after_fork_in_parent(); }
void after_fork_in_child() { process_pool.after_fork_in_child(); }

// Before the core has handlers of its own, which wait for threads that may allocate: those run
// first then, while the pool is free.
__attribute__((constructor)) void watch_forks() {
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

void warn_of_setting(const char* value) {
  const char* level = setting("LOG_LEVEL");
  if (level == nullptr || atoi(level) < kWarningLevel) return;
  char line[256];
  const int length = snprintf(line, sizeof line,
                              "fleetblas: FLEETBLAS_POOL=%s: expected 0, 1, a share of memory such "
                              "as 0.25 or a size such as 16G\n",
                              value);
  const ssize_t written =
      write(STDERR_FILENO, line, std::min(static_cast<std::size_t>(length), sizeof line - 1));
  static_cast<void>(written);
}

/// Threads that come meanwhile get their block from malloc.
[[gnu::noinline]] bool open_pool() {
  Phase expected = Phase::unread;
  if (!phase.compare_exchange_strong(expected, Phase::opening)) return expected == Phase::on;
  const char* value = secure_getenv("FLEETBLAS_POOL");
  pool::Cap cap;
  if (!pool::parse_cap(value, cap)) warn_of_setting(value);
  const bool is_on = process_pool.open(static_cast<std::size_t>(pool::bytes_of(cap)));
  phase.store(is_on ? Phase::on : Phase::off, std::memory_order_release);
  return is_on;
}

bool is_on() {
  const Phase now = phase.load(std::memory_order_acquire);
  return now == Phase::on || (now == Phase::unread && open_pool());
}

/// What the program sees of errno is what malloc and free leave.
class KeptErrno {
 public:
  KeptErrno() : before_(errno) {}
  ~KeptErrno() { errno = before_; }
  KeptErrno(const KeptErrno&) = delete;
  KeptErrno& operator=(const KeptErrno&) = delete;

 private:
  const int before_;
};

constinit std::atomic<const void*> owner{nullptr};

}  // namespace

void* allocate_in_pool(std::size_t bytes, pool::Blocks::Contents contents) {
  const KeptErrno kept;
  return is_on() ? process_pool.allocate(bytes, contents) : nullptr;
}

void release_in_pool(void* block) {
  const KeptErrno kept;
  process_pool.release(block);
}

}  // namespace fleet::preload

/// The pool of this process, for the core; nullptr where it is turned off.
extern "C" [[gnu::visibility("default")]] const fleet::Pool* fleetblas_pool(void) {
  using namespace fleet::preload;
  return is_on() ? &fleet::pool::kTable<process_pool, owner> : nullptr;
}
