// SPDX-License-Identifier: BSD-3-Clause
// test_probe_cost.cpp: the first product on many virtual devices, which are measured for it, takes
// seconds: what is measured must not grow with pairs of devices. Alone, so that times mean
// something.
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "support/host_context.hpp"

namespace fleet::test {
namespace {

/// Three to thirteen on two cores, the latter with seven other processes on each; ten minutes when
/// each pair was loaded.
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
