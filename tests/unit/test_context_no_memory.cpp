// SPDX-License-Identifier: BSD-3-Clause
// test_context_no_memory.cpp: calls while operator new fails, at each allocation in turn.
#include <gtest/gtest.h>

#include <vector>

#include "fleetblas/fleetblas.h"
#include "support/failing_new.hpp"
#include "support/host_context.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using test::with_failure;

constexpr std::int64_t kEdge = 40;

struct Product {
  std::vector<double> ones = std::vector<double>(kEdge * kEdge, 1.0);
  std::vector<double> c = std::vector<double>(kEdge * kEdge, 1.0);
  fleet_status status = FLEET_INTERNAL;

  void run(fleet_context* context) { run(context, ones.data()); }
  void run(fleet_context* context, const double* a) {
    status = fleet_dgemm(context, FLEET_NO_TRANS, FLEET_NO_TRANS, kEdge, kEdge, kEdge, 1.0, a,
                         kEdge, ones.data(), kEdge, 2.0, c.data(), kEdge);
  }
  bool done() const { return c == std::vector<double>(c.size(), kEdge + 2.0); }
  bool untouched() const { return c == std::vector<double>(c.size(), 1.0); }
};

/// The call succeeded, or failed with no_memory and left C untouched.
void expect_sane(const Product& product, long n) {
  if (product.status == FLEET_OK)
    ASSERT_TRUE(product.done()) << "allocation " << n;
  else
    ASSERT_TRUE(product.status == FLEET_NO_MEMORY && product.untouched())
        << "allocation " << n << ": " << fleet_status_string(product.status) << ": "
        << fleet_message();
}

class NoMemory : public ::testing::TestWithParam<bool> {
 protected:
  static constexpr long kMost = 200'000;
  /// 1, 2, 3, ... at full scale, with wider steps beyond thousands.
  static long next(long n) {
    return n + 1 + static_cast<long>(static_cast<double>(n) / 60 / test::test_scale());
  }
};

TEST_P(NoMemory, ForAContextIsAStatus) {
  const std::string options = "offload=never;rules=all,-lazy;log_level=1;tile=24";
  bool failed = true;
  for (long n = 1; failed && n < kMost; n = next(n)) {
    fleet_context* context = nullptr;
    fleet_status status = FLEET_INTERNAL;

    failed = with_failure(n, GetParam(),
                          [&] { status = fleet_context_create(options.c_str(), &context); });

    if (status == FLEET_OK) {
      Product product;
      product.run(context);
      ASSERT_TRUE(product.status == FLEET_OK && product.done()) << "allocation " << n;
    } else {
      ASSERT_EQ(status, FLEET_NO_MEMORY) << "allocation " << n << ": " << fleet_message();
      ASSERT_EQ(context, nullptr);
    }
    fleet_context_destroy(context);
  }
  EXPECT_FALSE(failed) << "too many allocations";
}

TEST_P(NoMemory, ForTheFirstCallOfAContextLeavesTheCpu) {
  bool failed = true;
  for (long n = 1; failed && n < kMost; n = next(n)) {
    const test::HostContext context(test::host_options(2) + ";tile=24");
    Product product;

    failed = with_failure(n, GetParam(), [&] { product.run(context); });

    expect_sane(product, n);
    if (HasFatalFailure()) return;
    ASSERT_EQ(product.status, FLEET_OK) << "the CPU needs no memory; allocation " << n;
    Product after;
    after.run(context);
    ASSERT_TRUE(after.done()) << "after allocation " << n << ": " << fleet_message();
  }
  EXPECT_FALSE(failed) << "too many allocations";
}

TEST_P(NoMemory, ForACallWithItsPlanAtHandLeavesTheCpu) {
  const test::HostContext context(test::host_options(2) + ";tile=24");
  Product warm;
  warm.run(context);
  bool failed = true;
  for (long n = 1; failed && n < kMost; n = next(n)) {
    Product product;

    failed = with_failure(n, GetParam(), [&] { product.run(context); });

    ASSERT_TRUE(product.status == FLEET_OK && product.done()) << "allocation " << n;
  }
  EXPECT_FALSE(failed) << "too many allocations";
}

TEST_P(NoMemory, AfterAFaultCompletesCOrSaysThatItIsUndefined) {
  // C = 1*1 + 2*C: if the CPU started again from results of the devices, beta would count twice.
  const std::string options = test::host_options(2) + ";tile=16;inject=launch:20";
  bool failed = true;
  int done = 0, undefined = 0;
  for (long n = 1; failed && n < kMost; n = next(n)) {
    const test::HostContext context(options);
    context.text(fleet_plan_json, "dgemm size=40 a@0 b@p c@p");
    Product product;
    void* a = nullptr;
    ASSERT_EQ(fleet_alloc(context, 0, sizeof(double) * kEdge * kEdge, &a), FLEET_OK);
    ASSERT_EQ(fleet_copy(context, a, product.ones.data(), sizeof(double) * kEdge * kEdge),
              FLEET_OK);

    failed =
        with_failure(n, GetParam(), [&] { product.run(context, static_cast<const double*>(a)); });

    if (product.status == FLEET_DEVICE_FAILED)
      ++undefined;
    else
      expect_sane(product, n);
    if (HasFatalFailure()) return;
    done += product.status == FLEET_OK;
    ASSERT_EQ(fleet_free(context, a), FLEET_OK);
  }
  EXPECT_FALSE(failed) << "too many allocations";
  EXPECT_GT(done, 0);
  EXPECT_GT(undefined, 0) << "no allocation failed after the fault";
}

TEST_P(NoMemory, ForCallsOnTheCpuDoesNotMatter) {
  bool failed = true;
  for (long n = 1; failed && n < kMost; n = next(n)) {
    Product product;

    failed = with_failure(n, GetParam(), [&] { product.run(nullptr); });

    ASSERT_TRUE(product.status == FLEET_OK && product.done()) << "allocation " << n;
  }
  EXPECT_FALSE(failed) << "too many allocations";
}

TEST_P(NoMemory, ForTextsAndMemoryIsAStatus) {
  const test::HostContext context(test::host_options(2));
  bool failed = true;
  for (long n = 1; failed && n < kMost; n = next(n)) {
    char* text = nullptr;
    void* data = nullptr;
    fleet_status plan = FLEET_INTERNAL, stats = FLEET_INTERNAL, memory = FLEET_INTERNAL;

    failed = with_failure(n, GetParam(), [&] {
      stats = fleet_stats_json(context, &text);
      fleet_free_text(text);
      memory = fleet_alloc(context, 0, 100, &data);
      plan = fleet_plan_json(context, "dgemm size=64", &text);
      fleet_free_text(text);
    });

    for (const fleet_status status : {plan, stats, memory})
      ASSERT_TRUE(status == FLEET_OK || status == FLEET_NO_MEMORY)
          << "allocation " << n << ": " << fleet_status_string(status);
    ASSERT_EQ(fleet_free(context, data), FLEET_OK);
  }
  EXPECT_FALSE(failed) << "too many allocations";
}

/// A batch that takes two plans, with A on a device, while the CPU has no memory for a copy of A.
TEST(NoMemoryInALongBatch, IsNoReasonToCallATouchedCUntouched) {
  constexpr std::int64_t kItem = 64, kItems = 66;
  const std::string options = test::host_options(1) + ";tile=8";
  const std::vector<double> ones(kItem * kItem, 1.0), before(ones.size() * kItems, 1.0);
  std::vector<double> c;
  fleet_status status = FLEET_INTERNAL;
  const auto run_with = [&](auto&& failing) {
    const test::HostContext context(options);
    void* a = nullptr;
    EXPECT_EQ(fleet_alloc(context, 0, ones.size() * sizeof(double), &a), FLEET_OK);
    EXPECT_EQ(fleet_copy(context, a, ones.data(), ones.size() * sizeof(double)), FLEET_OK);
    c = before;
    failing([&] {
      status =
          fleet_dgemm_strided_batched(context, FLEET_NO_TRANS, FLEET_NO_TRANS, kItem, kItem, kItem,
                                      1.0, static_cast<double*>(a), kItem, 0, ones.data(), kItem, 0,
                                      2.0, c.data(), kItem, kItem * kItem, kItems);
    });
    EXPECT_EQ(fleet_free(context, a), FLEET_OK);
  };
  long all = 0;
  run_with([&](auto&& work) { all = test::count_allocations(work); });
  int undefined = 0;
  constexpr long kParts = 16;
  const long step = test::test_scale() < 1 ? 3 : 1;

  for (long part = kParts - 1; part >= kParts / 2; part -= step) {
    run_with([&](auto&& work) { with_failure(all * part / kParts, false, work); });

    undefined += status == FLEET_DEVICE_FAILED;
    if (status == FLEET_DEVICE_FAILED) continue;
    const bool right = status == FLEET_OK && c == std::vector<double>(c.size(), kItem + 2.0);
    const bool untouched = status == FLEET_NO_MEMORY && c == before;
    ASSERT_TRUE(right || untouched) << part << ": " << fleet_status_string(status);
  }
  EXPECT_GT(undefined, 0) << "memory never ran out between the plans";
}

INSTANTIATE_TEST_SUITE_P(OneOrAll, NoMemory, ::testing::Bool());

}  // namespace
}  // namespace fleet
