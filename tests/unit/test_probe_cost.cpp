// SPDX-License-Identifier: BSD-3-Clause
// test_probe_cost.cpp: the first product on many virtual devices, which includes the probe, takes
// seconds: the number of measurements must not grow with the number of pairs. It runs alone,
// because it measures time.
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "support/host_context.hpp"

namespace fleet::test {
namespace {

/// Limit in seconds. The test takes 3 s on two cores, and 13 s with seven other processes on each;
/// it took ten minutes when every pair was measured.
constexpr double kMostS = 60;

TEST(FirstProduct, OnVirtualDevicesTakesSecondsHoweverManyThereAre) {
  constexpr std::int64_t n = 600;
  const std::vector<double> a(n * n, 2.0), b(n * n, 0.5);
  std::vector<double> c(n * n, 7.0);
  const auto start = std::chrono::steady_clock::now();

  {
    const HostContext context("backend=host;devices=99;offload=always;cache_dir=");
    ASSERT_EQ(fleet_dgemm(context, FLEET_NO_TRANS, FLEET_NO_TRANS, n, n, n, 1, a.data(), n,
                          b.data(), n, 0, c.data(), n),
              FLEET_OK)
        << fleet_message();
  }

  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  EXPECT_LT(taken.count(), kMostS);
  EXPECT_EQ(c, std::vector<double>(n * n, n));
}

}  // namespace
}  // namespace fleet::test
