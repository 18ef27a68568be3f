// SPDX-License-Identifier: BSD-3-Clause
// generator.hpp: the random numbers that Linpack's matrices have, by their place. It knows no
// matrices.
#pragma once
#include <cstdint>

namespace fleet::lu {

/// A linear congruential sequence modulo 2^64, which can be entered anywhere: the numbers of a
/// matrix do not depend on the grid. By the formula of HPL 2.0 and later, rounded as there.
class Sequence {
 public:
  /// HPL's first number is the one after the seed.
  explicit Sequence(std::uint64_t seed = kSeed) : state_(Step{}.after(seed)) {}

  /// `count` numbers on.
  void skip(std::uint64_t count) { state_ = Step{}.times(count).after(state_); }
  /// The next one, in (-0.5, 0.5].
  double next() {
    // The state is a fraction of 2^64, whose lower half HPL divides first.
    const auto low = static_cast<double>(state_ & 0xffffffffu);
    const auto high = static_cast<double>(state_ >> 32);
    state_ = Step{}.after(state_);
    constexpr double kHalf = 0.5, kTwo31 = 2147483648.0;
    return kHalf - (low / kTwo31 * kHalf + high) / kTwo31 * kHalf;
  }

 private:
  static constexpr std::uint64_t kSeed = 100;
  /// x -> a*x + c.
  struct Step {
    std::uint64_t a = 6364136223846793005u, c = 1;
    std::uint64_t after(std::uint64_t x) const { return a * x + c; }
    /// This step so often, by squaring.
    Step times(std::uint64_t count) const {
      Step all{1, 0}, power = *this;
      for (; count > 0; count /= 2) {
        if (count % 2 == 1) all = {power.a * all.a, power.a * all.c + power.c};
        power = {power.a * power.a, power.a * power.c + power.c};
      }
      return all;
    }
  };
  std::uint64_t state_;
};

}  // namespace fleet::lu
