// SPDX-License-Identifier: BSD-3-Clause
// test_host_kernels.cpp: rates of the host's products where other load disturbed them.
#include <gtest/gtest.h>

#include "probe/host_kernels.hpp"

namespace fleet {
namespace {

constexpr double kGiga = 1e9;

TEST(HostKernels, WhatOtherLoadSlowedDownIsNoRateOfLargerProducts) {
  std::vector<KernelRate> rates{{DataType::f64, 16, 50 * kGiga},   {DataType::f64, 32, 95 * kGiga},
                                {DataType::f64, 64, 94 * kGiga},   {DataType::f64, 128, 20 * kGiga},
                                {DataType::f64, 256, 0.4 * kGiga}, {DataType::f32, 16, 9 * kGiga},
                                {DataType::f32, 32, 4 * kGiga}};
  std::vector<KernelRate> kept(rates.begin(), rates.begin() + 3);
  kept.push_back(rates[5]);
  drop_slow_end(rates);
  EXPECT_EQ(rates, kept);
}

TEST(HostKernels, ADipBetweenFastRatesStays) {
  std::vector<KernelRate> rates{{DataType::f64, 32, 40 * kGiga},
                                {DataType::f64, 64, 15 * kGiga},
                                {DataType::f64, 128, 200 * kGiga},
                                {DataType::f64, 256, 110 * kGiga},
                                {DataType::f32, 16, kGiga}};
  const std::vector<KernelRate> before = rates;
  drop_slow_end(rates);
  EXPECT_EQ(rates, before);
}

TEST(HostKernels, OfTwoMeasurementsTheFasterRatesAndAllEdgesStay) {
  std::vector<KernelRate> rates{{DataType::f64, 16, 50 * kGiga}, {DataType::f64, 32, 60 * kGiga}};
  take_faster(rates, {{DataType::f32, 16, 80 * kGiga},
                      {DataType::f64, 16, 40 * kGiga},
                      {DataType::f64, 32, 90 * kGiga},
                      {DataType::f64, 64, 94 * kGiga}});
  ASSERT_EQ(rates.size(), 4u);
  const auto rate_of = [&](DataType type, std::int64_t edge) {
    for (const KernelRate& rate : rates)
      if (rate.type == type && rate.edge == edge) return rate.flops_per_s;
    return 0.0;
  };
  EXPECT_EQ(rate_of(DataType::f32, 16), 80 * kGiga);
  EXPECT_EQ(rate_of(DataType::f64, 16), 50 * kGiga);
  EXPECT_EQ(rate_of(DataType::f64, 32), 90 * kGiga);
  EXPECT_EQ(rate_of(DataType::f64, 64), 94 * kGiga);
}

}  // namespace
}  // namespace fleet
