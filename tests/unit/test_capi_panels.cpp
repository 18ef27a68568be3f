// SPDX-License-Identifier: BSD-3-Clause
// test_capi_panels.cpp: the steps of getrf through the C API, at any place: the factors are those
// of the matrix, and the pivots LAPACK's.
#include <gtest/gtest.h>

#include "cpu/lapack.hpp"
#include "support/host_context.hpp"
#include "support/panel_trial.hpp"
#include "support/row_trial.hpp"

namespace fleet {
namespace {

using test::factor_by_panels;
using test::HostContext;
using test::kOwnMemory;
using test::kUnitOf;
using test::Lapack;
using test::Matrix;
using test::PanelMemory;
using test::Placed;

template <typename T>
class CapiPanels : public testing::Test {
 protected:
  HostContext context_{test::host_options(2)};
  std::mt19937 random_{11};
};
using Types = testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(CapiPanels, Types);

TYPED_TEST(CapiPanels, FactorAsGetrfDoes) {
  using T = TypeParam;
  for (const int location : {kOwnMemory, FLEET_HOST, FLEET_HOST_PAGEABLE, 0, 1})
    for (const auto& [n, width] : {std::pair{1, 1}, {5, 9}, {64, 16}, {97, 32}, {130, 24}}) {
      const Matrix<T> a(n, n, this->random_);
      Placed<T> placed(this->context_, a, location);
      std::vector<std::int64_t> pivots, expected(static_cast<std::size_t>(n));
      EXPECT_EQ(factor_by_panels(this->context_, placed, n, width, location, pivots), 0);
      const Matrix<T> factors = placed.now();
      EXPECT_LE(test::lu_error(a, factors, pivots),
                20.0 * n * kUnitOf<T> * a.largest() * factors.largest())
          << n << " by " << width << " at " << location;
      Matrix<T> copy = a;
      std::int64_t info = -1;
      const HostContext cpu("offload=never");
      EXPECT_EQ(Lapack<T>::getrf(cpu, n, n, copy.data.data(), copy.ld, expected.data(), &info),
                FLEET_OK);
      EXPECT_EQ(pivots, expected) << n << " by " << width << " at " << location;
    }
}

TYPED_TEST(CapiPanels, NamesTheFirstPivotThatIsZero) {
  using T = TypeParam;
  Matrix<T> a(40, 40, this->random_);
  for (std::int64_t row = 0; row < 40; ++row) a.at(row, 21) = 0;
  Placed<T> placed(this->context_, a, 1);
  std::vector<std::int64_t> pivots;
  EXPECT_EQ(factor_by_panels(this->context_, placed, 40, 8, 1, pivots), 22);
}

TYPED_TEST(CapiPanels, UpdateWhereRowsAreExchanged) {
  for (const int location : {kOwnMemory, 0})
    for (const auto& [m, n, k] : {std::array{1, 1, 1}, {40, 16, 23}, {16, 16, 9}, {70, 24, 5}})
      test::update_exchanged<TypeParam>(this->context_, location, m, n, k, this->random_);
}

TEST(CapiPanelsRefuse, WhatIsNotInOnePlace) {
  const HostContext context(test::host_options(2));
  std::mt19937 random(3);
  const Matrix<double> a(20, 20, random);
  Placed<double> here(context, a, kOwnMemory), there(context, a, 0);
  const PanelMemory<double> panel(context, 20, 4, 1);
  EXPECT_EQ(fleet_dgetrf_panel(context, 20, 4, here.data(), here.ld(), panel.data()),
            FLEET_UNSUPPORTED);
  EXPECT_EQ(fleet_dgetrf_apply(context, 20, 4, panel.data(), 3, there.data(), there.ld()),
            FLEET_UNSUPPORTED);
  EXPECT_STREQ(fleet_message(), "the operands lie in different places");
  EXPECT_EQ(here.now().data, a.data);
  EXPECT_EQ(there.now().data, a.data);
}

TEST(CapiPanelsRefuse, IllegalArguments) {
  const HostContext context(test::host_options(1));
  std::vector<double> a(16), panel(64);
  std::int64_t pivots[4], info, bytes;
  EXPECT_EQ(fleet_dgetrf_panel(context, 3, 4, a.data(), 4, panel.data()), FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_dgetrf_panel(context, 4, 2, a.data(), 3, panel.data()), FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_dgetrf_panel(context, 4, 2, a.data(), 4, nullptr), FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_dgetrf_pivots(context, 4, 2, panel.data(), nullptr, &info), FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_dgetrf_apply(context, 4, 2, panel.data(), -1, a.data(), 4), FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_dgetrf_update(context, 2, 3, a.data(), 4, 1, panel.data(), 4, panel.data(), 4),
            FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_getrf_panel_bytes(FLEET_F16, 4, 2, &bytes), FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_getrf_panel_bytes(FLEET_F64, INT64_MAX, 2, &bytes), FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_getrf_panel_bytes(FLEET_F64, 4, 0, &bytes), FLEET_OK);
  EXPECT_EQ(bytes, 0);
  EXPECT_EQ(fleet_dgetrf_panel(context, 4, 0, nullptr, 4, nullptr), FLEET_OK);
  EXPECT_EQ(fleet_dgetrf_pivots(context, 4, 0, nullptr, pivots, &info), FLEET_OK);
  EXPECT_EQ(info, 0);
}

}  // namespace
}  // namespace fleet
