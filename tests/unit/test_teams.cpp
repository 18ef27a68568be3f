// SPDX-License-Identifier: BSD-3-Clause
// test_teams.cpp: which sets of workers are considered, and that a call leaves out devices that
// make it slower, and no others.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.hpp"
#include "sim/simulate.hpp"
#include "support/random_plans.hpp"
#include "support/scale.hpp"
#include "support/shipped.hpp"
#include "tune/limits.hpp"
#include "tune/teams.hpp"
#include "tune/tune.hpp"

namespace fleet {
namespace {

using test::all_of;
using test::between;
using test::node;
using test::shipped;
using test::square;
using Random = test::Generator;

Tuned tuned(const Problem& problem, const Machine& machine, bool selects) {
  TuneRequest request;
  request.selects = selects;
  return tune(problem, machine, request);
}

/// Of two workers.
const std::vector<double>& shares_of(const Tuning& tuning) {
  return tuning.grid.rows > 1 ? tuning.row_shares : tuning.col_shares;
}

TEST(Teams, BeginWithAllWorkersAndHaveEachSetOnce) {
  for (const char* name : {"h200x8", "dgx1", "clx-ai", "karolina"}) {
    const Machine machine = shipped(name);
    const Team all = all_of(machine);
    for (const std::int64_t n : {512, 4096, 16384})
      for (const DeviceId home : {kHost, kFirstDevice}) {
        const std::vector<Team> list = teams(square(n, home), machine, all, Goal{});
        ASSERT_FALSE(list.empty());
        EXPECT_EQ(list.front(), all);
        for (std::size_t size = 1; size < all.size(); ++size)
          EXPECT_LE(std::ranges::count(list, size, &Team::size), limits::kMostOfSize);
        EXPECT_EQ(std::set(list.begin(), list.end()).size(), list.size());
        for (const Team& team : list) {
          EXPECT_FALSE(team.empty());
          EXPECT_TRUE(std::ranges::includes(all, team));
        }
      }
  }
}

TEST(Teams, HaveOneOfEachSizeWhereDevicesAreEqual) {
  const Machine machine = node(4);
  std::map<std::size_t, int> of_size;
  for (const Team& team : all_sets(square(256, kHost), machine, all_of(machine)))
    ++of_size[team.size()];
  EXPECT_EQ(of_size, (std::map<std::size_t, int>{{1, 1}, {2, 1}, {3, 1}, {4, 1}}));
}

TEST(Teams, TellTheHomeOfAnOperandFromTheOthers) {
  const Machine machine = node(4);
  const DeviceId home = kFirstDevice + 2;
  const std::vector<Team> list = teams(square(256, home), machine, all_of(machine), Goal{});

  ASSERT_GT(list.size(), 1U);
  EXPECT_EQ(list[1], Team{home});
}

TEST(Teams, OfManyWorkersGrowByTheNearest) {
  Machine machine = node(12);
  const DeviceId home = kFirstDevice + 7;
  const std::vector<Team> list = teams(square(256, home), machine, all_of(machine), Goal{});

  ASSERT_GT(list.size(), 1U);
  for (const Team& team : list) EXPECT_EQ(std::ranges::count(team, home), 1);
}

TEST(Selection, LeavesOutADeviceThatOnlyDelays) {
  Machine machine = node(3);
  for (KernelRate& rate : machine.devices[kFirstDevice + 1].kernels) rate.flops_per_s /= 100;
  const Problem problem = square(4096, kHost);

  const Tuned all = tuned(problem, machine, false), some = tuned(problem, machine, true);

  EXPECT_EQ(all.plan.tuning.workers, all_of(machine));
  EXPECT_EQ(some.plan.tuning.workers, (Team{kFirstDevice, kFirstDevice + 2}));
  EXPECT_LT(some.cost.seconds, 0.9 * all.cost.seconds);
  EXPECT_TRUE(all.search.left_out().empty());
  const std::vector<LeftOut> left = some.search.left_out();
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].device, kFirstDevice + 1);
  EXPECT_EQ(left[0].why.find("the best with it, on 3 devices, is slower by "), 0U) << left[0].why;
}

TEST(Selection, UsesAllWhereArithmeticCounts) {
  for (const char* name : test::few({"h200x4", "h200x8", "dgx1", "karolina"})) {
    const Machine machine = shipped(name);
    const Tuned some = tuned(square(32768, kFirstDevice), machine, true);
    EXPECT_EQ(some.plan.tuning.workers, all_of(machine)) << name;
  }
}

TEST(Selection, IsNotSlowerThanAllDevices) {
  Random random(11);
  double worst = 0;
  for (int trial = 0; trial < test::scaled(150); ++trial) {
    const int devices = static_cast<int>(between(random, 2, 8));
    const Machine machine =
        between(random, 0, 1) != 0 ? node(devices) : test::uneven_node(random, devices);
    const Problem problem = test::random_gemm(random, devices, 2000);
    try {
      const double all_s = tuned(problem, machine, false).cost.seconds;
      worst = std::max(worst, tuned(problem, machine, true).cost.seconds / all_s);
    } catch (const Error& error) {
      ASSERT_EQ(error.status(), Status::unreachable) << to_text(problem);
    }
  }
  EXPECT_LE(worst, limits::kNear);
}

TEST(UnevenWorkers, GetPartsByTheirSpeeds) {
  Machine machine = node(2);
  for (KernelRate& rate : machine.devices[kFirstDevice + 1].kernels) rate.flops_per_s /= 2;
  const Problem problem = square(16384, kHost);
  TuneRequest equal;
  equal.rules = equal.rules.without(Rule::grid);

  const Tuned even = tune(problem, machine, equal), uneven = tuned(problem, machine, false);

  const std::vector<double>& shares = shares_of(uneven.plan.tuning);
  ASSERT_EQ(shares.size(), 2U);
  EXPECT_NEAR(shares[0] / shares[1], 2, 0.3);
  EXPECT_LT(uneven.cost.seconds, 0.85 * even.cost.seconds);
}

// Equal devices, of which one fetches its tiles over a slow link (paper 2, 3.1; paper 4).
TEST(UnevenLinks, GetPartsWhoseProductsEndTogether) {
  Machine machine = node(2);
  const LinkId slow = machine.find_link(kHost, kFirstDevice + 1);
  machine.links[static_cast<std::size_t>(slow)].bytes_per_s /= 8;
  std::erase_if(machine.links, [](const Link& link) {
    return link.source >= kFirstDevice && link.target >= kFirstDevice;
  });
  const Problem problem = square(4096, kHost);
  TuneRequest equal;
  equal.rules = equal.rules.without(Rule::grid);

  const Tuned even = tune(problem, machine, equal), uneven = tuned(problem, machine, false);

  const std::vector<double>& shares = shares_of(uneven.plan.tuning);
  ASSERT_EQ(shares.size(), 2U);
  EXPECT_GT(shares[0], 1.5 * shares[1]);
  EXPECT_LT(uneven.cost.seconds, 0.8 * even.cost.seconds);
}

TEST(UnevenLinks, GetTilesOfTwoSizesWhereThatIsFaster) {
  const Machine machine = shipped("dgx1");
  const Problem problem = square(4096, kFirstDevice);

  const Tuned two = tuned(problem, machine, false);

  Tuning one = two.plan.tuning;
  ASSERT_FALSE(one.row_tiles.empty() && one.col_tiles.empty());
  one.row_tiles.clear();
  one.col_tiles.clear();
  EXPECT_LT(two.cost.seconds, simulate(make_plan(problem, machine, one), machine).seconds);
}

TEST(Selection, IsAboutAsFastAsAnySetByHand) {
  for (const char* name : test::few({"clx-ai", "h200x8", "dgx1"})) {
    const Machine machine = shipped(name);
    for (const std::int64_t n : test::few({256, 512, 1024}))
      for (const DeviceId home : {kHost, kFirstDevice}) {
        const Problem problem = square(n, home);
        const double chosen_s = tuned(problem, machine, true).cost.seconds;
        for (const Team& by_hand : {Team{2}, Team{2, 3}, Team{2, 4, 6, 8}, Team{2, 3, 4, 5}})
          EXPECT_LE(chosen_s, 1.1 * tune(problem, machine, {.workers = by_hand}).cost.seconds)
              << name << " " << n << " on " << by_hand.size();
      }
  }
}

TEST(Selection, TakesTheGridThatItIsGiven) {
  const Machine machine = node(4);
  TuneRequest request;
  request.selects = true;
  request.grid = {4, 1};
  EXPECT_EQ(tune(square(128, kHost), machine, request).plan.tuning.grid, (Grid{4, 1}));
}

TEST(UnevenWorkers, GetPartsOfSmallProductsToo) {
  Machine machine = node(2);
  for (KernelRate& rate : machine.devices[kFirstDevice + 1].kernels) rate.flops_per_s *= 0.9;
  for (const std::int64_t n : {64, 250, 500, 1000})
    for (const DeviceId home : {kHost, kPageable, kFirstDevice})
      EXPECT_NO_THROW(tuned(square(n, home), machine, true)) << n;
}

}  // namespace
}  // namespace fleet
