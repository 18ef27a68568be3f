// SPDX-License-Identifier: BSD-3-Clause
// test_capi_lapack_info.cpp: what lapack.h says of matrices that have no factors, of illegal
// arguments and of no elements; equations in mixed precision. It knows nothing below the C API but
// the LAPACK that it is compared with.
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "cpu/lapack.hpp"
#include "support/host_context.hpp"
#include "support/lapack_api.hpp"
#include "support/processes.hpp"

namespace fleet {
namespace {

using test::difference;
using test::host_options;
using test::HostContext;
using test::kOwnMemory;
using test::Lapack;
using test::Matrix;
using test::Placed;
using test::product;
using Real = Matrix<double>;

class LapackInfo : public testing::Test {
 protected:
  Real random(std::int64_t rows, std::int64_t cols) { return {rows, cols, random_}; }
  Real definite(std::int64_t n) {
    Real a = random(n, n);
    a.strengthen();
    return a;
  }
  std::mt19937 random_{5};
  HostContext context_{host_options(2)};
  std::int64_t info_ = -7;
};

TEST_F(LapackInfo, NamesTheMinorThatIsNotPositiveDefiniteAndLeavesB) {
  for (const int place : {kOwnMemory, 0}) {
    Real a = definite(200), b = random(200, 3);
    a.at(149, 149) = -1;
    Placed<double> matrix(context_, a, place), right(context_, b, place);

    EXPECT_EQ(
        fleet_dposv(context_, FLEET_LOWER, 200, 3, matrix.data(), a.ld, right.data(), b.ld, &info_),
        FLEET_OK);

    EXPECT_EQ(info_, 150);
    EXPECT_EQ(right.now().data, b.data);
  }
}

TEST_F(LapackInfo, IsThatOfLapackForSingularMatricesAndLeavesB) {
  for (const int place : {kOwnMemory, 1}) {
    Real a = random(120, 120), b = random(120, 2);
    for (std::int64_t row = 0; row < 120; ++row) a.at(row, 77) = 0;
    Real known = a;
    std::vector<std::int64_t> pivots(120), expected(120);
    Placed<double> matrix(context_, a, place), right(context_, b, place);

    EXPECT_EQ(fleet_dgesv(context_, 120, 2, matrix.data(), a.ld, pivots.data(), right.data(), b.ld,
                          &info_),
              FLEET_OK);

    EXPECT_EQ(info_, 78);
    EXPECT_EQ(lapack::getrf(*test::shared_cpu_blas(), Storage::f64, known.view(), expected.data()),
              78);
    EXPECT_EQ(pivots, expected);
    EXPECT_EQ(right.now().data, b.data);
  }
}

TEST_F(LapackInfo, IsZeroForNearlySingularMatricesWhichAreSolvedStably) {
  for (const int place : {kOwnMemory, 1}) {
    Real a = random(120, 120), b = random(120, 2);
    for (std::int64_t row = 0; row < 120; ++row)
      a.at(row, 77) = a.at(row, 78) + (row == 5 ? 1e-13 : 0);
    std::vector<std::int64_t> pivots(120);
    Placed<double> matrix(context_, a, place), right(context_, b, place);

    EXPECT_EQ(fleet_dgesv(context_, 120, 2, matrix.data(), a.ld, pivots.data(), right.data(), b.ld,
                          &info_),
              FLEET_OK);

    EXPECT_EQ(info_, 0);
    const Real x = right.now();
    EXPECT_GT(x.largest(), 1e6);
    EXPECT_LT(difference(product(Op::none, a, Op::none, x), b).largest(),
              1e-12 * a.largest() * x.largest());
  }
}

TEST_F(LapackInfo, NaNReachesTheResultAndPivotsStayLegal) {
  for (const int place : {kOwnMemory, 1}) {
    Real a = random(120, 120), b = random(120, 2);
    a.at(3, 4) = NAN;
    std::vector<std::int64_t> pivots(120);
    Placed<double> matrix(context_, a, place), right(context_, b, place);

    EXPECT_EQ(fleet_dgesv(context_, 120, 2, matrix.data(), a.ld, pivots.data(), right.data(), b.ld,
                          &info_),
              FLEET_OK);

    EXPECT_TRUE(info_ > 0 || std::isnan(right.now().largest()));
    for (std::int64_t i = 0; i < 120; ++i) {
      EXPECT_GT(pivots[static_cast<std::size_t>(i)], i);
      EXPECT_LE(pivots[static_cast<std::size_t>(i)], 120);
    }
  }
}

TEST_F(LapackInfo, NamesTheFirstZeroOfATriangleAndLeavesAll) {
  for (const int place : {kOwnMemory, 0})
    for (const std::int64_t n : {10, 600}) {
      Real a = definite(n), b = random(n, 2);
      a.at(n - 1, n - 1) = 0;
      a.at(n - 2, n - 2) = 0;
      Placed<double> matrix(context_, a, place), right(context_, b, place);
      const auto expect_untouched = [&] {
        EXPECT_EQ(info_, n - 1);
        EXPECT_EQ(matrix.now().data, a.data);
        EXPECT_EQ(right.now().data, b.data);
        info_ = -7;
      };

      fleet_dtrtrs(context_, FLEET_UPPER, FLEET_TRANS, FLEET_NON_UNIT, n, 2, matrix.data(), a.ld,
                   right.data(), b.ld, &info_);
      expect_untouched();
      fleet_dtrtri(context_, FLEET_LOWER, FLEET_NON_UNIT, n, matrix.data(), a.ld, &info_);
      expect_untouched();
      fleet_dpotri(context_, FLEET_LOWER, n, matrix.data(), a.ld, &info_);
      expect_untouched();
      std::vector<std::int64_t> pivots(static_cast<std::size_t>(n));
      std::iota(pivots.begin(), pivots.end(), 1);
      fleet_dgetri(context_, n, matrix.data(), a.ld, pivots.data(), &info_);
      expect_untouched();
      // Ones that are not stored are no zeros.
      fleet_dtrtrs(context_, FLEET_UPPER, FLEET_TRANS, FLEET_UNIT, n, 0, matrix.data(), a.ld,
                   right.data(), b.ld, &info_);
      EXPECT_EQ(info_, 0);
    }
}

TEST_F(LapackInfo, IsZeroWithoutElements) {
  double none = 0;
  std::int64_t iter = -7;

  EXPECT_EQ(fleet_dpotrf(context_, FLEET_LOWER, 0, nullptr, 1, &info_), FLEET_OK);
  EXPECT_EQ(info_, 0);
  EXPECT_EQ(fleet_dgetrf(context_, 0, 4, nullptr, 1, nullptr, &(info_ = -7)), FLEET_OK);
  EXPECT_EQ(info_, 0);
  EXPECT_EQ(fleet_dgeqrf(context_, 4, 0, nullptr, 4, nullptr), FLEET_OK);
  EXPECT_EQ(fleet_dgesv(context_, 0, 3, nullptr, 1, nullptr, nullptr, 1, &(info_ = -7)), FLEET_OK);
  EXPECT_EQ(info_, 0);
  EXPECT_EQ(fleet_dgetri(context_, 0, nullptr, 1, nullptr, &(info_ = -7)), FLEET_OK);
  EXPECT_EQ(info_, 0);
  EXPECT_EQ(fleet_dtrtri(context_, FLEET_LOWER, FLEET_UNIT, 0, nullptr, 1, &(info_ = -7)),
            FLEET_OK);
  EXPECT_EQ(info_, 0);
  EXPECT_EQ(fleet_dlauum(context_, FLEET_LOWER, 0, nullptr, 1), FLEET_OK);
  EXPECT_EQ(fleet_dorgqr(context_, 3, 0, 0, nullptr, 3, nullptr), FLEET_OK);
  EXPECT_EQ(fleet_dormqr(context_, FLEET_LEFT, FLEET_TRANS, 1, 1, 0, nullptr, 1, nullptr, &none, 1),
            FLEET_OK);
  EXPECT_EQ(fleet_dsgesv(context_, 0, 1, nullptr, 1, nullptr, nullptr, 1, nullptr, 1, &iter,
                         &(info_ = -7)),
            FLEET_OK);
  EXPECT_EQ(info_, 0);
  EXPECT_EQ(iter, 0);
}

TEST_F(LapackInfo, MakesTheColumnsOfNoReflectors) {
  Real q = random(4, 3);

  EXPECT_EQ(fleet_dorgqr(context_, 4, 3, 0, q.data.data(), q.ld, nullptr), FLEET_OK);

  for (std::int64_t col = 0; col < 3; ++col)
    for (std::int64_t row = 0; row < 4; ++row) EXPECT_EQ(q.at(row, col), row == col ? 1 : 0);
}

/// The message of a call that must be refused.
std::string refusal(fleet_status status) {
  EXPECT_EQ(status, FLEET_BAD_ARGUMENT);
  return fleet_message();
}

TEST_F(LapackInfo, IllegalArgumentsAreNamedAndNothingIsTouched) {
  Real a = definite(3), b = random(3, 2);
  const Real same_a = a, same_b = b;
  std::vector<std::int64_t> pivots = {1, 2, 3};
  double* const pa = a.data.data();
  double* const pb = b.data.data();
  std::int64_t* const ipiv = pivots.data();
  fleet_context* const c = context_;

  EXPECT_EQ(refusal(fleet_dpotrf(c, static_cast<fleet_uplo>('x'), 3, pa, 6, &info_)),
            "fleet_dpotrf: argument 2 (uplo) is 120, expected 'l' or 'u'");
  EXPECT_EQ(refusal(fleet_dpotrf(c, FLEET_LOWER, -1, pa, 6, &info_)),
            "fleet_dpotrf: argument 3 (n) is -1, expected at least 0");
  EXPECT_EQ(refusal(fleet_dpotrf(c, FLEET_LOWER, 3, nullptr, 6, &info_)),
            "fleet_dpotrf: argument 4 (a) is NULL");
  EXPECT_EQ(refusal(fleet_dpotrf(c, FLEET_LOWER, 3, pa, 2, &info_)),
            "fleet_dpotrf: argument 5 (lda) is 2, expected at least 3");
  EXPECT_EQ(refusal(fleet_dpotrf(c, FLEET_LOWER, 3, pa, 6, nullptr)),
            "fleet_dpotrf: argument 6 (info) is NULL");
  EXPECT_EQ(
      refusal(fleet_dgetrf(c, 3, 3, pa, std::numeric_limits<std::int64_t>::max(), ipiv, &info_)),
      "fleet_dgetrf: argument 5 (lda) puts the matrix beyond any address space");
  EXPECT_EQ(refusal(fleet_dgetrf(c, 3, 3, pa, 6, nullptr, &info_)),
            "fleet_dgetrf: argument 6 (ipiv) is NULL");
  EXPECT_EQ(refusal(fleet_dgeqrf(c, 3, 3, pa, 6, nullptr)),
            "fleet_dgeqrf: argument 6 (tau) is NULL");
  EXPECT_EQ(refusal(fleet_dgetrs(c, static_cast<fleet_op>('q'), 3, 2, pa, 6, ipiv, pb, 6)),
            "fleet_dgetrs: argument 2 (trans) is 113, expected 'n', 't' or 'c'");
  EXPECT_EQ(refusal(fleet_dgetrs(c, FLEET_TRANS, 3, -2, pa, 6, ipiv, pb, 6)),
            "fleet_dgetrs: argument 4 (nrhs) is -2, expected at least 0");
  EXPECT_EQ(refusal(fleet_dgesv(c, 3, 2, pa, 6, ipiv, pb, 2, &info_)),
            "fleet_dgesv: argument 8 (ldb) is 2, expected at least 3");
  EXPECT_EQ(refusal(fleet_dorgqr(c, 3, 4, 1, pa, 6, pb)),
            "fleet_dorgqr: argument 3 (n) is 4, expected 0 to 3");
  EXPECT_EQ(refusal(fleet_dormqr(c, FLEET_RIGHT, FLEET_TRANS, 3, 2, 3, pa, 6, pb, pb, 6)),
            "fleet_dormqr: argument 6 (k) is 3, expected 0 to 2");
  EXPECT_EQ(refusal(fleet_zunmqr(c, FLEET_LEFT, FLEET_TRANS, 1, 1, 1, pa, 6, pb, pb, 6)),
            "fleet_zunmqr: argument 3 (trans) is 116, expected 'n' or 'c'");
  EXPECT_EQ(refusal(fleet_dlarfb(c, FLEET_LEFT, FLEET_TRANS, static_cast<fleet_direct>('x'),
                                 FLEET_ROWWISE, 3, 2, 2, pa, 6, pa, 6, pb, 6)),
            "fleet_dlarfb: argument 4 (direct) is 120, expected 'f' or 'b'");
  EXPECT_EQ(refusal(fleet_dlarfb(c, FLEET_LEFT, FLEET_TRANS, FLEET_FORWARD, FLEET_COLUMNWISE, 3, 2,
                                 2, pa, 2, pa, 6, pb, 6)),
            "fleet_dlarfb: argument 10 (ldv) is 2, expected at least 3");
  pivots[1] = 4;
  EXPECT_EQ(refusal(fleet_dgetrs(c, FLEET_TRANS, 3, 2, pa, 6, ipiv, pb, 6)),
            "fleet_dgetrs: argument 7 (ipiv[1]) is 4, expected 1 to 3");
  EXPECT_EQ(refusal(fleet_dgetri(c, 3, pa, 6, ipiv, &info_)),
            "fleet_dgetri: argument 5 (ipiv[1]) is 4, expected 1 to 3");
  pivots[1] = 2;
  EXPECT_EQ(refusal(fleet_dsgesv(c, 3, 2, pa, 6, ipiv, pb, 6, pb, 2, &info_, &info_)),
            "fleet_dsgesv: argument 10 (ldx) is 2, expected at least 3");

  EXPECT_EQ(a.data, same_a.data);
  EXPECT_EQ(b.data, same_b.data);
  EXPECT_EQ(pivots, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(info_, -7);
}

TEST_F(LapackInfo, PivotsOnADeviceAreRefused) {
  Real a = definite(3);
  void* place = nullptr;
  ASSERT_EQ(fleet_alloc(context_, 0, 3 * sizeof(std::int64_t), &place), FLEET_OK);

  EXPECT_EQ(refusal(fleet_dgetrf(context_, 3, 3, a.data.data(), a.ld,
                                 static_cast<std::int64_t*>(place), &info_)),
            "fleet_dgetrf: ipiv is on a device, expected host memory");

  fleet_free(context_, place);
}

TEST_F(LapackInfo, FactorizationsAreInTheBooksByTheirNames) {
  Real a = definite(30);
  std::vector<std::int64_t> pivots(30);
  ASSERT_EQ(fleet_dgetrf(context_, 30, 20, a.data.data(), a.ld, pivots.data(), &info_), FLEET_OK);

  const std::string books = context_.text(fleet_stats_json);

  EXPECT_NE(books.find("\"symbol\":\"fleet_dgetrf\""), std::string::npos) << books;
  EXPECT_NE(books.find("\"routine\":\"getrf\""), std::string::npos) << books;
  // 2 * (m*n^2/2 - n^3/6) multiplications and additions.
  EXPECT_NE(books.find("\"flops\":9333.3"), std::string::npos) << books;
}

TEST_F(LapackInfo, AForkedChildSolvesOnTheCpu) {
  const Real a = definite(600), b = random(600, 300);
  Placed<double> on_device(context_, a, 0);
  // The parent's devices and its CPU BLAS have threads by now.
  ASSERT_EQ(fleet_dpotrf(context_, FLEET_LOWER, 600, on_device.data(), a.ld, &info_), FLEET_OK);

  const test::Ended child = test::run_program([&] {
    Real matrix = a, x = b;
    std::vector<std::int64_t> pivots(600);
    std::int64_t info = -7;
    const fleet_status status = fleet_dgesv(context_, 600, 300, matrix.data.data(), a.ld,
                                            pivots.data(), x.data.data(), x.ld, &info);
    const double error = difference(product(Op::none, a, Op::none, x), b).largest();
    return status == FLEET_OK && info == 0 && error < 1e-9 ? 0 : 1;
  });

  EXPECT_EQ(child.code, 0) << child.output;
}

TEST_F(LapackInfo, AQueuedResultIsFactoredWhenItIsThere) {
  // A = B*B^T + 300*1 by a queued product, whose tiles stay on the devices.
  const std::int64_t n = 250;
  Real factor = random(n, n), a = Real::identity(n);
  fleet_matrix *given = nullptr, *made = nullptr;
  ASSERT_EQ(fleet_matrix_wrap(context_, FLEET_F64, n, n, factor.data.data(), factor.ld, &given),
            FLEET_OK);
  ASSERT_EQ(fleet_matrix_wrap(context_, FLEET_F64, n, n, a.data.data(), a.ld, &made), FLEET_OK);
  const Real expected = [&] {
    Real sum = product(Op::none, factor, Op::transpose, factor);
    for (std::int64_t i = 0; i < n; ++i) sum.at(i, i) += 300;
    return sum;
  }();
  ASSERT_EQ(fleet_dgemm_async(context_, FLEET_NO_TRANS, FLEET_TRANS, 1.0, given, given, 300.0, made,
                              nullptr),
            FLEET_OK);

  EXPECT_EQ(fleet_dpotrf(context_, FLEET_LOWER, n, a.data.data(), a.ld, &info_), FLEET_OK);

  EXPECT_EQ(info_, 0);
  const Real lower = a.triangle(Fill::lower);
  EXPECT_LT(difference(product(Op::none, lower, Op::transpose, lower), expected).largest(), 1e-9);
  // A later queued call takes the factor, not an older copy of it.
  ASSERT_EQ(fleet_dtrsm_async(context_, FLEET_LEFT, FLEET_LOWER, FLEET_NO_TRANS, FLEET_NON_UNIT,
                              1.0, made, given, nullptr),
            FLEET_OK);
  ASSERT_EQ(fleet_matrix_read(given, 0, 0, n, n), FLEET_OK);
  EXPECT_EQ(fleet_matrix_destroy(given), FLEET_OK);
  EXPECT_EQ(fleet_matrix_destroy(made), FLEET_OK);
  const Real again = product(Op::none, lower, Op::none, factor);
  EXPECT_LT(difference(product(Op::none, again, Op::transpose, again),
                       difference(expected,
                                  [&] {
                                    Real shift = Real::identity(n);
                                    for (std::int64_t i = 0; i < n; ++i) shift.at(i, i) = 300;
                                    return shift;
                                  }()))
                .largest(),
            1e-8);
}

TEST_F(LapackInfo, ASimulatedBackendFactorsNothing) {
  const HostContext simulated("backend=sim;machine=" + std::string(FLEETBLAS_SOURCE_DIR) +
                              "/machines/h200x8.json");
  Real a = definite(8), b = random(8, 1);
  const Real same_a = a, same_b = b;
  std::vector<std::int64_t> pivots = {8, 7, 6, 5, 5, 6, 7, 8};

  EXPECT_EQ(
      fleet_dposv(simulated, FLEET_LOWER, 8, 1, a.data.data(), a.ld, b.data.data(), b.ld, &info_),
      FLEET_UNSUPPORTED);
  EXPECT_EQ(fleet_dgetrs(simulated, FLEET_NO_TRANS, 8, 1, a.data.data(), a.ld, pivots.data(),
                         b.data.data(), b.ld),
            FLEET_UNSUPPORTED);

  EXPECT_EQ(a.data, same_a.data);
  EXPECT_EQ(b.data, same_b.data);
}

/// The same equations by dsgesv, with what it says.
struct Mixed {
  std::int64_t iter = -7, info = -7;
  Real factors, x, b;

  Mixed(fleet_context* context, const Real& a, const Real& right, int place)
      : factors(a), x(right), b(right) {
    std::vector<std::int64_t> pivots(static_cast<std::size_t>(a.rows));
    Placed<double> matrix(context, a, place), given(context, right, place), made(context, x, place);
    EXPECT_EQ(fleet_dsgesv(context, a.rows, right.cols, matrix.data(), a.ld, pivots.data(),
                           given.data(), right.ld, made.data(), x.ld, &iter, &info),
              FLEET_OK)
        << fleet_message();
    factors = matrix.now();
    x = made.now();
    b = given.now();
  }
  double residual(const Real& a) const {
    return difference(product(Op::none, a, Op::none, x), b).largest() / (a.largest() * x.largest());
  }
};

TEST_F(LapackInfo, MixedPrecisionRefinesToTheErrorOfDouble) {
  for (const int place : {kOwnMemory, FLEET_HOST, 0}) {
    const Real a = definite(200), b = random(200, 3);

    const Mixed mixed(context_, a, b, place);

    EXPECT_EQ(mixed.info, 0);
    EXPECT_GT(mixed.iter, 0);
    EXPECT_LT(mixed.iter, 10);
    EXPECT_LT(mixed.residual(a), 1e-12);
    EXPECT_EQ(mixed.factors.data, a.data);
    EXPECT_EQ(mixed.b.data, b.data);
  }
}

TEST_F(LapackInfo, MixedPrecisionFallsBackToDouble) {
  const Real b = random(60, 2);
  Real large = definite(60);
  large.at(3, 5) = 1e39;
  EXPECT_EQ(Mixed(context_, large, b, kOwnMemory).iter, -2);
  EXPECT_LT(Mixed(context_, large, b, 0).residual(large), 1e-12);

  // Singular once its elements are floats.
  Real close = random(60, 60);
  for (std::int64_t row = 0; row < 60; ++row) close.at(row, 2) = 0;
  close.at(7, 2) = 1e-60;
  const Mixed singular(context_, close, b, kOwnMemory);
  EXPECT_EQ(singular.iter, -3);
  EXPECT_EQ(singular.info, 0);
  EXPECT_LT(singular.residual(close), 1e-12);

  // A Hilbert matrix of this order has a condition far beyond single precision.
  Real hilbert(10, 10);
  for (std::int64_t col = 0; col < 10; ++col)
    for (std::int64_t row = 0; row < 10; ++row)
      hilbert.at(row, col) = 1.0 / static_cast<double>(row + col + 1);
  const Mixed ill(context_, hilbert, random(10, 1), kOwnMemory);
  EXPECT_EQ(ill.iter, -31);
  EXPECT_LT(ill.residual(hilbert), 1e-12);
}

TEST_F(LapackInfo, MixedPrecisionSaysOfASingularMatrixWhatDoubleDoes) {
  Real a = random(40, 40), b = random(40, 1);
  for (std::int64_t row = 0; row < 40; ++row) a.at(row, 20) = 0;

  const Mixed mixed(context_, a, b, kOwnMemory);

  EXPECT_EQ(mixed.iter, -3);
  EXPECT_EQ(mixed.info, 21);
  EXPECT_EQ(mixed.x.data, b.data);  // as it was
}

TEST_F(LapackInfo, MixedPrecisionOfComplexNumbers) {
  Matrix<std::complex<double>> a(90, 90, random_), b(90, 2, random_);
  a.strengthen();
  Matrix<std::complex<double>> matrix = a, x = b;
  std::vector<std::int64_t> pivots(90);
  std::int64_t iter = -7;

  EXPECT_EQ(fleet_zcgesv(context_, 90, 2, matrix.data.data(), a.ld, pivots.data(), b.data.data(),
                         b.ld, x.data.data(), x.ld, &iter, &info_),
            FLEET_OK);

  EXPECT_EQ(info_, 0);
  EXPECT_GT(iter, 0);
  EXPECT_LT(difference(product(Op::none, a, Op::none, x), b).largest(), 1e-12 * a.largest());
}

}  // namespace
}  // namespace fleet
