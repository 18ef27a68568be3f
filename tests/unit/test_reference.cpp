// SPDX-License-Identifier: BSD-3-Clause
// test_reference.cpp: the oracle itself, against numbers computed by hand. It knows no library
// code.
#include <gtest/gtest.h>

#include "support/reference.hpp"
#include "support/scale.hpp"

namespace fleet::test {
namespace {

using Complex = std::complex<double>;

// A = [1 3; 2 4], B = [5 7; 6 8], column-major.
const std::vector<double> kA = {1, 2, 3, 4};
const std::vector<double> kB = {5, 6, 7, 8};

GemmCall<double> two_by_two(const std::vector<double>& c) {
  return {.m = 2,
          .n = 2,
          .k = 2,
          .alpha = 2,
          .a = kA.data(),
          .lda = 2,
          .b = kB.data(),
          .ldb = 2,
          .beta = 10,
          .c = c.data(),
          .ldc = 2};
}

TEST(Reference, MultipliesAndAddsAsByHand) {
  const std::vector<double> c = {1, 1, 1, 1};

  const Expected expected = expect_gemm(two_by_two(c));

  // A*B = [23 31; 34 46], twice that plus 10.
  EXPECT_EQ(first_difference(expected, std::vector<double>{56, 78, 72, 102}.data(), 2), "");
  EXPECT_NE(first_difference(expected, std::vector<double>{56, 78, 72, 102.001}.data(), 2), "");
}

TEST(Reference, TransposesEachOperandByItself) {
  const std::vector<double> c(4, 0.0);
  GemmCall<double> call = two_by_two(c);
  call.op_a = Op::transpose;

  const Expected left = expect_gemm(call);
  call.op_a = Op::none;
  call.op_b = Op::transpose;
  const Expected right = expect_gemm(call);

  // A^T*B = [17 23; 39 53], A*B^T = [26 30; 38 44].
  EXPECT_EQ(first_difference(left, std::vector<double>{34, 78, 46, 106}.data(), 2), "");
  EXPECT_EQ(first_difference(right, std::vector<double>{52, 76, 60, 88}.data(), 2), "");
}

TEST(Reference, ConjugatesWhereAskedTo) {
  const Complex a{1, 2}, b{3, 4}, c{0, 0};
  GemmCall<Complex> call{.op_a = Op::conjugate,
                         .m = 1,
                         .n = 1,
                         .k = 1,
                         .alpha = {0, 1},
                         .a = &a,
                         .b = &b,
                         .beta = 0,
                         .c = &c};

  const Expected expected = expect_gemm(call);

  EXPECT_EQ(expected.value[0], (std::complex<long double>(2, 11)));  // i * (1-2i)(3+4i)
}

TEST(Reference, DoesNotReadWhatAZeroScalarRulesOut) {
  const std::vector<double> nan(4, std::numeric_limits<double>::quiet_NaN());
  GemmCall<double> call = two_by_two(nan);
  call.beta = 0;
  EXPECT_EQ(first_difference(expect_gemm(call), std::vector<double>{46, 68, 62, 92}.data(), 2), "");

  const std::vector<double> c = {1, 2, 3, 4};
  call = two_by_two(c);
  call.alpha = 0;
  call.a = nullptr;
  call.b = nullptr;
  EXPECT_EQ(first_difference(expect_gemm(call), std::vector<double>{10, 20, 30, 40}.data(), 2), "");
}

TEST(Reference, WantsNotFiniteExactlyWhereTheInputsSayIt) {
  const std::vector<double> c = {0, std::numeric_limits<double>::quiet_NaN(), 0, 0};
  const double nan = std::numeric_limits<double>::infinity();

  const Expected expected = expect_gemm(two_by_two(c));

  EXPECT_EQ(first_difference(expected, std::vector<double>{46, nan, 62, 92}.data(), 2), "");
  EXPECT_NE(first_difference(expected, std::vector<double>{46, 68, 62, 92}.data(), 2), "");
  EXPECT_NE(first_difference(expected, std::vector<double>{46, nan, nan, 92}.data(), 2), "");
}

TEST(Reference, BoundsRoundingOfAnyOrderButNotAMissingProduct) {
  constexpr std::int64_t kSize = 200;
  Random random(5);
  Guarded<float> a(1, kSize), b(kSize, 1), c(1, 1);
  a.fill_random(random);
  b.fill_random(random);
  const Expected expected = expect_gemm<float>({.m = 1,
                                                .n = 1,
                                                .k = kSize,
                                                .a = a.data(),
                                                .lda = a.ld(),
                                                .b = b.data(),
                                                .ldb = b.ld(),
                                                .beta = 0});

  float forward = 0, backward = 0;
  for (std::int64_t l = 0; l < kSize; ++l) forward += a.at(0, l) * b.at(l, 0);
  for (std::int64_t l = kSize; l-- > 0;) backward += a.at(0, l) * b.at(l, 0);
  const float missing = forward - a.at(0, 7) * b.at(7, 0);

  EXPECT_EQ(first_difference(expected, &forward, 1), "");
  EXPECT_EQ(first_difference(expected, &backward, 1), "");
  EXPECT_NE(first_difference(expected, &missing, 1), "");
}

TEST(Guarded, SeesAWriteIntoEachGap) {
  Guarded<float> matrix(3, 2, 5, 2, 16);
  Random random(1);
  matrix.fill_random(random);
  EXPECT_EQ(matrix.broken_guard(), "");

  for (const std::int64_t outside : {-1, 3, 4, 8, 10, 15, 16 + 3, 16 + 9, 16 + 10}) {
    Guarded<float> copy(matrix);
    copy.data()[outside] = 1;
    EXPECT_NE(copy.broken_guard(), "") << outside;
  }
}

TEST(Guarded, HoldsEmptyMatrices) {
  Guarded<double> no_rows(0, 4), no_cols(4, 0);

  EXPECT_EQ(no_rows.broken_guard(), "");
  EXPECT_EQ(no_cols.broken_guard(), "");
  EXPECT_EQ(no_rows.ld(), 1);
}

TEST(Random, RepeatsAndStaysInRange) {
  Random one(42), two(42);
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t value = one.between(-3, 3);
    EXPECT_EQ(value, two.between(-3, 3));
    EXPECT_GE(value, -3);
    EXPECT_LE(value, 3);
  }
  const double x = one.symmetric();
  EXPECT_GE(x, -1);
  EXPECT_LT(x, 1);
}

}  // namespace
}  // namespace fleet::test
