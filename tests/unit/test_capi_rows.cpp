// SPDX-License-Identifier: BSD-3-Clause
// test_capi_rows.cpp: rows and parts of matrices moved through the C API, at any place.
#include <gtest/gtest.h>

#include "support/host_context.hpp"
#include "support/row_trial.hpp"

namespace fleet {
namespace {

using test::HostContext;
using test::kOwnMemory;
using test::Matrix;
using test::Placed;

constexpr int kPlaces[] = {kOwnMemory, FLEET_HOST, FLEET_HOST_PAGEABLE, 0, 1};

template <typename T>
class CapiRows : public testing::Test {
 protected:
  HostContext context_{test::host_options(2)};
  std::mt19937 random_{5};
};
using Types = testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(CapiRows, Types);

TYPED_TEST(CapiRows, GoWhereTheyAreSent) {
  for (const int location : kPlaces)
    for (const auto& [rows, cols, count] :
         {std::array{1, 1, 1}, {7, 3, 2}, {40, 19, 40}, {97, 130, 33}})
      test::move_rows<TypeParam>(this->context_, location, rows, cols, count, this->random_);
}

TYPED_TEST(CapiRows, OfPartsAreCopied) {
  for (const int from : kPlaces)
    for (const int to : kPlaces)
      test::copy_part<TypeParam>(this->context_, to, from, this->random_);
}

TEST(CapiRowsRefuse, WhatIsNotInOnePlace) {
  const HostContext context(test::host_options(2));
  std::mt19937 random(3);
  const Matrix<double> a(20, 20, random);
  Placed<double> matrix(context, a, 0), packed(context, a, 0), far(context, a, 1);
  const std::int64_t numbers[] = {4, 2};
  EXPECT_EQ(fleet_dpack_rows(context, 2, numbers, 20, 20, matrix.data(), matrix.ld(), packed.data(),
                             packed.ld()),
            FLEET_UNSUPPORTED);
  EXPECT_STREQ(fleet_message(), "the operands lie in different places");
  EXPECT_EQ(fleet_dunpack_rows(context, 2, numbers, 20, 20, matrix.data(), matrix.ld(), far.data(),
                               far.ld()),
            FLEET_UNSUPPORTED);
}

TEST(CapiRowsRefuse, IllegalArguments) {
  const HostContext context(test::host_options(1));
  std::vector<double> a(16), p(16);
  const std::int64_t numbers[] = {1};
  EXPECT_EQ(fleet_dpack_rows(context, -1, numbers, 4, 4, a.data(), 4, p.data(), 4),
            FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_dpack_rows(context, 1, nullptr, 4, 4, a.data(), 4, p.data(), 4),
            FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_dpack_rows(context, 1, numbers, 4, 4, a.data(), 3, p.data(), 4),
            FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_dunpack_rows(context, 1, numbers, 4, 4, a.data(), 4, p.data(), 3),
            FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_dunpack_rows(context, 0, nullptr, 4, 4, a.data(), 4, nullptr, 4), FLEET_OK);
  EXPECT_EQ(fleet_dlacpy(context, 4, 4, a.data(), 4, p.data(), 3), FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_dlacpy(context, 0, 4, nullptr, 4, nullptr, 4), FLEET_OK);
}

}  // namespace
}  // namespace fleet
