// SPDX-License-Identifier: BSD-3-Clause
// test_plan.cpp: plans are right, whatever the problem, machine and rules; and check() finds wrong
// ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "plan/plan.hpp"
#include "support/random_plans.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using test::between;
using test::node;
using test::simple;
using Random = test::Generator;

Problem square(std::int64_t n, DeviceId home, bool beta_is_zero = false) {
  return make_problem({.m = n, .n = n, .k = n},
                      {.homes = {home, home, home}, .beta_is_zero = beta_is_zero});
}

std::int64_t count(const Plan& plan, TaskKind kind) {
  return std::count_if(plan.tasks.begin(), plan.tasks.end(),
                       [&](const Task& t) { return t.kind == kind; });
}

TEST(MakePlan, PassesItsCheckForRandomProblemsMachinesAndRules) {
  EXPECT_EQ(test::fault_of_random_plans(
                20260101, test::scaled(6000),
                [](auto& random, int devices) { return test::random_gemm(random, devices, 60); }),
            "");
}

TEST(MakePlan, GivesTheSamePlanForTheSameInputs) {
  Random random(7);
  for (int trial = 0; trial < test::scaled(200); ++trial) {
    const Machine machine = test::uneven_node(random, 4);
    const Problem problem = test::random_gemm(random, 4, 60);
    Tuning tuning = test::random_tuning(random, machine, problem, 24);
    EXPECT_EQ(test::plan_if_any(problem, machine, tuning),
              test::plan_if_any(problem, machine, tuning));
  }
}

TEST(MakePlan, MovesEachTileToEachUserOnce) {
  const Machine machine = node(4);
  const Problem problem = square(4096, kHost);

  const Plan plan = make_plan(problem, machine, simple(machine, {2, 2}, 1024));

  // 4 x 4 tiles; A and B go to the two workers of a grid row or column, C there and back.
  EXPECT_EQ(count(plan, TaskKind::fetch), 16 * 2 + 16 * 2 + 16);
  EXPECT_EQ(count(plan, TaskKind::writeback), 16);
  EXPECT_EQ(count(plan, TaskKind::compute), 64 + 16);  // lazy C: one addition per tile
}

TEST(MakePlan, NeverFetchesCWhenBetaIsZero) {
  const Machine machine = node(4);

  const Plan plan = make_plan(square(4096, kHost, true), machine, simple(machine, {2, 2}, 1024));

  EXPECT_EQ(count(plan, TaskKind::fetch), 16 * 2 + 16 * 2);
  EXPECT_EQ(count(plan, TaskKind::compute), 64);
}

TEST(MakePlan, LeavesTheOwnersDataInPlace) {
  const Machine machine = node(2);

  const Plan plan = make_plan(square(2048, kFirstDevice), machine, simple(machine, {2, 1}, 1024));

  for (const Task& task : plan.tasks)
    EXPECT_FALSE(task.kind == TaskKind::fetch && task.to.device == kFirstDevice);
  EXPECT_EQ(count(plan, TaskKind::writeback), 2);  // the other worker's half of C
}

/// The number of lanes of the first device that compute.
std::size_t lanes_in_use(const Machine& machine, std::int64_t tile) {
  const Plan plan = make_plan(square(16384, kHost), machine, simple(machine, {2, 1}, tile));
  std::set<QueueId> lanes;
  for (const Task& task : plan.tasks)
    if (task.kind == TaskKind::compute && task.device() == kFirstDevice) lanes.insert(task.queue);
  return lanes.size();
}

TEST(MakePlan, UsesNoMoreLanesThanFillADevice) {
  Machine machine = node(2);
  machine.devices[kFirstDevice].lanes = 8;
  EXPECT_EQ(lanes_in_use(machine, 512), 8U);
  EXPECT_EQ(lanes_in_use(machine, 2048), 2U);
  EXPECT_EQ(lanes_in_use(machine, 4096), 1U);
  machine.devices[kFirstDevice].lanes = 3;
  EXPECT_EQ(lanes_in_use(machine, 512), 3U);
}

TEST(MakePlan, CutsLargeTilesWhereBlocksOfThreadsEnd) {
  const Machine machine = node(2);
  const Plan plan = make_plan(square(16300, kHost), machine, simple(machine, {2, 1}, 2800));
  for (const Cuts* cuts : {&plan.cuts().m, &plan.cuts().n, &plan.cuts().k})
    for (std::size_t cut = 0; cut + 1 < cuts->size(); ++cut) EXPECT_EQ((*cuts)[cut] % 128, 0);
}

/// Elements of C that each worker computes.
std::vector<std::int64_t> elements_by_worker(const Plan& plan) {
  std::vector<std::int64_t> elements(plan.tuning.workers.size(), 0);
  for (const Task& task : plan.tasks)
    if (task.kind == TaskKind::compute && task.kernel == Kernel::multiply &&
        plan.program->op(task.op).inputs[1].tile.row == 0)
      elements[static_cast<std::size_t>(task.device() - kFirstDevice)] +=
          plan.program->rows_of(task.tile) * plan.program->cols_of(task.tile);
  return elements;
}

TEST(MakePlan, HalvesTheFirstStepOfKAsOftenAsItIsTold) {
  const Machine machine = node(2);
  const Problem problem = make_problem({.m = 4096, .n = 4096, .k = 8192});
  Tuning tuning = simple(machine, {2, 1}, 4096);
  tuning.ramp = 3;
  EXPECT_EQ(make_plan(problem, machine, tuning).cuts().k, (Cuts{0, 512, 1024, 2048, 4096, 8192}));
  tuning.ramp = 40;  // down to eight
  const Plan most = make_plan(problem, machine, tuning);
  EXPECT_EQ(most.cuts().k[1], 8);
  EXPECT_EQ(check(most), "");
}

TEST(MakePlan, GivesEachWorkerItsShareOfC) {
  const Machine machine = node(4);
  Tuning tuning = simple(machine, {2, 2}, 25);
  tuning.row_shares = {3, 1};
  tuning.col_shares = {0.4, 0.6};

  const Plan plan = make_plan(square(100, kFirstDevice), machine, tuning);

  EXPECT_EQ(check(plan), "");
  EXPECT_EQ(elements_by_worker(plan), (std::vector<std::int64_t>{3000, 4500, 1000, 1500}));
}

TEST(MakePlan, LeavesAWorkerOutWhoseShareRoundsToNothing) {
  const Machine machine = node(4);
  Tuning tuning = simple(machine, {1, 4}, 50);
  tuning.col_shares = {1, 1e-6, 1, 2};

  const Plan plan = make_plan(square(100, kHost), machine, tuning);

  EXPECT_EQ(check(plan), "");
  EXPECT_EQ(elements_by_worker(plan), (std::vector<std::int64_t>{2500, 0, 2500, 5000}));
}

TEST(MakePlan, CutsTheBlocksOfEachLineByItsOwnEdge) {
  const Machine machine = node(4);
  Tuning tuning = simple(machine, {2, 2}, 50);
  tuning.row_tiles = {100, 50};
  tuning.col_tiles = {25, 100};

  const Plan plan = make_plan(square(200, kHost), machine, tuning);

  EXPECT_EQ(check(plan), "");
  EXPECT_EQ(plan.cuts().m, (Cuts{0, 100, 150, 200}));
  EXPECT_EQ(plan.cuts().n, (Cuts{0, 25, 50, 75, 100, 200}));
}

TEST(MakePlan, RefusesTileEdgesThatAreNotThoseOfTheGrid) {
  const Machine machine = node(4);
  for (const std::vector<std::int64_t>& wrong :
       {std::vector<std::int64_t>{8}, {8, 8, 8}, {8, 0}, {8, -1}}) {
    Tuning tuning = simple(machine, {2, 2}, 50);
    tuning.col_tiles = wrong;
    EXPECT_THROW(make_plan(square(100, kHost), machine, tuning), Error);
  }
}

TEST(MakePlan, RefusesSharesThatAreNotThoseOfTheGrid) {
  const Machine machine = node(4);
  for (const std::vector<double>& wrong : {std::vector<double>{1.0}, {1, 1, 1}, {1, 0}, {1, -1}}) {
    Tuning tuning = simple(machine, {2, 2}, 50);
    tuning.row_shares = wrong;
    EXPECT_THROW(make_plan(square(100, kHost), machine, tuning), Error);
  }
  Tuning tuning = simple(machine, {2, 2}, 50);
  tuning.col_shares = {1, 2};
  EXPECT_THROW(make_plan(make_problem({.m = 50, .n = 50, .k = 50, .batch = 2}), machine, tuning),
               Error);
}

TEST(MakePlan, NeverMultipliesInPlaceWithOwnCopies) {
  Random random(8);
  int computed = 0;
  for (int trial = 0; trial < test::scaled(1000); ++trial) {
    const int devices = static_cast<int>(between(random, 1, 4));
    const Machine machine = node(devices);
    const Problem problem = test::random_gemm(random, devices, 60);
    Tuning tuning = test::random_tuning(random, machine, problem, 24);
    tuning.own_copies = true;
    if (tuning.has_cpu()) tuning.workers.pop_back();
    if (problem.k == 0) continue;  // C is scaled where it lies, element by element
    Plan plan;
    try {
      plan = make_plan(problem, machine, tuning);
    } catch (const Error& e) {
      ASSERT_EQ(e.status(), Status::no_memory) << to_text(problem);
      continue;
    }
    ASSERT_EQ(check(plan), "") << trial << ": " << to_text(problem);
    for (const Task& task : plan.tasks) {
      if (task.kind != TaskKind::compute) continue;
      ++computed;
      ASSERT_FALSE(task.to.in_place()) << to_text(problem);
      ASSERT_FALSE(task.inputs[0].in_place()) << to_text(problem);
      if (task.kernel == Kernel::multiply) {
        ASSERT_FALSE(task.inputs[1].in_place()) << to_text(problem);
      }
    }
  }
  EXPECT_GT(computed, 0);
}

TEST(MakePlan, WithoutCachingFetchesForEveryProduct) {
  const Machine machine = node(2);
  Tuning tuning = simple(machine, {2, 1}, 1024);
  tuning.rules = Rules::none();

  const Plan plan = make_plan(square(4096, kHost), machine, tuning);

  EXPECT_EQ(count(plan, TaskKind::fetch), 2 * 64 + 16);
  EXPECT_EQ(check(plan), "");
}

TEST(MakePlan, ScalesInPlaceWhenThereIsNothingToMultiply) {
  const Machine machine = node(2);
  const Problem problem =
      make_problem({.m = 100, .n = 50, .k = 0}, {.homes = {kHost, kHost, kFirstDevice + 1}});

  const Plan plan = make_plan(problem, machine, simple(machine, {2, 1}, 1024));

  EXPECT_EQ(check(plan), "");
  EXPECT_EQ(count(plan, TaskKind::fetch), 0);
  for (const Task& task : plan.tasks) EXPECT_EQ(task.to, (Where{kFirstDevice + 1, -1}));
}

TEST(MakePlan, RunsOnTheHostInPlaceWhenTheHostIsTheWorker) {
  const Machine machine = node(1);
  Tuning tuning = simple(machine, {1, 1}, 4096);
  tuning.workers = {kHost};

  const Plan plan = make_plan(square(1000, kPageable), machine, tuning);

  EXPECT_EQ(check(plan), "");
  ASSERT_EQ(plan.tasks.size(), 1u);
}

TEST(MakePlan, RoutesOverTheHostWhereDevicesHaveNoLink) {
  Machine machine = node(2);
  std::erase_if(machine.links,
                [](const Link& l) { return !on_host(l.source) && !on_host(l.target); });

  const Plan plan = make_plan(square(512, kFirstDevice), machine, simple(machine, {1, 2}, 256));

  EXPECT_EQ(check(plan), "");
  EXPECT_GT(plan.slots[kHost].size(), 0u);
}

TEST(MakePlan, SendsResultsHomeWithoutTheRulesEtaAndForwarding) {
  const Machine machine = node(2);
  Tuning tuning = simple(machine, {2, 1}, 256);
  tuning.rules = Rules::all().without(Rule::eta).without(Rule::forwarding);

  for (const DeviceId home : {kHost, kPageable})
    EXPECT_EQ(check(make_plan(square(1024, home), machine, tuning)), "");
}

TEST(MakePlan, RefusesAMachineWithNoWayToAWorker) {
  Machine machine = node(2);
  std::erase_if(machine.links, [](const Link& l) { return l.target == kFirstDevice + 1; });
  try {
    make_plan(square(512, kHost), machine, simple(machine, {1, 2}, 256));
    FAIL() << "planned without a link";
  } catch (const Error& e) {
    EXPECT_EQ(e.status(), Status::unreachable);
  }
}

TEST(MakePlan, StaysUnderTheMemoryCapOutOfCore) {
  const Machine machine = node(2);
  Tuning tuning = simple(machine, {2, 1}, 512);
  const std::int64_t cap = 24LL * 512 * 512 * 8;
  tuning.memory_cap.assign(machine.devices.size(), cap);
  tuning.memory_cap[kHost] = 1LL << 40;
  for (OutOfCore mode : {OutOfCore::stationary, OutOfCore::cube}) {
    tuning.out_of_core = mode;
    tuning.group = 2048;
    const Plan plan = make_plan(square(8192, kHost), machine, tuning);
    EXPECT_EQ(check(plan), "") << to_string(mode);
    EXPECT_LE(plan.arena_bytes[kFirstDevice], cap) << to_string(mode);
  }
}

TEST(MakePlan, TakesTheSlotWhoseUsersAreLongestDone) {
  const Machine machine = node(1);
  Tuning tuning = simple(machine, {1, 1}, 512);
  tuning.memory_cap.assign(machine.devices.size(), 4LL * 512 * 512 * 8);
  tuning.out_of_core = OutOfCore::stationary;
  const Problem problem =
      make_problem({.m = 512, .n = 512, .k = 8 * 512}, {.homes = {kHost, kHost, kFirstDevice}});

  const Plan plan = make_plan(problem, machine, tuning);

  // A tile of A and one of B for each of eight steps, none used again: in four slots each slot has
  // every second step's, so that one step's tiles arrive while the other's are multiplied.
  std::vector<int> fetches(4, 0);
  for (const Task& task : plan.tasks)
    if (task.kind == TaskKind::fetch) ++fetches.at(static_cast<std::size_t>(task.to.slot));
  EXPECT_EQ(fetches, (std::vector<int>{4, 4, 4, 4}));
}

TEST(MakePlan, RefusesACapBelowOneTileProduct) {
  const Machine machine = node(1);
  Tuning tuning = simple(machine, {1, 1}, 512);
  tuning.memory_cap.assign(machine.devices.size(), 512 * 512 * 8);
  tuning.out_of_core = OutOfCore::stationary;
  tuning.group = 512;
  EXPECT_THROW(make_plan(square(2048, kHost), machine, tuning), Error);
}

// Every dependency that the planner emits is needed or implied by others: if one is dropped,
// check() notices it, or other dependencies and queues still enforce the order.
TEST(Check, NoticesMostDroppedDependencies) {
  Random random(99);
  int dropped = 0, noticed = 0;
  for (int trial = 0; trial < test::scaled(800); ++trial) {
    const Machine machine = node(3);
    const Problem problem = test::random_gemm(random, 3, 60);
    const Tuning tuning = test::random_tuning(random, machine, problem, 24);
    const auto made = test::plan_if_any(problem, machine, tuning);
    if (!made) continue;
    Plan plan = *made;
    std::vector<Task*> with;
    for (Task& task : plan.tasks)
      if (task.after_count > 0) with.push_back(&task);
    if (with.empty()) continue;
    Task& victim = *with[static_cast<std::size_t>(between(random, 0, std::ssize(with) - 1))];
    victim.after_begin += 1;
    victim.after_count -= 1;
    ++dropped;
    noticed += !check(plan).empty();
  }
  EXPECT_GT(noticed, dropped / 2);
}

TEST(Check, NoticesAWrongTileAMissingWritebackAndASlotTooSmall) {
  const Machine machine = node(2);
  const Plan good = make_plan(square(1024, kHost), machine, simple(machine, {2, 1}, 512));
  ASSERT_EQ(check(good), "");

  Plan wrong = good;
  for (Task& task : wrong.tasks)
    if (task.kind == TaskKind::compute && task.kernel == Kernel::multiply) {
      task.op ^= 1;  // the other step of k of the same tile
      break;
    }
  EXPECT_NE(check(wrong), "");

  Plan missing = good;
  ASSERT_EQ(missing.tasks.back().kind, TaskKind::writeback);
  missing.tasks.pop_back();
  EXPECT_NE(check(missing), "");

  Plan small = good;
  small.slots[kFirstDevice][0].bytes = 8;
  EXPECT_NE(check(small), "");
}

}  // namespace
}  // namespace fleet
