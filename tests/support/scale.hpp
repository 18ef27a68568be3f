// SPDX-License-Identifier: BSD-3-Clause
// scale.hpp: the scale of long tests. It knows no test.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <vector>

namespace fleet::test {

/// FLEETBLAS_TEST_SCALE: 1 (the default) runs everything; 0.1 runs a tenth, for sanitizer builds.
inline double test_scale() {
  const char* text = std::getenv("FLEETBLAS_TEST_SCALE");
  if (text == nullptr) return 1.0;
  const double scale = std::strtod(text, nullptr);
  return scale > 0 ? scale : 1.0;
}

/// `count` repetitions at scale 1, and at least one at any scale.
inline std::int64_t scaled(std::int64_t count) {
  return std::max<std::int64_t>(1, std::llround(static_cast<double>(count) * test_scale()));
}

/// The distance between the cases of a full enumeration that run: 1 at scale 1 or more.
inline std::int64_t scaled_step() {
  return std::max<std::int64_t>(1, std::llround(1 / test_scale()));
}

/// Whether the case after `earlier` others runs: each at scale 1 or more, and a third of them
/// below, in which each value of loops of 2, 3, 4 or 10 has its turn.
inline bool has_turn(unsigned earlier) {
  return test_scale() >= 1 || (earlier + earlier / 3) % 3 == 0;
}

/// The first ones of a list, and at least one: all of it at scale 1 or more. For cases that differ
/// in the numbers that are judged, and not in what they do with memory.
template <typename T>
std::vector<T> few(std::initializer_list<T> list) {
  const auto size = static_cast<std::int64_t>(list.size());
  return {list.begin(), list.begin() + std::min(size, scaled(size))};
}

}  // namespace fleet::test
