// SPDX-License-Identifier: BSD-3-Clause
// test_shared_memory.cpp: devices that share memory with the host use operands there in place where
// that is faster. Random plans that do are run by test_host_random and test_level3_host.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.hpp"
#include "plan/bound.hpp"
#include "sim/simulate.hpp"
#include "support/host_context.hpp"
#include "support/random_plans.hpp"
#include "support/scale.hpp"
#include "support/shipped.hpp"
#include "tune/tune.hpp"

namespace fleet {
namespace {

constexpr double kTera = 1e12;

/// Devices of 50 TFLOPS with links of 450 GB/s, whose memory is the host's too.
Machine superchips(int devices) {
  Machine machine = test::node(devices);
  for (Link& link : machine.links) link.bytes_per_s = 450e9;
  for (Port& port : machine.ports) port.capacity = 500e9;
  for (int d = 0; d < devices; ++d) {
    Device& device = machine.devices[static_cast<std::size_t>(kFirstDevice + d)];
    device.kernels = {{DataType::f64, 1024, 50 * kTera}};
    device.memory_bytes_per_s = 4 * kTera;
    device.shares_host = true;
    device.in_place_share = 1;
  }
  return machine;
}

Machine apart(Machine machine) {
  for (Device& device : machine.devices) device.shares_host = false;
  return machine;
}

Problem gemm(std::int64_t m, std::int64_t n, std::int64_t k, DeviceId home = kHost) {
  return make_problem({.m = m, .n = n, .k = k}, {.homes = {home, home, home}});
}

std::int64_t fetches(const Plan& plan) {
  return std::ranges::count(plan.tasks, TaskKind::fetch, &Task::kind);
}

TEST(SharedMemory, IsUsedInPlaceByProductsThatWaitForTheirFirstCopies) {
  const Machine together = superchips(1);
  for (const Problem& problem : {gemm(1024, 32, 256), gemm(1024, 32, 256, kPageable)}) {
    const Tuned in_place = tune(problem, together, {}), copied = tune(problem, apart(together), {});
    EXPECT_EQ(in_place.plan.tuning.sharing, (std::vector<DeviceId>{kFirstDevice}));
    EXPECT_LT(in_place.cost.seconds, copied.cost.seconds);
    EXPECT_LT(fetches(in_place.plan), fetches(copied.plan));
    EXPECT_EQ(check(in_place.plan), "");
  }
}

TEST(SharedMemory, IsCopiedWhereProductsReadItOften) {
  const Machine together = superchips(1);
  const Tuned large = tune(gemm(8192, 8192, 8192), together, {});
  EXPECT_TRUE(large.plan.tuning.sharing.empty());
  EXPECT_LE(large.cost.seconds, tune(gemm(8192, 8192, 8192), apart(together), {}).cost.seconds);
}

TEST(SharedMemory, IsUsedByVectorsInPlace) {
  const Machine together = superchips(2);
  const Problem gemv = make_problem({.routine = Routine::gemv, .m = 16384, .n = 16384});
  const Tuned in_place = tune(gemv, together, {}), copied = tune(gemv, apart(together), {});
  EXPECT_FALSE(in_place.plan.tuning.sharing.empty());
  EXPECT_LT(in_place.cost.seconds, copied.cost.seconds);
}

TEST(SharedMemory, IsLeftAloneWhereItMayNotBeUsed) {
  const Machine together = superchips(1);
  const Problem small = gemm(1024, 32, 256);
  EXPECT_TRUE(tune(small, apart(together), {}).plan.tuning.sharing.empty());
  EXPECT_TRUE(tune(small, together, {.own_copies = true}).plan.tuning.sharing.empty());
  EXPECT_TRUE(tune(small, together, {.preset = Preset::blasx}).plan.tuning.sharing.empty());
  Problem pageable = gemm(1024, 32, 256, kPageable);
  EXPECT_TRUE(tune(pageable, together, {.shares_pageable = false}).plan.tuning.sharing.empty());
  pageable.operands[kA].home = kHost;  // not B alone: its copies would share the link
  EXPECT_TRUE(tune(pageable, together, {.shares_pageable = false}).plan.tuning.sharing.empty());
  const Problem solve = make_problem({.routine = Routine::trsm, .m = 2048, .n = 2048});
  EXPECT_TRUE(tune(solve, together, {}).plan.tuning.sharing.empty());
}

TEST(SharedMemory, IsRefusedWhereNoDeviceHasIt) {
  const Problem problem = gemm(512, 512, 512);
  Tuning tuning = test::simple(superchips(1), {1, 1}, 256);
  tuning.sharing = {kFirstDevice};
  EXPECT_EQ(check(make_plan(problem, superchips(1), tuning)), "");
  EXPECT_EQ(make_plan(problem, superchips(1), tuning).tasks.size(), 8U);
  EXPECT_THROW(make_plan(problem, apart(superchips(1)), tuning), Error);
  tuning.own_copies = true;
  EXPECT_THROW(make_plan(problem, superchips(1), tuning), Error);
}

TEST(SharedMemory, TakesTheTimeOfItsLinksAndNoLess) {
  // A device reads A once for each block of 256 columns of C.
  const Machine machine = superchips(2);
  const Problem problem = gemm(16384, 512, 8192);
  Tuning tuning = test::simple(machine, {2, 1}, 16384);
  tuning.sharing = tuning.workers;
  const double bytes = 2 * 8.0 * 8192 * 8192;
  EXPECT_GE(simulate(make_plan(problem, machine, tuning), machine).seconds, bytes / 450e9);

  test::Generator random(52);
  int shared = 0;
  for (int trial = 0; trial < test::scaled(150); ++trial) {
    const int devices = static_cast<int>(test::between(random, 1, 3));
    const Machine some = superchips(devices);
    Problem any = test::random_gemm(random, devices, 6000);
    any.type = DataType::f64;
    if (flops(any) == 0) continue;
    const Tuned found = tune(any, some, {.selects = true});
    shared += found.plan.tuning.sharing.empty() ? 0 : 1;
    EXPECT_EQ(check(found.plan), "") << to_text(any);
    EXPECT_GE(found.cost.seconds, bound(any, some).seconds * (1 - 1e-9)) << to_text(any);
  }
  EXPECT_GE(shared, test::scaled(10));
}

TEST(SharedMemory, OfVirtualDevicesGivesTheRightProduct) {
  constexpr std::int64_t kRows = 4000, kCols = 16, kSteps = 48;
  Machine machine = host_machine(1, 2, std::int64_t{1} << 30);
  machine.devices[kFirstDevice].shares_host = true;
  const std::string file = test::temporary_file("shared.json");
  std::ofstream(file) << to_json(machine);
  const test::HostContext context("backend=host;offload=always;online=off;cpu_share=off;machine=" +
                                  file);
  std::array<double*, 3> data{};
  const std::array<std::int64_t, 3> sizes{kRows * kSteps, kSteps * kCols, kRows * kCols};
  for (std::size_t x = 0; x < 3; ++x) {
    void* memory = nullptr;
    const auto bytes = static_cast<std::size_t>(sizes[x]) * sizeof(double);
    ASSERT_EQ(fleet_alloc(context, FLEET_HOST, bytes, &memory), FLEET_OK);
    data[x] = static_cast<double*>(memory);
    for (std::int64_t i = 0; i < sizes[x]; ++i) data[x][i] = static_cast<double>(i % 7);
  }
  std::vector<double> expected(data[2], data[2] + sizes[2]);
  for (std::int64_t j = 0; j < kCols; ++j)
    for (std::int64_t l = 0; l < kSteps; ++l)
      for (std::int64_t i = 0; i < kRows; ++i)
        expected[static_cast<std::size_t>(i + j * kRows)] +=
            data[0][i + l * kRows] * data[1][l + j * kSteps];

  ASSERT_EQ(fleet_dgemm(context, FLEET_NO_TRANS, FLEET_NO_TRANS, kRows, kCols, kSteps, 1, data[0],
                        kRows, data[1], kSteps, 1, data[2], kRows),
            FLEET_OK);

  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), data[2]));
  const char* pinned = "dgemm m=4000 n=16 k=48 a@h b@h c@h";
  EXPECT_NE(context.text(fleet_plan_json, pinned).find(R"("in_place":["a")"), std::string::npos);
  for (double* memory : data) EXPECT_EQ(fleet_free(context, memory), FLEET_OK);
}

}  // namespace
}  // namespace fleet
