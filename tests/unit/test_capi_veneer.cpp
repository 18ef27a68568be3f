// SPDX-License-Identifier: BSD-3-Clause
// test_capi_veneer.cpp: the C++ header. It knows nothing below it.
#include <gtest/gtest.h>

#include <complex>
#include <vector>

#include "fleetblas/fleetblas.hpp"
#include "support/host_context.hpp"

namespace {

template <typename T>
class Veneer : public ::testing::Test {};
using Types = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(Veneer, Types);

TYPED_TEST(Veneer, PicksTheRoutineByTheElementType) {
  const fleetblas::Context context(fleet::test::host_options(2));
  const std::vector<TypeParam> a(9, TypeParam(2)), b(9, TypeParam(3));
  std::vector<TypeParam> c(9, TypeParam(1));

  fleetblas::gemm(context, FLEET_NO_TRANS, FLEET_TRANS, 3, 3, 3, TypeParam(1), a.data(), 3,
                  b.data(), 3, TypeParam(2), c.data(), 3);

  EXPECT_EQ(c, std::vector<TypeParam>(9, TypeParam(20)));  // 3 * 2 * 3 + 2
  EXPECT_NE(context.stats_json().find("\"calls\":1"), std::string::npos);
}

TEST(VeneerErrors, AreExceptionsWithStatusAndMessage) {
  const fleetblas::Context context = fleetblas::Context::standard();
  try {
    fleetblas::gemm(context, FLEET_NO_TRANS, FLEET_NO_TRANS, -1, 1, 1, 1.0, nullptr, 1, nullptr, 1,
                    0.0, nullptr, 1);
    FAIL() << "a negative size was accepted";
  } catch (const fleetblas::Error& error) {
    EXPECT_EQ(error.status(), FLEET_BAD_ARGUMENT);
    EXPECT_STREQ(error.what(), "fleet_dgemm: argument 4 (m) is -1, expected at least 0");
  }
  EXPECT_THROW(fleetblas::Context("tile=x"), fleetblas::Error);
}

TEST(VeneerMemory, LiesWhereItShouldAndIsFreed) {
  const fleetblas::Context context(fleet::test::host_options(2));
  const fleetblas::Memory<double> x(context, 1, 4), y(context, FLEET_HOST, 4);
  const std::vector<double> in = {1, 2, 3, 4};
  std::vector<double> out(4);

  context.copy(x.data(), in.data(), sizeof(double) * 4);
  context.copy(y.data(), x.data(), sizeof(double) * 4);
  context.copy(out.data(), y.data(), sizeof(double) * 4);

  EXPECT_EQ(out, in);
  EXPECT_THROW(fleetblas::Memory<double>(context, 2, 4), fleetblas::Error);
}

TEST(VeneerContexts, ChoosePlansByACallersNumber) {
  const fleetblas::Context context("backend=sim;machine=clx-ai");
  const std::string problem = "dgemm m=8192 n=8192 k=8192 a@h b@h c@h";
  const auto workers = [&] {
    const std::string plan = context.plan_json(problem);
    const std::size_t from = plan.find("\"workers\":[");
    return plan.substr(from, plan.find(']', from) + 1 - from);
  };
  EXPECT_EQ(workers(), "\"workers\":[0,1,2,3,4,5,6,7]");
  int calls = 0;
  const auto fewest = [](void* user, const fleet_cost* cost) {
    ++*static_cast<int*>(user);
    return static_cast<double>(cost->devices) + (cost->seconds > 0 && cost->joules > 0 ? 0 : 100);
  };
  context.set_objective(fewest, &calls);
  EXPECT_EQ(workers().find(','), std::string::npos) << workers();
  EXPECT_GT(calls, 0);
  context.set_objective(nullptr);
  EXPECT_EQ(workers(), "\"workers\":[0,1,2,3,4,5,6,7]");
}

TEST(VeneerContexts, CanBeMoved) {
  fleetblas::Context first(fleet::test::host_options(1));
  fleet_context* handle = first.handle();

  const fleetblas::Context second = std::move(first);

  EXPECT_EQ(second.handle(), handle);
  EXPECT_NE(second.plan_json("dgemm size=100").find("\"workers\":[0]"), std::string::npos);
}

}  // namespace
