// SPDX-License-Identifier: BSD-3-Clause
// backoff.hpp: how a thread looks again for something that another one or a wire brings. It knows
// no messages.
#pragma once
#include <sys/prctl.h>

#include <chrono>
#include <thread>

namespace fleet::lu {

/// Sleeps so briefly that nobody waits long for what is seen after it. A thread that sleeps is let
/// in before those that compute when it wakes, and one that yields its core is not: where ranks
/// share cores, messages that are looked after by yielding are slower.
inline void nap() {
  constexpr std::chrono::microseconds kNap{5};
  constexpr unsigned long kSlackNs = 1000;  // by default the system makes 55 of 5 microseconds
  static thread_local const bool is_prompt = prctl(PR_SET_TIMERSLACK, kSlackNs) == 0;
  static_cast<void>(is_prompt);
  std::this_thread::sleep_for(kNap);
}

/// At first at once, then after naps: what comes soon is seen at once, and whoever waits for long
/// takes no core from those that work.
class Backoff {
 public:
  void pause() {
    if (++looked_ > kAtOnce) nap();
  }

 private:
  static constexpr int kAtOnce = 200;
  int looked_ = 0;
};

}  // namespace fleet::lu
