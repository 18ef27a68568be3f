// SPDX-License-Identifier: BSD-3-Clause
// lockstep.cpp: parts are taken by comparing and exchanging, and whoever waits looks again.
#include "work/lockstep.hpp"

#include <thread>
#include <utility>

#include "comm/backoff.hpp"

namespace fleet::lu {
namespace {

/// Looks again for something that takes less time than a system call. After that it lets others
/// have the core, and then sleeps: ranks, drivers and BLAS have threads too, and the next piece may
/// need a message of a rank that is still at something else.
class Look {
 public:
  void again() {
    if (++looked_ > kAtOnce + kYielding) return nap();
    if (looked_ > kAtOnce) return std::this_thread::yield();
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

 private:
  static constexpr int kAtOnce = 1000, kYielding = 200;
  int looked_ = 0;
};

}  // namespace

Lockstep::Lockstep(int threads)
    : parts_(threads), of_parts_(std::make_unique<Part[]>(static_cast<std::size_t>(threads))) {}

void Lockstep::do_parts(Round round, int thread) {
  for (int i = 0; i < parts_; ++i) {
    const int part = (thread + i) % parts_;
    // Every part is taken in every round: who is late finds that of an old round taken.
    Round before = round - 1;
    if (!of_parts_[static_cast<std::size_t>(part)].taken.compare_exchange_strong(
            before, round, std::memory_order_acq_rel))
      continue;
    try {
      (*work_)(part);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (error_ == nullptr) error_ = std::current_exception();
    }
    done_.fetch_add(1, std::memory_order_acq_rel);
  }
}

void Lockstep::follow(int thread) {
  Round seen = round_.load(std::memory_order_acquire);
  do_parts(seen, thread);
  for (Look look; is_on(); look.again()) {
    const Round round = round_.load(std::memory_order_acquire);
    if (round == seen) continue;
    seen = round;
    do_parts(round, thread);
    look = {};
  }
}

void Lockstep::each(const std::function<void(int)>& work) {
  if (parts_ == 1) return work(0);
  work_ = &work;
  done_.store(0, std::memory_order_relaxed);
  const Round round = round_.load(std::memory_order_relaxed) + 1;
  round_.store(round, std::memory_order_release);
  do_parts(round, 0);
  for (Look look; done_.load(std::memory_order_acquire) < parts_;) look.again();
  const std::lock_guard lock(mutex_);
  if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
}

}  // namespace fleet::lu
