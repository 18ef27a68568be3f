// SPDX-License-Identifier: BSD-3-Clause
// test_detours.cpp: tiles that travel over other workers (paper 2, 3.2). That such plans are right
// is shown with all others, in test_plan and test_host_random.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "plan/detours.hpp"
#include "plan/plan.hpp"
#include "sim/simulate.hpp"
#include "support/random_plans.hpp"
#include "support/shipped.hpp"
#include "tune/tune.hpp"

namespace fleet {
namespace {

using test::shipped;
using test::square;

constexpr DeviceId k0 = kFirstDevice, k1 = kFirstDevice + 1, k2 = kFirstDevice + 2;

Tuning all_workers(const Machine& machine, int max_hops) {
  Tuning tuning{.workers = test::all_of(machine)};
  tuning.grid = {1, static_cast<int>(tuning.workers.size())};
  tuning.tile = 512;
  for (const Device& d : machine.devices) tuning.memory_cap.push_back(d.memory_bytes);
  tuning.max_hops = max_hops;
  return tuning;
}

bool is_between(const Link& link, DeviceId a, DeviceId b) {
  return (link.source == a && link.target == b) || (link.source == b && link.target == a);
}

/// 0 and 2 are joined by a slow link, both to 1 by fast ones.
Machine bridge() {
  Machine machine = test::node(3);
  for (Link& link : machine.links)
    if (is_between(link, k0, k2)) link.bytes_per_s /= 20;
  return machine;
}

TEST(Detours, LeadOverWorkersWhoseLinksAreFaster) {
  const Machine machine = bridge();
  const LinkTable links(machine);
  const Detours detours(machine, links, all_workers(machine, 1));
  ASSERT_EQ(detours.between(k0, k2).size(), 1U);
  const Detour& way = detours.between(k0, k2).front();
  EXPECT_EQ(way.count, 2);
  EXPECT_EQ(way.links[0], links.at(k0, k1));
  EXPECT_EQ(way.links[1], links.at(k1, k2));
  EXPECT_TRUE(detours.between(k0, k1).empty());
  EXPECT_TRUE(detours.between(kHost, k2).empty());
  EXPECT_TRUE(Detours(machine, links, all_workers(machine, 0)).empty());

  Tuning without_1 = all_workers(machine, 2);
  without_1.workers = {k0, k2};
  EXPECT_TRUE(Detours(machine, links, without_1).empty());
}

TEST(Detours, ReplaceTheWayOverTheHostWhereThereIsNoLink) {
  Machine machine = bridge();
  std::erase_if(machine.links, [](const Link& link) { return is_between(link, k0, k2); });
  const LinkTable links(machine);
  EXPECT_EQ(Detours(machine, links, all_workers(machine, 1)).between(k0, k2).size(), 1U);
}

TEST(Detours, OfTwoWorkersAreLongerChains) {
  Machine machine = test::node(4);
  const auto fast = [](DeviceId a, DeviceId b) { return b == a + 1 || a == b + 1; };
  for (Link& link : machine.links)
    if (!on_host(link.source) && !on_host(link.target) && !fast(link.source, link.target))
      link.bytes_per_s /= 20;
  const LinkTable links(machine);
  const DeviceId last = kFirstDevice + 3;
  EXPECT_TRUE(Detours(machine, links, all_workers(machine, 1)).between(k0, last).empty());
  const Detours two(machine, links, all_workers(machine, 2));
  ASSERT_EQ(two.between(k0, last).size(), 1U);
  EXPECT_EQ(two.between(k0, last).front().count, 3);
}

TEST(Detours, AreNoneWhereAllLinksAreAlike) {
  for (const char* name : {"h200x4", "h200x8"}) {
    const Machine machine = shipped(name);
    EXPECT_TRUE(Detours(machine, LinkTable(machine), all_workers(machine, 2)).empty()) << name;
  }
  const Machine mesh = shipped("clx-ai");
  EXPECT_FALSE(Detours(mesh, LinkTable(mesh), all_workers(mesh, 1)).empty());
}

TEST(Detours, MakePlansFasterAndLeaveSlowLinksAlone) {
  const Machine machine = bridge();
  const Problem problem = square(4096, k0);
  const Plan direct = make_plan(problem, machine, all_workers(machine, 0));
  const Plan passing = make_plan(problem, machine, all_workers(machine, 1));
  EXPECT_EQ(check(passing), "");
  EXPECT_LT(simulate(passing, machine).seconds, 0.8 * simulate(direct, machine).seconds);
  const auto slow = static_cast<std::size_t>(machine.find_link(k2, k0));
  const auto bytes = [&](const Plan& plan) {
    return bytes_by_link(plan, machine.links.size())[slow];
  };
  EXPECT_LT(bytes(passing), bytes(direct) / 2);
}

TEST(Detours, LeaveATileWithAWorkerThatNeedsIt) {
  const Machine machine = bridge();
  Tuning tuning = all_workers(machine, 1);
  tuning.rules = Rules::all().without(Rule::batching);  // each asks for itself
  const Plan plan = make_plan(square(2048, k0), machine, tuning);
  EXPECT_EQ(check(plan), "");
  std::map<TileId, int> into_1;
  for (const Task& task : plan.tasks)
    if (task.kind == TaskKind::fetch && task.tile.matrix == kA && task.to.device == k1)
      ++into_1[task.tile];
  ASSERT_FALSE(into_1.empty());
  int once = 0;
  for (const auto& [tile, times] : into_1) once += times == 1 ? 1 : 0;
  EXPECT_GT(once, 3 * std::ssize(into_1) / 4);
}

TEST(Detours, AreWorthItOnAMeshOfUnevenLinks) {
  const Machine machine = shipped("clx-ai");
  const Problem problem = square(8192, k0);
  const double direct_s = tune(problem, machine, {.max_hops = 0}).cost.seconds;
  const Tuned passing = tune(problem, machine, {.max_hops = 1});
  EXPECT_EQ(check(passing.plan), "");
  EXPECT_LT(passing.cost.seconds, 0.95 * direct_s);
}

}  // namespace
}  // namespace fleet
