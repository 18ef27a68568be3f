// SPDX-License-Identifier: BSD-3-Clause
// test_capi_lapack_cyclic.cpp: block-cyclic matrices are factored on their devices: the factors,
// and the bytes that were moved for them. It knows nothing below the C API but the LAPACK that it
// is compared with.
#include <gtest/gtest.h>

#include "cpu/lapack.hpp"
#include "support/host_context.hpp"
#include "support/lapack_api.hpp"
#include "support/tracked.hpp"

namespace fleet {
namespace {

using fleetblas::Context;
using test::difference;
using test::product;
using Real = test::Matrix<double>;

class LapackCyclic : public testing::Test {
 protected:
  static constexpr std::int64_t kEdge = 150;

  test::MatrixHandle scattered(const Context& context, const char* place, const Real& a) {
    fleet_matrix* made = nullptr;
    EXPECT_EQ(fleet_matrix_create(context.handle(), FLEET_F64, a.rows, a.cols, place, &made),
              FLEET_OK)
        << fleet_message();
    test::MatrixHandle matrix(made);
    EXPECT_EQ(fleet_matrix_scatter(made, a.data.data(), a.ld), FLEET_OK) << fleet_message();
    void* data = nullptr;
    EXPECT_EQ(fleet_matrix_data(made, &data, &ld_), FLEET_OK);
    data_ = static_cast<double*>(data);
    return matrix;
  }
  Real gathered(const test::MatrixHandle& matrix, const Real& like) {
    Real now = like;
    EXPECT_EQ(fleet_matrix_gather(matrix.get(), now.data.data(), now.ld), FLEET_OK)
        << fleet_message();
    return now;
  }
  static std::int64_t bytes_of(const Real& a) { return a.rows * a.cols * 8; }
  static CpuBlas& cpu() { return *test::shared_cpu_blas(); }

  std::mt19937 random_{11};
  double* data_ = nullptr;
  std::int64_t ld_ = 0, info_ = -7;
};

TEST_F(LapackCyclic, LuOfAnyShapeAndGridPassesNoHost) {
  for (const char* place : {"c2x2:24", "c1x4:32", "c4x1:40", "c1x2:17", "c"})
    for (const auto& [m, n] : {std::pair{kEdge, kEdge}, std::pair{kEdge, kEdge / 2},
                               std::pair{kEdge / 2, kEdge}, std::pair{std::int64_t{1}, kEdge}}) {
      const Context context(test::small_tiles(4));
      const Real a(m, n, random_);
      Real known = a;
      const auto matrix = scattered(context, place, a);
      std::vector<std::int64_t> pivots(static_cast<std::size_t>(std::min(m, n))), expected = pivots;

      ASSERT_EQ(fleet_dgetrf(context.handle(), m, n, data_, ld_, pivots.data(), &info_), FLEET_OK)
          << fleet_message();

      EXPECT_EQ(info_, 0);
      EXPECT_EQ(test::moved(context, "h2d"), bytes_of(a)) << place << " " << m << " " << n;
      EXPECT_LT(test::moved(context, "d2h"), 64 * (m + n));  // pivots, and what belongs to them
      EXPECT_EQ(lapack::getrf(cpu(), Storage::f64, known.view(), expected.data()), 0);
      EXPECT_EQ(pivots, expected);
      EXPECT_LT(difference(gathered(matrix, a), known).largest(), 1e-10);
    }
}

TEST_F(LapackCyclic, CholeskyOfTheLowerTriangleLeavesTheOther) {
  for (const char* place : {"c2x2:24", "c1x4:64", "c2x1:100"}) {
    const Context context(test::small_tiles(4));
    Real a(kEdge, kEdge, random_);
    a.strengthen();
    // Not referenced, whatever it is.
    const bool has_nan = std::string(place) == "c2x2:24";
    for (std::int64_t col = 0; col < kEdge && has_nan; ++col)
      for (std::int64_t row = 0; row < col; ++row) a.at(row, col) = NAN;
    Real known = a;
    const auto matrix = scattered(context, place, a);

    ASSERT_EQ(fleet_dpotrf(context.handle(), FLEET_LOWER, kEdge, data_, ld_, &info_), FLEET_OK)
        << fleet_message();

    EXPECT_EQ(info_, 0);
    EXPECT_EQ(test::moved(context, "h2d"), bytes_of(a));
    View lower = known.view();
    lower.fill = Fill::lower;
    EXPECT_EQ(lapack::potrf(cpu(), Storage::f64, lower), 0);
    const Real now = gathered(matrix, a);
    for (std::int64_t col = 0; col < kEdge; ++col)
      for (std::int64_t row = 0; row < kEdge; ++row) {
        if (row < col && has_nan)
          EXPECT_TRUE(std::isnan(now.at(row, col)));
        else if (row < col)
          EXPECT_EQ(now.at(row, col), a.at(row, col));
        else
          EXPECT_NEAR(now.at(row, col), known.at(row, col), 1e-11);
      }
  }
}

TEST_F(LapackCyclic, QrIsThatOfTheHost) {
  const Context context(test::small_tiles(4));
  const Real a(kEdge, kEdge / 3, random_);
  Real known = a;
  const auto matrix = scattered(context, "c2x2:32", a);
  std::vector<double> tau(static_cast<std::size_t>(a.cols)), expected = tau;

  ASSERT_EQ(fleet_dgeqrf(context.handle(), a.rows, a.cols, data_, ld_, tau.data()), FLEET_OK)
      << fleet_message();

  EXPECT_EQ(test::moved(context, "h2d"), bytes_of(a));
  lapack::geqrf(cpu(), Storage::f64, known.view(), expected.data());
  EXPECT_LT(difference(gathered(matrix, a), known).largest(), 1e-11);
  for (std::size_t i = 0; i < tau.size(); ++i) EXPECT_NEAR(tau[i], expected[i], 1e-12);
}

TEST_F(LapackCyclic, TheUpperTriangleComesHomeFirst) {
  const Context context(test::small_tiles(4));
  Real a(kEdge, kEdge, random_);
  a.strengthen();
  Real known = a;
  const auto matrix = scattered(context, "c2x2:24", a);

  ASSERT_EQ(fleet_dpotrf(context.handle(), FLEET_UPPER, kEdge, data_, ld_, &info_), FLEET_OK)
      << fleet_message();

  View upper = known.view();
  upper.fill = Fill::upper;
  EXPECT_EQ(lapack::potrf(cpu(), Storage::f64, upper), 0);
  EXPECT_LT(difference(gathered(matrix, a), known).largest(), 1e-11);
}

TEST_F(LapackCyclic, WhatTheProgramWroteAtHomeIsFactored) {
  const Context context(test::small_tiles(4));
  const Real a(kEdge, kEdge, random_);
  Real known = a;
  const auto matrix = scattered(context, "c2x2:24", a);
  ASSERT_EQ(fleet_matrix_read(matrix.get(), 0, 0, kEdge, kEdge), FLEET_OK);
  known.at(3, 5) = data_[3 + 5 * ld_] = 40;
  ASSERT_EQ(fleet_matrix_wrote(matrix.get(), 0, 0, kEdge, kEdge), FLEET_OK);
  std::vector<std::int64_t> pivots(kEdge), expected(kEdge);

  ASSERT_EQ(fleet_dgetrf(context.handle(), kEdge, kEdge, data_, ld_, pivots.data(), &info_),
            FLEET_OK);

  EXPECT_EQ(lapack::getrf(cpu(), Storage::f64, known.view(), expected.data()), 0);
  EXPECT_EQ(pivots, expected);
  EXPECT_LT(difference(gathered(matrix, a), known).largest(), 1e-10);
}

TEST_F(LapackCyclic, QueuedProductsTakeTheFactorsWhereTheyAre) {
  const Context context(test::small_tiles(4));
  Real a(kEdge, kEdge, random_);
  a.strengthen();
  Real one = Real::identity(kEdge);
  auto factors = scattered(context, "c2x2:24", a);
  double* const data = data_;
  const std::int64_t ld = ld_;
  const auto unit = scattered(context, "c2x2:24", one), made = scattered(context, "c2x2:24", one);
  const std::int64_t before = test::moved(context, "h2d");
  std::vector<std::int64_t> pivots(kEdge);
  ASSERT_EQ(fleet_dgetrf(context.handle(), kEdge, kEdge, data, ld, pivots.data(), &info_),
            FLEET_OK);

  ASSERT_EQ(fleet_dgemm_async(context.handle(), FLEET_NO_TRANS, FLEET_NO_TRANS, 2.0, factors.get(),
                              unit.get(), 0.0, made.get(), nullptr),
            FLEET_OK);

  const Real twice = gathered(made, a), once = gathered(factors, a);
  EXPECT_EQ(test::moved(context, "h2d"), before);
  for (std::int64_t col = 0; col < kEdge; ++col)
    for (std::int64_t row = 0; row < kEdge; ++row)
      EXPECT_EQ(twice.at(row, col), 2 * once.at(row, col));
}

TEST_F(LapackCyclic, APartOfAMatrixIsFactoredByItselfWhereverItBegins) {
  for (const std::int64_t from : {48, 50}) {
    const Context context(test::small_tiles(4));
    const Real a(kEdge, kEdge, random_);
    const auto matrix = scattered(context, "c2x2:24", a);
    const std::int64_t edge = 72;
    std::vector<std::int64_t> pivots(edge), expected(edge), all(kEdge), all_expected(kEdge);

    ASSERT_EQ(fleet_dgetrf(context.handle(), edge, edge, data_ + from + from * ld_, ld_,
                           pivots.data(), &info_),
              FLEET_OK)
        << fleet_message();

    Real known = a;
    View part = known.view();
    part.data = &known.at(from, from);
    part.rows = part.cols = edge;
    EXPECT_EQ(lapack::getrf(cpu(), Storage::f64, part, expected.data()), 0);
    EXPECT_EQ(pivots, expected);
    // No copy of what was there before is taken for the whole.
    ASSERT_EQ(fleet_dgetrf(context.handle(), kEdge, kEdge, data_, ld_, all.data(), &info_),
              FLEET_OK);
    EXPECT_EQ(lapack::getrf(cpu(), Storage::f64, known.view(), all_expected.data()), 0);
    EXPECT_EQ(all, all_expected) << from;
    EXPECT_LT(difference(gathered(matrix, a), known).largest(), 1e-9) << from;
  }
}

TEST_F(LapackCyclic, CopiesOfATriangleDoNotOutliveTheFactorization) {
  const Context context(test::small_tiles(4));
  Real a(kEdge, kEdge, random_), b(kEdge, kEdge, random_);
  a.strengthen();
  const auto right = scattered(context, "c2x2:24", b);
  const auto matrix = scattered(context, "c2x2:24", a);
  double* const data = data_;
  const std::int64_t ld = ld_;
  const auto solve = [&] {
    return fleet_dtrsm_async(context.handle(), FLEET_LEFT, FLEET_LOWER, FLEET_NO_TRANS,
                             FLEET_NON_UNIT, 1.0, matrix.get(), right.get(), nullptr);
  };
  ASSERT_EQ(solve(), FLEET_OK) << fleet_message();
  const Real before = gathered(right, b);
  ASSERT_EQ(fleet_dpotrf(context.handle(), FLEET_LOWER, kEdge, data, ld, &info_), FLEET_OK);

  ASSERT_EQ(solve(), FLEET_OK) << fleet_message();

  const Real x = gathered(right, b);
  Real lower = gathered(matrix, a);
  for (std::int64_t col = 0; col < kEdge; ++col)
    for (std::int64_t row = 0; row < col; ++row) lower.at(row, col) = 0;
  EXPECT_LT(difference(product(Op::none, lower, Op::none, x), before).largest(), 1e-10);
}

TEST_F(LapackCyclic, WhatTheMatrixWaitsForMayFail) {
  const Context context(test::small_tiles(4));
  const Real a(kEdge, kEdge, random_);
  const auto matrix = scattered(context, "c2x2:24", a);
  fleet_event* event = nullptr;
  ASSERT_EQ(fleet_event_create(&event), FLEET_OK);
  const test::EventHandle owned(event);
  ASSERT_EQ(fleet_matrix_after(matrix.get(), event), FLEET_OK);
  ASSERT_EQ(fleet_event_set(event, FLEET_DEVICE_FAILED), FLEET_OK);
  std::vector<std::int64_t> pivots(kEdge);

  EXPECT_NE(fleet_dgetrf(context.handle(), kEdge, kEdge, data_, ld_, pivots.data(), &info_),
            FLEET_OK);
}

TEST_F(LapackCyclic, ADeviceThatIsLostTakesNothingThatIsAtHome) {
  for (const int tasks : {60, 100, 140}) {
    const Context context(test::small_tiles(4, ";inject=poison,lost:1@" + std::to_string(tasks)));
    const Real a(kEdge, kEdge, random_);
    Real known = a;
    fleet_matrix* made = nullptr;
    std::vector<double> home(static_cast<std::size_t>(kEdge * kEdge));
    for (std::int64_t col = 0; col < kEdge; ++col)
      for (std::int64_t row = 0; row < kEdge; ++row)
        home[static_cast<std::size_t>(row + col * kEdge)] = a.at(row, col);
    ASSERT_EQ(
        fleet_matrix_wrap(context.handle(), FLEET_F64, kEdge, kEdge, home.data(), kEdge, &made),
        FLEET_OK);
    const test::MatrixHandle matrix(made);
    ASSERT_EQ(fleet_matrix_distribute(made, "c2x2:24", nullptr), FLEET_OK);
    std::vector<std::int64_t> pivots(kEdge), expected(kEdge);

    ASSERT_EQ(
        fleet_dgetrf(context.handle(), kEdge, kEdge, home.data(), kEdge, pivots.data(), &info_),
        FLEET_OK)
        << tasks << " " << fleet_message();

    EXPECT_EQ(lapack::getrf(cpu(), Storage::f64, known.view(), expected.data()), 0);
    EXPECT_EQ(pivots, expected) << tasks;
  }
}

TEST_F(LapackCyclic, OfADeviceThatIsLostTheTilesAreAndTheStatusSaysSo) {
  int lost = 0;
  for (const int tasks : {0, 20, 60, 100, 140, 180}) {
    const Context context(test::small_tiles(4, ";inject=poison,lost:1@" + std::to_string(tasks)));
    const Real a(kEdge, kEdge, random_);
    Real known = a;
    const auto matrix = scattered(context, "c2x2:24", a);
    std::vector<std::int64_t> pivots(kEdge), expected(kEdge);

    const fleet_status status =
        fleet_dgetrf(context.handle(), kEdge, kEdge, data_, ld_, pivots.data(), &info_);

    if (status == FLEET_OK) {  // nothing was on the device alone
      EXPECT_EQ(lapack::getrf(cpu(), Storage::f64, known.view(), expected.data()), 0);
      EXPECT_EQ(pivots, expected) << tasks;
      EXPECT_LT(difference(gathered(matrix, a), known).largest(), 1e-10) << tasks;
      continue;
    }
    ++lost;
    EXPECT_EQ(status, FLEET_DEVICE_FAILED) << tasks;
    EXPECT_NE(std::string(fleet_message()).find("lost"), std::string::npos) << fleet_message();
  }
  EXPECT_GE(lost, 1);
}

TEST_F(LapackCyclic, AfterAFaultTheFactorsAreRightToo) {
  for (const char* fault : {"copy:40", "launch:30", "alloc:3", "copy:200"}) {
    const Context context(test::small_tiles(4, std::string(";inject=poison,") + fault));
    const Real a(kEdge, kEdge, random_);
    Real known = a;
    const auto matrix = scattered(context, "c2x2:24", a);
    std::vector<std::int64_t> pivots(kEdge), expected(kEdge);

    ASSERT_EQ(fleet_dgetrf(context.handle(), kEdge, kEdge, data_, ld_, pivots.data(), &info_),
              FLEET_OK)
        << fault << " " << fleet_message();

    EXPECT_EQ(lapack::getrf(cpu(), Storage::f64, known.view(), expected.data()), 0);
    EXPECT_EQ(pivots, expected) << fault;
    EXPECT_LT(difference(gathered(matrix, a), known).largest(), 1e-10) << fault;
  }
}

}  // namespace
}  // namespace fleet
