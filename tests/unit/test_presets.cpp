// SPDX-License-Identifier: BSD-3-Clause
// test_presets.cpp: the policies of other libraries. That plans with their owners, routes and
// stealing are right is shown with all others, in test_plan and test_host_random.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "program/owners.hpp"
#include "sim/simulate.hpp"
#include "support/random_plans.hpp"
#include "support/scale.hpp"
#include "support/shipped.hpp"
#include "tune/paralia.hpp"
#include "tune/preset.hpp"

namespace fleet {
namespace {

using test::node;
using test::square;

Tuning dealt(Owners owners, Grid grid, std::vector<double> shares = {}) {
  Tuning tuning{.grid = grid, .owners = owners, .worker_shares = std::move(shares)};
  for (int w = 0; w < grid.rows * grid.cols; ++w) tuning.workers.push_back(kFirstDevice + w);
  return tuning;
}

TEST(Owners, DealTilesAsPaper2Does) {
  using Map = std::vector<int>;
  EXPECT_EQ(owner_map(dealt(Owners::sequential, {2, 1}), 2, 3), (Map{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(owner_map(dealt(Owners::round_robin, {2, 1}), 2, 3), (Map{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(owner_map(dealt(Owners::cyclic_1d, {2, 1}), 2, 3), (Map{0, 1, 0, 0, 1, 0}));
  EXPECT_EQ(owner_map(dealt(Owners::cyclic_2d, {2, 2}), 3, 3), (Map{0, 1, 0, 2, 3, 2, 0, 1, 0}));
}

TEST(Owners, KeepTheSharesOfWorkers) {
  // 9 tiles at 1:2 are 3 and 6.
  for (const Owners owners : {Owners::sequential, Owners::round_robin, Owners::cyclic_1d}) {
    const std::vector<int> map = owner_map(dealt(owners, {2, 1}, {1, 2}), 3, 3);
    EXPECT_EQ(std::ranges::count(map, 0), 3);
    EXPECT_EQ(std::ranges::count(map, 1), 6);
  }
  const std::vector<int> runs = owner_map(dealt(Owners::sequential, {2, 1}, {1, 2}), 3, 3);
  EXPECT_TRUE(std::ranges::is_sorted(runs));
  EXPECT_THROW(owner_map(dealt(Owners::round_robin, {2, 1}, {1}), 3, 3), Error);
  EXPECT_THROW(owner_map(dealt(Owners::round_robin, {2, 1}, {1, 0}), 3, 3), Error);
}

TEST(Owners, OfSingleTilesAreForOneProduct) {
  Tuning tuning = dealt(Owners::round_robin, {2, 1});
  tuning.tile = 64;
  EXPECT_EQ(decompose(square(256, kHost), tuning).deal.tile_owner.size(), 16U);
  const Problem batch = make_problem({.m = 64, .n = 64, .k = 64, .batch = 2}, {});
  EXPECT_THROW(decompose(batch, tuning), Error);
  Tuning blocks = dealt(Owners::blocks, {2, 1}, {1, 2});
  blocks.tile = 64;
  EXPECT_THROW(decompose(square(256, kHost), blocks), Error);
  // Rows and columns of the grid tell all of a 2D-cyclic distribution.
  tuning.owners = Owners::cyclic_2d;
  const Decomposition made = decompose(square(256, kHost), tuning);
  EXPECT_TRUE(made.deal.tile_owner.empty());
  EXPECT_EQ(made.deal.row_owner, (std::vector<int>{0, 1, 0, 1}));
}

std::int64_t bytes_between(const Plan& plan, const Machine& machine, bool with_host) {
  const std::vector<std::int64_t> bytes = bytes_by_link(plan, machine.links.size());
  std::int64_t sum = 0;
  for (std::size_t l = 0; l < bytes.size(); ++l)
    if ((on_host(machine.links[l].source) || on_host(machine.links[l].target)) == with_host)
      sum += bytes[l];
  return sum;
}

TEST(Routing, PrefersAnyDeviceToTheHostWherePaper5Does) {
  // Links between devices are slower than those to the host.
  const Machine machine = node(4, 50e9, 10e9);
  Tuning tuning = test::simple(machine, {2, 2}, 1024);
  tuning.rules = parse_rules("caching,overlap,bandwidth,forwarding");
  const Problem problem = square(4096, kHost);
  const Plan by_rate = make_plan(problem, machine, tuning);
  tuning.routing = Routing::devices_first;
  const Plan by_class = make_plan(problem, machine, tuning);
  EXPECT_EQ(bytes_between(by_rate, machine, false), 0);
  // Each tile of A and B comes once from the host, C goes there and back.
  EXPECT_EQ(bytes_between(by_class, machine, true), 4 * 8 * 4096LL * 4096);
  EXPECT_EQ(check(by_class), "");
}

TEST(Routing, OverTheHostUsesNoLinkBetweenDevices) {
  const Machine machine = node(3);
  Tuning tuning = test::simple(machine, {3, 1}, 512);
  tuning.routing = Routing::over_host;
  const Plan plan = make_plan(square(2048, kFirstDevice), machine, tuning);
  EXPECT_EQ(bytes_between(plan, machine, false), 0);
  EXPECT_GT(bytes_between(plan, machine, true), 0);
  EXPECT_EQ(check(plan), "");
}

TEST(Routing, OfPaper1AlwaysTakesEightPieces) {
  const Machine machine = node(4);
  Tuning tuning = test::simple(machine, {1, 4}, 256);
  tuning.routing = Routing::pairs;
  const Plan plan = make_plan(square(1024, kHost), machine, tuning);
  std::set<int> chunks;
  for (const Task& task : plan.tasks)
    if (task.upstream != kNoTask) chunks.insert(task.chunks);
  EXPECT_EQ(chunks, std::set<int>{8});
}

TEST(Stealing, TakesTilesFromADeviceThatIsSlow) {
  Machine machine = node(2);
  for (KernelRate& rate : machine.devices[kFirstDevice].kernels) rate.flops_per_s /= 4;
  for (Device& device : machine.devices) device.lanes = 1;
  Tuning tuning = test::simple(machine, {1, 2}, 512);
  tuning.owners = Owners::cyclic_2d;
  const Problem problem = square(4096, kHost);
  const Plan fixed = make_plan(problem, machine, tuning);
  tuning.steals = true;
  const Plan stolen = make_plan(problem, machine, tuning);
  EXPECT_EQ(check(stolen), "");
  const auto products = [](const Plan& plan, DeviceId device) {
    return std::ranges::count_if(plan.tasks, [&](const Task& task) {
      return task.kind == TaskKind::compute && task.kernel == Kernel::multiply &&
             task.device() == device;
    });
  };
  EXPECT_EQ(products(fixed, kFirstDevice), products(fixed, kFirstDevice + 1));
  // A quarter of the speed: a fifth of the tiles, give or take those in progress.
  EXPECT_LT(products(stolen, kFirstDevice), products(stolen, kFirstDevice + 1) / 2);
  EXPECT_LT(simulate(stolen, machine).seconds, 0.7 * simulate(fixed, machine).seconds);
}

TEST(Presets, HaveNamesThatAreRead) {
  EXPECT_EQ(parse_preset(""), Preset::none);
  for (const PresetPolicy& policy : preset_policies())
    EXPECT_EQ(parse_preset(policy.name), policy.preset);
  EXPECT_THROW(parse_preset("magma"), Error);
}

TEST(Presets, PlanEveryProblemRightly) {
  test::Generator random(31);
  for (int trial = 0; trial < test::scaled(300); ++trial) {
    const int devices = static_cast<int>(test::between(random, 1, 8));
    const Machine machine =
        test::chance(random, 70) ? node(devices) : test::uneven_node(random, devices);
    const Problem problem = test::chance(random, 60) ? test::random_gemm(random, devices, 300)
                                                     : test::random_level3(random, devices, 300);
    TuneRequest request;
    request.preset = static_cast<Preset>(test::between(random, 1, 5));
    request.selects = test::chance(random, 50);
    request.tile = test::between(random, 40, 200);
    try {
      const Tuned tuned = tune(problem, machine, request);
      ASSERT_EQ(check(tuned.plan), "") << to_text(problem) << " " << to_string(request.preset);
    } catch (const Error& e) {
      ASSERT_EQ(e.status(), Status::unreachable) << to_text(problem) << ": " << e.what();
    }
  }
}

TEST(Presets, OfUncutTakeTheTilesOfItsAuthors) {
  // Every tile that divides the edges and is at least 2048 costs overlap only.
  for (const std::int64_t edge : {20480, 24576, 28672, 32768})
    EXPECT_EQ(tile_of_authors(square(edge, kHost), {4, 2}), 2048);
  // 5120: 1280 divides it, 8 / 4^3 for overlap, 0.2 * 2048 / 1280 for latency.
  EXPECT_EQ(tile_of_authors(square(5120, kHost), {4, 2}), 1280);
  EXPECT_NEAR(tile_cost_of_authors(square(5120, kHost), 8, 1280), 0.125 + 0.32, 1e-12);
  EXPECT_NEAR(tile_cost_of_authors(square(5120, kHost), 8, 2048), 1.5 + 8 * 0.064, 1e-12);
}

TEST(Presets, OfParaliaPredictByEquation5) {
  Machine machine = node(2, 10e9, 40e9);
  const Team both = test::all_of(machine);
  const Problem problem = square(2048, kHost);
  const double matrix_bytes = 8.0 * 2048 * 2048;
  const Selection equal = predict_as_paralia(problem, machine, both, Shares::equal);
  // Half of A, B and C from the host (10 GB/s, latency 10 us), and a grid of 2 x 1: (1 + 0) / 2 of
  // half of A and B from the other device at 40 GB/s.
  const double reads_s = 3 * (1e-5 + matrix_bytes / 2 / 10e9);
  const double extra_s = matrix_bytes / 2 / 40e9;
  EXPECT_NEAR(equal.seconds, reads_s + extra_s, 1e-9);
  EXPECT_EQ(equal.shares, (std::vector<double>{0.5, 0.5}));

  // Alone, and with all at home, only the product is left.
  const Problem at_home = square(2048, kFirstDevice);
  const Selection alone = predict_as_paralia(at_home, machine, {kFirstDevice}, Shares::equal);
  EXPECT_DOUBLE_EQ(alone.seconds,
                   machine.multiply_s(kFirstDevice, DataType::f64, 2048, 2048, 2048));
}

TEST(Presets, OfParaliaAdjustSharesUntilTimesAgree) {
  Machine machine = node(2, 1000e9, 1000e9);
  for (KernelRate& rate : machine.devices[kFirstDevice].kernels) rate.flops_per_s /= 2;
  const Selection made =
      predict_as_paralia(square(16384, kHost), machine, test::all_of(machine), Shares::adjusted);
  ASSERT_EQ(made.shares.size(), 2U);
  EXPECT_NEAR(made.shares[0], 1.0 / 3, 0.01);
  TuneRequest request{.selects = true, .preset = Preset::paralia};
  const Tuned tuned = tune(square(16384, kHost), machine, request);
  EXPECT_NEAR(tuned.search.list[tuned.search.chosen].estimate_s, made.seconds, 1e-12);
}

}  // namespace
}  // namespace fleet
