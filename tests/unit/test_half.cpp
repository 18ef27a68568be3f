// SPDX-License-Identifier: BSD-3-Clause
// test_half.cpp: the two-byte types against their definition, which is written here as powers of
// two and a search for the nearest neighbour. It knows no matrices.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cpu/half.hpp"
#include "support/reference.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using test::Random;

/// A format, given by its numbers of bits.
template <typename T>
struct Format;
template <>
struct Format<Half> {
  static constexpr int kFraction = 10, kExponent = 5;
};
template <>
struct Format<BFloat16> {
  static constexpr int kFraction = 7, kExponent = 8;
};

template <typename T>
T of_bits(unsigned bits) {
  return {static_cast<std::uint16_t>(bits)};
}

template <typename T>
constexpr unsigned kInfinityBits = ((1u << Format<T>::kExponent) - 1) << Format<T>::kFraction;

/// The value by the standard's formula.
template <typename T>
double defined_value(unsigned bits) {
  constexpr int kBias = (1 << (Format<T>::kExponent - 1)) - 1;
  const int exponent = static_cast<int>((bits & 0x7fffu) >> Format<T>::kFraction);
  const unsigned fraction = bits & ((1u << Format<T>::kFraction) - 1);
  const double sign = (bits & 0x8000u) != 0 ? -1 : 1;
  if (exponent == (1 << Format<T>::kExponent) - 1)
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  const unsigned hidden = exponent > 0 ? 1u << Format<T>::kFraction : 0u;
  return sign * std::ldexp(static_cast<double>(fraction + hidden),
                           std::max(exponent, 1) - kBias - Format<T>::kFraction);
}

/// Rounds to nearest, ties to even, by a search among all positive values. One step beyond the
/// largest counts as a value, and rounding to it gives infinity.
template <typename T>
class Nearest {
 public:
  Nearest() {
    for (unsigned bits = 0; bits < kInfinityBits<T>; ++bits)
      values_.push_back(defined_value<T>(bits));
    values_.push_back(2 * values_.back() - values_[values_.size() - 2]);
  }
  unsigned bits(float value) const {
    const unsigned sign = std::signbit(value) ? 0x8000u : 0u;
    const double size = std::fabs(static_cast<double>(value));
    if (size >= values_.back()) return sign | kInfinityBits<T>;
    const auto above = std::ranges::upper_bound(values_, size);
    const auto high = static_cast<unsigned>(above - values_.begin());
    const double to_high = values_[high] - size, to_low = size - values_[high - 1];
    const bool up = to_high < to_low || (to_high == to_low && high % 2 == 0);
    return sign | (up ? high : high - 1);
  }

 private:
  std::vector<double> values_;
};

template <typename T>
class HalfTypes : public ::testing::Test {};
using Types = ::testing::Types<Half, BFloat16>;
TYPED_TEST_SUITE(HalfTypes, Types);

TYPED_TEST(HalfTypes, WidenToTheValueThatTheirBitsStandFor) {
  for (unsigned bits = 0; bits <= 0xffffu; ++bits) {
    const double want = defined_value<TypeParam>(bits);
    const float is = widen(of_bits<TypeParam>(bits));
    ASSERT_EQ(std::signbit(is), (bits & 0x8000u) != 0) << bits;
    ASSERT_EQ(std::isnan(is), std::isnan(want)) << bits;
    ASSERT_TRUE(std::isnan(is) || static_cast<double>(is) == want) << bits;
  }
}

TYPED_TEST(HalfTypes, ComeBackAsTheyWere) {
  for (unsigned bits = 0; bits <= 0xffffu; ++bits) {
    const TypeParam value = of_bits<TypeParam>(bits);
    const bool is_nan = (bits & 0x7fffu) > kInfinityBits<TypeParam>;
    ASSERT_TRUE(is_nan || narrow<TypeParam>(widen(value)).bits == bits) << bits;
  }
}

TYPED_TEST(HalfTypes, RoundToTheNearestAndTiesToEven) {
  const Nearest<TypeParam> nearest;
  // Each value, the ties between neighbours, and the floats next to both.
  for (unsigned bits = 0; bits < kInfinityBits<TypeParam>; ++bits) {
    const auto value = static_cast<float>(defined_value<TypeParam>(bits));
    const double step = defined_value<TypeParam>(bits | 1u) - defined_value<TypeParam>(bits & ~1u);
    const auto tie = static_cast<float>(static_cast<double>(value) + step / 2);
    for (const float at : {value, tie})
      for (const float beside :
           {at, std::nextafter(at, 0.0F), std::nextafter(at, std::numeric_limits<float>::max())})
        for (const float x : {beside, -beside})
          ASSERT_EQ(narrow<TypeParam>(x).bits, nearest.bits(x)) << std::hexfloat << x;
  }
}

TYPED_TEST(HalfTypes, RoundRandomFloatsOfEveryMagnitude) {
  const Nearest<TypeParam> nearest;
  Random random(21);
  for (std::int64_t i = 0; i < test::scaled(2000000); ++i) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(random.next() >> 32));
    const TypeParam rounded = narrow<TypeParam>(x);
    if (std::isnan(x)) {
      ASSERT_TRUE(std::isnan(widen(rounded)));
      ASSERT_EQ(std::signbit(widen(rounded)), std::signbit(x));
    } else {
      ASSERT_EQ(rounded.bits, nearest.bits(x)) << std::hexfloat << x;
    }
  }
}

TYPED_TEST(HalfTypes, KeepInfinitiesAndNeverMakeOneOfANan) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();

  EXPECT_EQ(narrow<TypeParam>(kInfinity).bits, kInfinityBits<TypeParam>);
  EXPECT_EQ(narrow<TypeParam>(-kInfinity).bits, 0x8000u | kInfinityBits<TypeParam>);
  // NaN payloads only in the dropped bits, and only in the kept bits.
  for (const std::uint32_t bits : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0x7fc00000u, 0x7fa00000u})
    EXPECT_TRUE(std::isnan(widen(narrow<TypeParam>(std::bit_cast<float>(bits))))) << bits;
}

TEST(Half, HasTheValuesOfTheStandardsTable) {
  EXPECT_EQ(widen(Half{0x3c00}), 1.0F);
  EXPECT_EQ(widen(Half{0x7bff}), 65504.0F);
  EXPECT_EQ(widen(Half{0x0001}), 0x1p-24F);
  EXPECT_EQ(widen(Half{0x0400}), 0x1p-14F);
  EXPECT_EQ(narrow<Half>(65519.0F).bits, 0x7bff);
  EXPECT_EQ(narrow<Half>(65520.0F).bits, 0x7c00);
  EXPECT_EQ(narrow<Half>(0x1p-25F).bits, 0x0000);  // a tie, and 0 is even
  EXPECT_EQ(narrow<Half>(0x3p-25F).bits, 0x0002);  // a tie between 1 and 2 units
  EXPECT_EQ(narrow<Half>(-0.0F).bits, 0x8000);
}

TEST(BFloat16, IsTheUpperHalfOfAFloat) {
  EXPECT_EQ(widen(BFloat16{0x3f80}), 1.0F);
  EXPECT_EQ(narrow<BFloat16>(1.0F + 0x1p-8F).bits, 0x3f80);  // a tie, down to the even one
  EXPECT_EQ(narrow<BFloat16>(1.0F + 0x3p-8F).bits, 0x3f82);  // a tie, up to the even one
  EXPECT_EQ(narrow<BFloat16>(std::numeric_limits<float>::max()).bits, 0x7f80);
}

}  // namespace
}  // namespace fleet
