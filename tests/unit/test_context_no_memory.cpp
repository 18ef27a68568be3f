// SPDX-License-Identifier: BSD-3-Clause
// test_context_no_memory.cpp: calls while operator new fails, at each allocation in turn. It
// replaces operator new for its whole program, which is why it is one of its own.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "fleetblas/fleetblas.h"
#include "support/host_context.hpp"
#include "support/scale.hpp"

namespace {

std::atomic<bool> armed{false};
std::atomic<long> allocations_left{0};
std::atomic<long> failures{0};
std::atomic<bool> only_one{false};

bool fails_now() {
  if (!armed.load()) return false;
  const long left = allocations_left.fetch_sub(1);
  const bool fails = only_one ? left == 1 : left <= 1;
  if (fails) ++failures;
  return fails;
}

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (fails_now()) return nullptr;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(bytes == 0 ? 1 : bytes);
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void* allocate_or_throw(std::size_t bytes, std::size_t alignment) {
  void* data = allocate(bytes, alignment);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

/// Not inlined: the compiler mistakes pieces of new and free that it sees together.
[[gnu::noinline]] void give_back(void* data) { std::free(data); }

}  // namespace

void* operator new(std::size_t bytes) { return allocate_or_throw(bytes, 1); }
void* operator new[](std::size_t bytes) { return allocate_or_throw(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes, 1); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, 1);
}
void operator delete(void* data) noexcept { give_back(data); }
void operator delete[](void* data) noexcept { give_back(data); }
void operator delete(void* data, std::size_t) noexcept { give_back(data); }
void operator delete[](void* data, std::size_t) noexcept { give_back(data); }
void operator delete(void* data, std::align_val_t) noexcept { give_back(data); }
void operator delete(void* data, std::size_t, std::align_val_t) noexcept { give_back(data); }
void operator delete(void* data, const std::nothrow_t&) noexcept { give_back(data); }
void operator delete[](void* data, const std::nothrow_t&) noexcept { give_back(data); }

namespace fleet {
namespace {

constexpr std::int64_t kEdge = 40;

/// Runs `work` with the n-th allocation failing (and all after it, unless `one`). True if one did.
template <typename Work>
bool with_failure(long n, bool one, Work&& work) {
  failures = 0;
  allocations_left = n;
  only_one = one;
  armed = true;
  work();
  armed = false;
  return failures > 0;
}

struct Product {
  std::vector<double> ones = std::vector<double>(kEdge * kEdge, 1.0);
  std::vector<double> c = std::vector<double>(kEdge * kEdge, 1.0);
  fleet_status status = FLEET_INTERNAL;

  void run(fleet_context* context) {
    status = fleet_dgemm(context, FLEET_NO_TRANS, FLEET_NO_TRANS, kEdge, kEdge, kEdge, 1.0,
                         ones.data(), kEdge, ones.data(), kEdge, 2.0, c.data(), kEdge);
  }
  bool done() const { return c == std::vector<double>(c.size(), kEdge + 2.0); }
  bool untouched() const { return c == std::vector<double>(c.size(), 1.0); }
};

/// Done, or refused for want of memory with C untouched.
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
  /// 1, 2, 3, ... at full scale, and wider steps where there are thousands.
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
  EXPECT_FALSE(failed) << "there is no end of allocations";
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
  EXPECT_FALSE(failed) << "there is no end of allocations";
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
  EXPECT_FALSE(failed) << "there is no end of allocations";
}

TEST_P(NoMemory, ForCallsOnTheCpuDoesNotMatter) {
  bool failed = true;
  for (long n = 1; failed && n < kMost; n = next(n)) {
    Product product;

    failed = with_failure(n, GetParam(), [&] { product.run(nullptr); });

    ASSERT_TRUE(product.status == FLEET_OK && product.done()) << "allocation " << n;
  }
  EXPECT_FALSE(failed) << "there is no end of allocations";
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
  EXPECT_FALSE(failed) << "there is no end of allocations";
}

INSTANTIATE_TEST_SUITE_P(OneOrAll, NoMemory, ::testing::Bool());

}  // namespace
}  // namespace fleet
