// SPDX-License-Identifier: BSD-3-Clause
// clock.hpp: the steady clock in seconds. It must not know what is timed.
#pragma once
#include <chrono>

namespace fleet {

inline double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The seconds that `work` takes.
template <typename Work>
double seconds_of(Work&& work) {
  const double start_s = now_s();
  work();
  return now_s() - start_s;
}

}  // namespace fleet
