// SPDX-License-Identifier: BSD-3-Clause
// test_cuda_panels.cpp: the steps of getrf, rows that move, and copies between devices, on the GPUs
// of this machine.
#include <gtest/gtest.h>

#include "gpu/gpus.hpp"
#include "support/host_context.hpp"
#include "support/panel_trial.hpp"
#include "support/row_trial.hpp"

namespace fleet {
namespace {

using test::HostContext;
using test::kUnitOf;
using test::Matrix;
using test::Placed;

template <typename T>
class CudaPanels : public testing::Test {};
using Types = testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(CudaPanels, Types);

TYPED_TEST(CudaPanels, FactorAsGetrfDoes) {
  using T = TypeParam;
  const HostContext context("backend=cuda;devices=0,");
  std::mt19937 random(7);
  // More exchanges than one kernel composes, with the last.
  for (const auto& [n, width] : {std::pair{1, 1}, {60, 17}, {257, 64}, {700, 160}, {1130, 1060}}) {
    const Matrix<T> a(n, n, random);
    Placed<T> placed(context, a, 0);
    std::vector<std::int64_t> pivots;
    EXPECT_EQ(test::factor_by_panels(context, placed, n, width, 0, pivots), 0);
    const Matrix<T> factors = placed.now();
    EXPECT_LE(test::lu_error(a, factors, pivots),
              20.0 * n * kUnitOf<T> * a.largest() * factors.largest())
        << n << " by " << width;
    Matrix<T> copy = a;
    std::vector<std::int64_t> expected(static_cast<std::size_t>(n));
    std::int64_t info = -1;
    const HostContext cpu("offload=never");
    EXPECT_EQ(test::Lapack<T>::getrf(cpu, n, n, copy.data.data(), copy.ld, expected.data(), &info),
              FLEET_OK);
    EXPECT_EQ(pivots, expected) << n << " by " << width;
  }
}

/// Wide enough for two streams; also where the panel is a square, which leaves no products.
TYPED_TEST(CudaPanels, DoTheSameToManyColumnsAsToFew) {
  using T = TypeParam;
  using Api = test::Lapack<T>;
  constexpr std::int64_t kWidth = 96, kColumns = 9000, kFew = 1000;
  const HostContext context("backend=cuda;devices=0,");
  std::mt19937 random(9);
  for (const std::int64_t rows : {kWidth, std::int64_t{700}}) {
    const Matrix<T> a(rows, kWidth, random), c(rows, kColumns, random);
    Placed<T> square(context, a, 0), at_once(context, c, 0), by_few(context, c, 0);
    const test::PanelMemory<T> panel(context, rows, kWidth, 0);
    ASSERT_EQ(Api::getrf_panel(context, rows, kWidth, square.data(), square.ld(), panel.data()),
              FLEET_OK)
        << fleet_message();
    ASSERT_EQ(Api::getrf_apply(context, rows, kWidth, panel.data(), kColumns, at_once.data(),
                               at_once.ld()),
              FLEET_OK)
        << fleet_message();
    for (std::int64_t col = 0; col < kColumns; col += kFew)
      ASSERT_EQ(Api::getrf_apply(context, rows, kWidth, panel.data(), kFew,
                                 by_few.data() + col * by_few.ld(), by_few.ld()),
                FLEET_OK)
          << fleet_message();
    EXPECT_LE(difference(at_once.now(), by_few.now()).largest(),
              20.0 * kWidth * kUnitOf<T> * by_few.now().largest())
        << rows;
  }
}

TYPED_TEST(CudaPanels, AreAppliedWhereProgramsMoveRows) {
  const HostContext context("backend=cuda;devices=0,");
  std::mt19937 random(5);
  for (const auto& [rows, cols, count] :
       {std::array{1, 1, 1}, {40, 19, 40}, {97, 130, 33}, {2000, 3000, 700}})
    test::move_rows<TypeParam>(context, 0, rows, cols, count, random);
  for (const auto& [m, n, k] : {std::array{1, 1, 1}, {40, 16, 23}, {16, 16, 9}, {900, 128, 1000}})
    test::update_exchanged<TypeParam>(context, 0, m, n, k, random);
  for (const int host : {test::kOwnMemory, FLEET_HOST}) {
    test::copy_part<TypeParam>(context, 0, host, random);
    test::copy_part<TypeParam>(context, host, 0, random);
  }
}

TEST(CudaCopies, BetweenDevicesAreRight) {
  const auto devices = test::all_gpus();
  if (devices.size() < 2) GTEST_SKIP() << "one GPU";
  const HostContext context("backend=cuda");
  std::mt19937 random(8);
  const Matrix<double> a(1000, 77, random);
  const Matrix<double> other(1000, 77, random);
  Placed<double> from(context, a, 0), to(context, other, 1);
  ASSERT_EQ(fleet_copy(context, to.data(), from.data(), a.data.size() * sizeof(double)), FLEET_OK);
  EXPECT_EQ(to.now().data, a.data);
}

}  // namespace
}  // namespace fleet
