// SPDX-License-Identifier: BSD-3-Clause
// thread_seconds.hpp: how long something takes, whatever else the machine does meanwhile. It knows
// no test.
#pragma once
#include <time.h>

#include <algorithm>
#include <vector>

namespace fleet::test {

/// Processor time of the calling thread.
inline double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Excludes the runs that other programs delayed most, by their use of caches.
inline double median(std::vector<double> all) {
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

}  // namespace fleet::test
