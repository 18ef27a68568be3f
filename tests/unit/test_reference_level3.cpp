// SPDX-License-Identifier: BSD-3-Clause
// test_reference_level3.cpp: the oracle of the level-3 routines itself, against numbers computed by
// hand and against the oracle of gemm. It knows no library code.
#include <gtest/gtest.h>

#include "support/level3_operands.hpp"

namespace fleet::test {
namespace {

using Complex = std::complex<double>;
using Values = std::vector<double>;
using ComplexValues = std::vector<Complex>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr Complex kI{0, 1};
/// A number whose imaginary part must not be read.
Complex real_part_only(double real) { return {real, kNan}; }

// Column-major: [1 3; 2 4] and [5 7; 6 8].
const Values kFirst = {1, 2, 3, 4};
const Values kSecond = {5, 6, 7, 8};

/// A call on dense matrices of two rows.
template <typename T>
Level3Call<T> dense(Level3Call<T> call, const std::vector<T>& a, const std::vector<T>& b,
                    const std::vector<T>& c) {
  call.a = a.data();
  call.b = b.data();
  call.c = c.data();
  call.lda = call.ldb = call.ldc = 2;
  return call;
}

/// first_difference of a dense output of two rows.
template <typename T>
std::string check(const Level3Call<T>& call, const std::vector<T>& output) {
  return first_difference(expect_level3(call), output.data(), 2);
}

TEST(ReferenceLevel3, MultipliesASymmetricMatrixFromEitherSide) {
  const Values upper = {1, kNan, 2, 3}, lower = {1, 2, kNan, 3}, c(4, 1.0);  // both [1 2; 2 3]
  const Level3Call<double> call{.routine = Level3::symm, .m = 2, .n = 2, .alpha = 2, .beta = 10};
  Level3Call<double> left = dense(call, upper, kSecond, c);
  Level3Call<double> right = dense(call, lower, kSecond, c);
  right.side = Side::right;
  right.uplo = Uplo::lower;

  // A*B = [17 23; 28 38], B*A = [19 31; 22 36], twice that plus 10.
  EXPECT_EQ(check(left, {44, 66, 56, 86}), "");
  EXPECT_EQ(check(right, {48, 54, 72, 82}), "");
  EXPECT_NE(check(right, {48, 54, 72, 82.001}), "");
}

TEST(ReferenceLevel3, TakesTheDiagonalOfAHermitianMatrixAsReal) {
  const ComplexValues a = {real_part_only(1), {kNan, kNan}, kI, real_part_only(2)};  // [1 i; -i 2]
  const ComplexValues b = {1, 2}, c(2);
  Level3Call<Complex> call =
      dense<Complex>({.routine = Level3::hemm, .m = 2, .n = 1, .beta = 0}, a, b, c);

  EXPECT_EQ(check(call, {{1, 2}, {4, -1}}), "");
  call.routine = Level3::symm;  // which uses the imaginary parts of the diagonal
  EXPECT_NE(check(call, {{1, 2}, {4, -1}}), "");
}

TEST(ReferenceLevel3, MirrorsTheLowerTriangleOfAHermitianMatrixFromTheRight) {
  const ComplexValues a = {1, kI, {kNan, kNan}, 2};  // [1 -i; i 2]
  const ComplexValues b = {1, 0, 2, 0}, c(4);
  const Level3Call<Complex> call = dense<Complex>({.routine = Level3::hemm,
                                                   .side = Side::right,
                                                   .uplo = Uplo::lower,
                                                   .m = 1,
                                                   .n = 2,
                                                   .beta = 0},
                                                  a, b, c);

  EXPECT_EQ(check(call, {{1, 2}, {0, 0}, {4, -1}, {0, 0}}), "");
}

TEST(ReferenceLevel3, UpdatesOneTriangleByAProductWithItself) {
  const Values c = {1, 1, kNan, 1};
  Level3Call<double> call = dense<double>(
      {.routine = Level3::syrk, .uplo = Uplo::lower, .n = 2, .k = 2, .alpha = 2, .beta = 10},
      kFirst, kFirst, c);

  // A*A^T = [10 14; 14 20], A^T*A = [5 11; 11 25].
  EXPECT_EQ(check(call, {30, 38, kNan, 50}), "");
  call.op_a = Op::transpose;
  EXPECT_EQ(check(call, {20, 32, kNan, 60}), "");
}

TEST(ReferenceLevel3, ConjugatesInHerkAndNotInSyrk) {
  const ComplexValues a = {1, kI}, c = {{1, 7}, {2, 2}, 9, real_part_only(0)};
  Level3Call<Complex> call =
      dense<Complex>({.routine = Level3::herk, .uplo = Uplo::lower, .n = 2, .k = 1}, a, a, c);
  call.alpha = {2, 5};  // herk uses the real part only
  call.beta = {3, 5};

  EXPECT_EQ(check(call, {5, {6, 8}, 9, 2}), "");  // 2 * [1 -i; i 1] + 3 * [1 .; 2+2i 0]
  call.op_a = Op::conjugate;
  call.lda = 1;                                   // A is [1 i]
  EXPECT_EQ(check(call, {5, {6, 4}, 9, 2}), "");  // 2 * [1 i; -i 1] + the same
  call.routine = Level3::syrk;
  call.op_a = Op::none;
  call.lda = 2;
  call.alpha = 2;
  call.beta = 0;
  EXPECT_EQ(check(call, {2, 2.0 * kI, 9, -2}), "");  // 2 * [1 i; i -1]
}

TEST(ReferenceLevel3, AddsBothProductsOfARankTwoUpdate) {
  const Values c = {kNan, 7, kNan, kNan};
  Level3Call<double> call = dense<double>(
      {.routine = Level3::syr2k, .n = 2, .k = 2, .alpha = 2, .beta = 0}, kFirst, kSecond, c);

  // A*B^T = [26 30; 38 44], A^T*B = [17 23; 39 53].
  EXPECT_EQ(check(call, {104, 7, 136, 176}), "");
  call.op_a = Op::transpose;
  EXPECT_EQ(check(call, {68, 7, 124, 212}), "");
}

TEST(ReferenceLevel3, ConjugatesTheSecondProductOfHer2kWithItsAlpha) {
  const ComplexValues a = {1, kI}, b = {2, 1}, c = {{1, 7}, 9, 1, {1, 7}};
  Level3Call<Complex> call = dense<Complex>(
      {.routine = Level3::her2k, .n = 2, .k = 1, .alpha = kI, .beta = {3, 5}}, a, b, c);

  // A*B^H = [2 1; 2i i]: i times that and its conjugate transpose are [0 -2+i; -2-i -2].
  EXPECT_EQ(check(call, {3, 9, {1, 1}, 1}), "");
  call.op_a = Op::conjugate;
  call.lda = call.ldb = 1;
  // A^H*B = [2 1; -2i -i]: i times that and its conjugate transpose are [0 2+i; 2-i 2].
  EXPECT_EQ(check(call, {3, 9, {5, 1}, 5}), "");
}

TEST(ReferenceLevel3, ComputesOneTriangleOfAProduct) {
  const Values c = {1, 1, 5, 1};
  Level3Call<double> call = dense<double>(
      {.routine = Level3::gemmt, .uplo = Uplo::lower, .n = 2, .k = 2, .alpha = 2, .beta = 10},
      kFirst, kSecond, c);

  EXPECT_EQ(check(call, {56, 78, 5, 102}), "");  // A*B = [23 31; 34 46]
  call.op_b = Op::transpose;
  EXPECT_EQ(check(call, {62, 86, 5, 98}), "");  // A*B^T = [26 30; 38 44]
  call.op_a = Op::transpose;
  call.uplo = Uplo::upper;
  EXPECT_EQ(check(call, {48, 1, 94, 110}), "");  // A^T*B^T = [19 22; 43 50]
}

struct TriangularCase {
  Side side;
  Uplo uplo;
  Op op;
  Diag diag;
  Values product;
};

// A = [2 3; . 4] or [2 .; 3 4], B = [1 3; 2 4].
const std::vector<TriangularCase> kTriangular = {
    {Side::left, Uplo::upper, Op::none, Diag::non_unit, {8, 8, 18, 16}},
    {Side::left, Uplo::upper, Op::transpose, Diag::non_unit, {2, 11, 6, 25}},
    {Side::left, Uplo::upper, Op::none, Diag::unit, {7, 2, 15, 4}},
    {Side::left, Uplo::lower, Op::none, Diag::non_unit, {2, 11, 6, 25}},
    {Side::left, Uplo::lower, Op::conjugate, Diag::unit, {7, 2, 15, 4}},
    {Side::right, Uplo::upper, Op::none, Diag::non_unit, {2, 4, 15, 22}},
    {Side::right, Uplo::upper, Op::transpose, Diag::unit, {10, 14, 3, 4}},
    {Side::right, Uplo::lower, Op::none, Diag::non_unit, {11, 16, 12, 16}},
};

Level3Call<double> triangular_call(const TriangularCase& of, const Values& a, const Values& b) {
  return dense<double>({.side = of.side,
                        .uplo = of.uplo,
                        .op_a = of.op,
                        .diag = of.diag,
                        .m = 2,
                        .n = 2,
                        .alpha = 2},
                       a, b, b);
}

Values stored_triangle(const TriangularCase& of) {
  const bool unit = of.diag == Diag::unit, upper = of.uplo == Uplo::upper;
  return {unit ? kNan : 2, upper ? kNan : 3, upper ? 3 : kNan, unit ? kNan : 4};
}

TEST(ReferenceLevel3, MultipliesByATriangle) {
  for (const TriangularCase& of : kTriangular) {
    const Values a = stored_triangle(of);
    Level3Call<double> call = triangular_call(of, a, kFirst);
    call.routine = Level3::trmm;
    Values twice = of.product;
    for (double& x : twice) x *= 2;

    EXPECT_EQ(check(call, twice), "") << to_text(call);
    twice[2] += 0.001;
    EXPECT_NE(check(call, twice), "") << to_text(call);
  }
}

TEST(ReferenceLevel3, SolvesWithATriangle) {
  for (const TriangularCase& of : kTriangular) {
    const Values a = stored_triangle(of);
    Level3Call<double> call = triangular_call(of, a, of.product);
    call.routine = Level3::trsm;

    EXPECT_EQ(check(call, {2, 4, 6, 8}), "") << to_text(call);  // alpha times kFirst
    EXPECT_NE(check(call, {2, 4, 6, 8.001}), "") << to_text(call);
    EXPECT_NE(check(call, {2, kNan, 6, 8}), "") << to_text(call);
  }
}

TEST(ReferenceLevel3, ConjugatesATriangle) {
  const ComplexValues a = {kI, {kNan, kNan}, {1, 1}, 2}, b = {1, kI};
  Level3Call<Complex> call = dense<Complex>({.routine = Level3::trmm, .m = 2, .n = 1}, a, b, b);

  EXPECT_EQ(check(call, {{-1, 2}, {0, 2}}), "");  // [i 1+i; 0 2] * [1; i]
  call.op_a = Op::conjugate;
  EXPECT_EQ(check(call, {{0, -1}, {1, 1}}), "");  // [-i 0; 1-i 2] * [1; i]
  call.op_a = Op::transpose;
  EXPECT_EQ(check(call, {{0, 1}, {1, 3}}), "");  // [i 0; 1+i 2] * [1; i]
}

TEST(ReferenceLevel3, ReadsNoFactorWhenAlphaIsZero) {
  const Values c = {1, 2, 3, 4};
  for (const Level3 routine : {Level3::symm, Level3::syrk, Level3::syr2k, Level3::gemmt}) {
    const Level3Call<double> call{.routine = routine,
                                  .m = 2,
                                  .n = 2,
                                  .k = 2,
                                  .alpha = 0,
                                  .beta = 10,
                                  .c = c.data(),
                                  .ldc = 2};
    const double below = routine == Level3::symm ? 20 : 2;
    EXPECT_EQ(check(call, {10, below, 30, 40}), "") << to_text(call);
  }
  for (const Level3 routine : {Level3::trmm, Level3::trsm}) {
    const Level3Call<double> call{.routine = routine, .m = 2, .n = 2, .alpha = 0};
    EXPECT_EQ(check(call, {0, 0, 0, 0}), "") << to_text(call);
    EXPECT_NE(check(call, {0, 0, 0, 1e-300}), "") << to_text(call);
  }
}

TEST(ReferenceLevel3, LeavesCAsItIsWhereTheReferenceReturnsAtOnce) {
  const ComplexValues c = {{1, 7}, {2, 0}, {kNan, 1}, {4, kNan}}, real = {1, 2, {kNan, 1}, 4};
  for (const Level3 routine :
       {Level3::hemm, Level3::syrk, Level3::herk, Level3::syr2k, Level3::her2k, Level3::gemmt}) {
    Level3Call<Complex> call =
        dense<Complex>({.routine = routine, .m = 2, .n = 2, .k = 2, .alpha = 0}, {}, {}, c);
    EXPECT_EQ(check(call, c), "") << to_text(call);
    EXPECT_NE(check(call, real), "") << to_text(call);
    if (has_side(routine)) continue;
    call.alpha = 2;
    call.k = 0;
    EXPECT_EQ(check(call, c), "") << to_text(call);
  }
}

TEST(ReferenceLevel3, MakesTheDiagonalRealEvenWhereItOnlyScales) {
  const ComplexValues c = {{1, 7}, 9, {2, 2}, real_part_only(3)};
  const Level3Call<Complex> call =
      dense<Complex>({.routine = Level3::herk, .n = 2, .k = 0, .alpha = 1, .beta = 2}, {}, {}, c);

  EXPECT_EQ(check(call, {2, 9, {4, 4}, 6}), "");
  EXPECT_NE(check(call, {{2, 1e-300}, 9, {4, 4}, 6}), "");
}

TEST(ReferenceLevel3, WantsNotFiniteExactlyWhereTheInputsSayIt) {
  const Values upper = {1, 0, 2, 4}, b = {1, kNan, 3, 4};
  Level3Call<double> call = dense<double>({.routine = Level3::trmm, .m = 2, .n = 2}, upper, b, b);
  EXPECT_EQ(check(call, {kNan, kNan, 11, 16}), "");
  EXPECT_NE(check(call, {1, kNan, 11, 16}), "");

  call.routine = Level3::trsm;
  EXPECT_EQ(check(call, {kNan, kNan, 1, 1}), "");
  EXPECT_NE(check(call, {1, 1, 1, 1}), "");
  EXPECT_NE(check(call, {kNan, kNan, 1, kNan}), "");
}

// The tests below cover all types, both sides, both triangles and all operations.

const std::vector<Side> kSides = {Side::left, Side::right};

TEST(ReferenceLevel3, MultipliesASymmetricMatrixAsGemmDoesTheFullOne) {
  for_each_type([]<typename T>() {
    Random random(11);
    for (const Side side : kSides)
      for (const Uplo uplo : kTriangles) {
        Level3Operands<T> operands({.routine = Level3::symm,
                                    .side = side,
                                    .uplo = uplo,
                                    .m = 5,
                                    .n = 7,
                                    .alpha = random_scalar<T>(random),
                                    .beta = random_scalar<T>(random)},
                                   2, random);
        const Level3Call<T> call = operands.call();
        const std::int64_t order = shape_of_a(call).rows;
        Guarded<T> full(order, order);
        for (std::int64_t col = 0; col < order; ++col)
          for (std::int64_t row = 0; row < order; ++row)
            full.at(row, col) = is_within(part_of(uplo), row, col) ? call.a[row + col * call.lda]
                                                                   : call.a[col + row * call.lda];
        const bool left = side == Side::left;

        const Expected gemm = expect_gemm<T>({.m = 5,
                                              .n = 7,
                                              .k = order,
                                              .alpha = call.alpha,
                                              .a = left ? full.data() : call.b,
                                              .lda = left ? full.ld() : call.ldb,
                                              .b = left ? call.b : full.data(),
                                              .ldb = left ? call.ldb : full.ld(),
                                              .beta = call.beta,
                                              .c = call.c,
                                              .ldc = call.ldc});
        const ExpectedLevel3<T> symm = expect_level3(call);
        write_rounded(gemm.value, Part::all, operands);

        EXPECT_EQ(first_difference(symm, operands.output(), operands.output_ld()), "");
        EXPECT_EQ(operands.first_overwritten(), "");
      }
  });
}

TEST(ReferenceLevel3, UpdatesByRankTwoAsGemmAndItsTransposeDo) {
  for_each_type([]<typename T>() {
    Random random(12);
    for (const Level3 routine : {Level3::syr2k, Level3::her2k})
      for (const Op op : {Op::none, Op::transpose})
        for (const Uplo uplo : kTriangles) {
          const bool conjugate = routine == Level3::her2k;
          const Op flip = conjugate ? Op::conjugate : Op::transpose;
          Level3Operands<T> operands({.routine = routine,
                                      .uplo = uplo,
                                      .op_a = op == Op::none ? op : flip,
                                      .n = 6,
                                      .k = 4,
                                      .alpha = random_scalar<T>(random),
                                      .beta = 0},
                                     1, random);
          const Level3Call<T> call = operands.call();
          const ExpectedLevel3<T> expected = expect_level3(call);

          Expected gemm = expect_gemm<T>({.op_a = call.op_a,
                                          .op_b = op == Op::none ? flip : Op::none,
                                          .m = 6,
                                          .n = 6,
                                          .k = 4,
                                          .alpha = call.alpha,
                                          .a = call.a,
                                          .lda = call.lda,
                                          .b = call.b,
                                          .ldb = call.ldb,
                                          .beta = 0});
          const auto product = gemm.value;
          for (std::size_t col = 0; col < 6; ++col)
            for (std::size_t row = 0; row < 6; ++row) {
              const auto other = product[col + row * 6];
              gemm.value[row + col * 6] += conjugate ? std::conj(other) : other;
            }
          write_rounded(gemm.value, part_of(uplo), operands);

          EXPECT_EQ(first_difference(expected, operands.output(), operands.output_ld()), "");
          EXPECT_EQ(operands.first_overwritten(), "");
          for (std::size_t i = 0; conjugate && i < 6; ++i)
            EXPECT_EQ(expected.all.value[i * 7].imag(), 0);
        }
  });
}

TEST(ReferenceLevel3, SolvesWhatATriangleMultiplied) {
  for_each_type([]<typename T>() {
    Random random(13);
    for (const Side side : kSides)
      for (const Uplo uplo : kTriangles)
        for (const Op op : {Op::none, Op::transpose, Op::conjugate})
          for (const Diag diag : {Diag::non_unit, Diag::unit}) {
            Level3Operands<T> operands({.routine = Level3::trsm,
                                        .side = side,
                                        .uplo = uplo,
                                        .op_a = op,
                                        .diag = diag,
                                        .m = 9,
                                        .n = 4},
                                       3, random);
            Level3Call<T> call = operands.call();
            call.routine = Level3::trmm;
            const ExpectedLevel3<T> product = expect_level3(call);
            const Level3Operands<T> solution = operands;
            write_rounded(product.all.value, Part::all, operands);

            const ExpectedLevel3<T> solved = expect_level3(operands.call());

            EXPECT_EQ(first_difference(solved, solution.output(), solution.output_ld()), "")
                << to_text(operands.call());
          }
  });
}

}  // namespace
}  // namespace fleet::test
