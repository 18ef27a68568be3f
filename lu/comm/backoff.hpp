// SPDX-License-Identifier: BSD-3-Clause
// backoff.hpp: how a thread looks again for something that another one or a wire brings. It knows
// no messages.
#pragma once
#include <sched.h>

#include <chrono>
#include <thread>

namespace fleet::lu {

/// At first at once, then with others before it, then after naps: what comes soon is seen at once,
/// and whoever waits for long takes no core from those that work.
class Backoff {
 public:
  void pause() {
    ++looked_;
    if (looked_ <= kAtOnce) return;
    if (looked_ <= kYielding)
      ::sched_yield();
    else
      std::this_thread::sleep_for(kNap);
  }

 private:
  static constexpr int kAtOnce = 50, kYielding = 2000;
  static constexpr std::chrono::microseconds kNap{20};
  int looked_ = 0;
};

}  // namespace fleet::lu
