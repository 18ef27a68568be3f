// SPDX-License-Identifier: BSD-3-Clause
// backoff.hpp: how a thread looks again for something that another one or a wire brings. It knows
// no messages.
#pragma once
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace fleet::lu {

constexpr std::chrono::microseconds kShortestNap{5};

/// Sleeps so briefly that nobody waits long for what is seen after it. A thread that sleeps is let
/// in before those that compute when it wakes, and one that yields its core is not: where ranks
/// share cores, messages that are looked after by yielding are slower.
inline void nap(std::chrono::nanoseconds time = kShortestNap) {
  constexpr unsigned long kSlackNs = 1000;  // by default the system makes 55 of 5 microseconds
  static thread_local const bool is_prompt = prctl(PR_SET_TIMERSLACK, kSlackNs) == 0;
  static_cast<void>(is_prompt);
  std::this_thread::sleep_for(time);
}

/// At first at once, then after naps: what comes soon is seen at once, and whoever waits for long
/// takes no core from those that work. A nap takes a small part of what was waited for already, so
/// it makes nothing much later.
class Backoff {
 public:
  void pause() {
    if (++looked_ <= kAtOnce) return;
    const auto now = std::chrono::steady_clock::now();
    if (looked_ == kAtOnce + 1) rests_since_ = now;
    constexpr std::chrono::nanoseconds kShortest = kShortestNap, kLongest = kShortestNap * 10;
    nap(std::clamp<std::chrono::nanoseconds>((now - rests_since_) / 32, kShortest, kLongest));
  }

 private:
  static constexpr int kAtOnce = 200;
  int looked_ = 0;
  std::chrono::steady_clock::time_point rests_since_;
};

}  // namespace fleet::lu
