// SPDX-License-Identifier: BSD-3-Clause
// test_reference_level3_verdicts.cpp: what the oracle of the level-3 routines says of wrong
// results, and the operands that it judges. It knows no library code.
#include <gtest/gtest.h>

#include "support/level3_operands.hpp"

namespace fleet::test {
namespace {

using Complex = std::complex<double>;

/// All the routines, with scalars that use every operand.
template <typename T>
std::vector<Level3Operands<T>> one_of_each(Random& random) {
  std::vector<Level3Operands<T>> all;
  for (const Level3 routine :
       {Level3::symm, Level3::hemm, Level3::syrk, Level3::herk, Level3::syr2k, Level3::her2k,
        Level3::gemmt, Level3::trmm, Level3::trsm})
    for (const Uplo uplo : kTriangles)
      all.emplace_back(
          Level3Call<T>{
              .routine = routine, .uplo = uplo, .m = 4, .n = 4, .k = 3, .alpha = 2, .beta = T(0.5)},
          2, random);
  return all;
}

/// A number with different bits.
template <typename T>
void change(T& element) {
  element = element == T(3) ? T(4) : T(3);
}

TEST(ReferenceLevel3, SeesEachWrongElement) {
  for_each_type([]<typename T>() {
    Random random(14);
    for (Level3Operands<T>& operands : one_of_each<T>(random)) {
      const Level3Call<T> call = operands.call();
      const std::int64_t ld = operands.output_ld();
      ExpectedLevel3<T> expected = expect_level3(call);
      if (call.routine == Level3::trsm) {  // as if B had been the product of A and its contents
        Level3Call<T> product = call;
        product.routine = Level3::trmm;
        product.alpha = 1;
        expected.all.value = expect_level3(product).all.value;
      } else {
        write_rounded(expected.all.value, expected.part, operands);
      }
      EXPECT_EQ(first_difference(expected, operands.output(), ld), "") << to_text(call);

      for (std::int64_t col = 0; col < 4; ++col)
        for (std::int64_t row = 0; row < 4; ++row) {
          Level3Operands<T> copy(operands);
          change(copy.output()[row + col * ld]);
          EXPECT_NE(first_difference(expected, copy.output(), ld), "") << to_text(call);
          EXPECT_EQ(copy.first_overwritten().empty(), is_within(expected.part, row, col))
              << to_text(call);
        }
    }
  });
}

TEST(ReferenceLevel3, BoundsRoundingOfASubstitutionButNotAMissingTerm) {
  constexpr std::int64_t kOrder = 200;
  Random random(15);
  Level3Operands<float> operands(
      {.routine = Level3::trsm, .uplo = Uplo::lower, .m = kOrder, .n = 1}, 0, random);
  const Level3Call<float> call = operands.call();
  const ExpectedLevel3<float> expected = expect_level3(call);
  const auto solve = [&](std::int64_t missing) {
    std::vector<float> x(call.b, call.b + kOrder);
    for (std::int64_t row = 0; row < kOrder; ++row) {
      float& to = x[static_cast<std::size_t>(row)];
      for (std::int64_t l = 0; l < row; ++l)
        if (row != kOrder - 1 || l != missing)
          to -= call.a[row + l * kOrder] * x[static_cast<std::size_t>(l)];
      to /= call.a[row + row * kOrder];
    }
    return first_difference(expected, x.data(), kOrder);
  };

  EXPECT_EQ(solve(kOrder), "");
  EXPECT_NE(solve(7), "");
}

TEST(Level3Operands, HoldNumbersExactlyWhereTheRoutineReads) {
  Random random(16);
  const Level3Operands<Complex> operands(
      {.routine = Level3::hemm, .uplo = Uplo::lower, .m = 3, .n = 2, .beta = 0}, 1, random);
  const Level3Call<Complex> call = operands.call();

  ASSERT_EQ(call.lda, 4);
  for (std::int64_t col = 0; col < 3; ++col)
    for (std::int64_t row = 0; row < 4; ++row) {
      const Complex a = call.a[row + col * 4];
      EXPECT_EQ(std::isnan(a.real()), row < col || row == 3);
      EXPECT_EQ(std::isnan(a.real()) || std::isnan(a.imag()), row <= col || row == 3);
    }
  for (std::int64_t col = 0; col < 2; ++col)
    for (std::int64_t row = 0; row < 4; ++row) {
      EXPECT_EQ(std::isnan(call.b[row + col * 4].real()), row == 3);
      EXPECT_TRUE(row == 3 || std::isnan(call.c[row + col * 4].real()));
    }
}

TEST(Level3Operands, HoldNoNumberInWhatAlphaZeroOrAUnitDiagonalRulesOut) {
  Random random(17);
  const Level3Operands<double> unit(
      {.routine = Level3::trsm, .uplo = Uplo::upper, .diag = Diag::unit, .m = 2, .n = 1}, 0,
      random);
  const Level3Operands<double> zero({.routine = Level3::gemmt, .n = 2, .k = 2, .alpha = 0}, 0,
                                    random);

  const double* const a = unit.call().a;
  EXPECT_TRUE(std::isnan(a[0]) && std::isnan(a[1]) && std::isnan(a[3]));
  EXPECT_LE(std::fabs(a[2]), 0.5);
  for (int i = 0; i < 4; ++i)
    EXPECT_TRUE(std::isnan(zero.call().a[i]) && std::isnan(zero.call().b[i]));
}

TEST(Level3Operands, SeeAWriteIntoFactorsGuardRowsAndBeyond) {
  for_each_type([]<typename T>() {
    Random random(18);
    for (Level3Operands<T>& operands : one_of_each<T>(random)) {
      const Shape shape = shape_of_output(operands.call());
      const std::int64_t ld = operands.output_ld();
      ASSERT_EQ(ld, shape.rows + 2);
      for (const std::int64_t at :
           {std::int64_t{-1}, shape.rows, ld - 1, ld * shape.cols - 1, ld * shape.cols}) {
        Level3Operands<T> copy(operands);
        EXPECT_EQ(copy.first_overwritten(), "");
        change(copy.output()[at]);
        EXPECT_NE(copy.first_overwritten(), "") << to_text(operands.call()) << " " << at;
      }
      Level3Operands<T> copy(operands);
      change(const_cast<T&>(copy.call().a[1]));
      EXPECT_NE(copy.first_overwritten(), "") << to_text(operands.call());
    }
  });
}

TEST(Level3Operands, HoldEmptyMatrices) {
  Random random(19);
  for (const Level3 routine : {Level3::symm, Level3::herk, Level3::gemmt, Level3::trsm}) {
    const Level3Operands<Complex> operands({.routine = routine, .beta = 0}, 0, random);
    const ExpectedLevel3<Complex> expected = expect_level3(operands.call());

    EXPECT_TRUE(expected.all.value.empty());
    EXPECT_EQ(first_difference(expected, operands.output(), operands.output_ld()), "");
    EXPECT_EQ(operands.first_overwritten(), "");
  }
}

}  // namespace
}  // namespace fleet::test
