// SPDX-License-Identifier: BSD-3-Clause
// test_tune.cpp: the tuner's choices, and that it finds a plan if one exists.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/error.hpp"
#include "program/decompose.hpp"
#include "sim/simulate.hpp"
#include "support/random_plans.hpp"
#include "support/scale.hpp"
#include "support/shipped.hpp"
#include "tune/candidates.hpp"
#include "tune/limits.hpp"
#include "tune/tune.hpp"

namespace fleet {
namespace {

using test::between;
using test::chance;
using test::node;
using Random = test::Generator;

Problem square(std::int64_t n, DeviceId home) {
  return make_problem({.m = n, .n = n, .k = n}, {.homes = {home, home, home}});
}

TEST(Tune, FindsARightPlanForEveryProblemThatFits) {
  Random random(4);
  for (int trial = 0; trial < test::scaled(1500); ++trial) {
    const int devices = static_cast<int>(between(random, 1, 8));
    Machine machine = chance(random, 70) ? node(devices) : test::uneven_node(random, devices);
    if (chance(random, 30))
      for (Link& link : machine.links) link.columns = {{512, 0.2}, {8192, 0.7}};
    const Problem problem = test::random_gemm(random, devices, chance(random, 20) ? 3000 : 200);
    TuneRequest request;
    if (chance(random, 30)) request.tile = between(random, 40, 400);
    if (chance(random, 30))
      request.rules = request.rules.without(static_cast<Rule>(between(random, 0, kRules - 1)));
    try {
      const Tuned tuned = tune(problem, machine, request);
      ASSERT_EQ(check(tuned.plan), "") << to_text(problem);
      ASSERT_TRUE(std::isfinite(tuned.cost.seconds)) << to_text(problem);
    } catch (const Error& e) {
      ASSERT_EQ(e.status(), Status::unreachable) << to_text(problem) << ": " << e.what();
    }
  }
}

TEST(Tune, KeepsUnderAnyCapThatHoldsOneTileProduct) {
  Random random(5);
  for (int trial = 0; trial < test::scaled(100); ++trial) {
    const Machine machine = node(static_cast<int>(between(random, 1, 4)));
    const Problem problem = square(between(random, 200, 1500), kHost);
    TuneRequest request;
    request.memory_cap.assign(machine.devices.size(), between(random, 100'000, 4'000'000));
    request.memory_cap[kHost] = 1LL << 40;
    const Tuned tuned = tune(problem, machine, request);
    ASSERT_EQ(check(tuned.plan), "");
    for (std::size_t d = kFirstDevice; d < machine.devices.size(); ++d)
      ASSERT_LE(tuned.plan.arena_bytes[d], request.memory_cap[d]);
  }
}

TEST(Tune, TriesCubesOnlyWhereTheyAreNotTheStationaryPlanAgain) {
  const Machine machine = node(2);
  TuneRequest request;
  request.memory_cap.assign(machine.devices.size(), 40'000'000);
  request.memory_cap[kHost] = 1LL << 40;
  for (const Problem& problem :
       {square(4096, kHost), make_problem({.m = 8192, .n = 8192, .k = 128}),
        make_problem({.routine = Routine::symm, .m = 4096, .n = 4096})}) {
    const Tuned tuned = tune(problem, machine, request);

    int cubes = 0;
    for (const Considered& cube : tuned.search.list) {
      if (cube.tuning.out_of_core != OutOfCore::cube) continue;
      ++cubes;
      Tuning same = cube.tuning;
      same.out_of_core = OutOfCore::stationary;
      EXPECT_TRUE((same.group < problem.k && !problem.traits().has_side()) ||
                  std::ranges::find(tuned.search.list, same, &Considered::tuning) ==
                      tuned.search.list.end())
          << to_text(problem);
    }
    EXPECT_GT(cubes, 0) << to_text(problem);
  }
}

TEST(Tune, RefusesACapThatHoldsNothing) {
  const Machine machine = node(2);
  TuneRequest request;
  request.memory_cap.assign(machine.devices.size(), 1000);
  try {
    tune(square(1000, kHost), machine, request);
    FAIL() << "planned in 1000 bytes";
  } catch (const Error& e) {
    EXPECT_EQ(e.status(), Status::no_memory);
  }
}

TEST(Tune, GainsByTheGridOnSkinnyShapes) {
  const Machine machine = node(8);
  const Rules fixed = Rules::all().without(Rule::grid);
  double gain = 1;
  for (const auto& [m, n] : {std::pair<std::int64_t, std::int64_t>{65536, 1024}, {1024, 65536}}) {
    const Problem p = make_problem({.m = m, .n = n, .k = 4096},
                                   {.homes = {kFirstDevice, kFirstDevice, kFirstDevice}});
    const double free_s = tune(p, machine, {}).cost.seconds;
    const Tuned square = tune(p, machine, {.rules = fixed});
    EXPECT_EQ(square.plan.tuning.grid, (Grid{4, 2}));
    EXPECT_LE(free_s, 1.001 * square.cost.seconds) << m << " x " << n;
    gain = std::max(gain, square.cost.seconds / free_s);
  }
  EXPECT_GT(gain, 1.02);
}

/// Links copy columns of up to 32 KB slowly, as to and from H200 (docs/performance/lessons.md);
/// devices multiply at the H200's rate.
Machine with_slow_columns(Machine machine) {
  for (Device& device : machine.devices)
    for (KernelRate& rate : device.kernels) rate.flops_per_s *= 3;
  for (Link& link : machine.links)
    if (on_host(link.source) != on_host(link.target))
      link.columns = {{4096, 0.38}, {8192, 0.59}, {16384, 0.58}, {32768, 0.8}, {57344, 1.0}};
  return machine;
}

TEST(Tune, MakesColumnsLongWhereShortOnesAreSlow) {
  const Machine machine = with_slow_columns(node(2));
  const Problem problem = square(8192, kHost);

  const Tuned free = tune(problem, machine, {});
  double squares_s = 1e300;
  for (const std::int64_t tile : {512, 1024, 1366, 2048, 2731, 4096})
    squares_s = std::min(squares_s, tune(problem, machine, {.tile = tile}).cost.seconds);

  EXPECT_EQ(check(free.plan), "");
  EXPECT_GT(free.plan.program->rows_of({kC, 0, 0}), 2 * free.plan.program->cols_of({kC, 0, 0}));
  EXPECT_LT(free.cost.seconds, 0.95 * squares_s);
}

TEST(Tune, ListsNoTilingTwice) {
  const Machine machine = with_slow_columns(node(4));
  for (const Routine routine : {Routine::gemm, Routine::symm, Routine::trsm}) {
    const Problem problem = make_problem(
        {.routine = routine, .m = 8192, .n = 6144, .k = routine == Routine::gemm ? 8192 : 0});
    const Tuning base = base_tuning(problem, machine, {});
    const Estimator estimator(problem, machine, base.workers);
    const std::vector<Considered> list = candidates(problem, machine, {}, base, estimator);
    for (std::size_t i = 0; i < list.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        EXPECT_FALSE(list[i].tuning == list[j].tuning)
            << to_text(problem) << " tile " << list[i].tuning.tile;
    EXPECT_GT(list.size(), 20u);
  }
}

// A symmetric or triangular A has square tiles; those of B and C may be longer than wide.
TEST(Tune, MakesColumnsLongBesideASide) {
  const Machine machine = with_slow_columns(node(2));
  for (const auto& [routine, side] :
       {std::pair(Routine::symm, Side::left), std::pair(Routine::trmm, Side::left),
        std::pair(Routine::trsm, Side::left), std::pair(Routine::trsm, Side::right)}) {
    const Problem problem = make_problem({.routine = routine, .side = side, .m = 8192, .n = 8192});

    const Tuned free = tune(problem, machine, {});
    double squares_s = 1e300;
    for (const std::int64_t tile : {512, 1024, 1366, 2048, 2731, 4096})
      squares_s = std::min(squares_s, tune(problem, machine, {.tile = tile}).cost.seconds);

    EXPECT_EQ(check(free.plan), "");
    EXPECT_GT(free.plan.program->rows_of({kC, 0, 0}), free.plan.program->cols_of({kC, 0, 0}));
    EXPECT_LT(free.cost.seconds, 0.98 * squares_s) << to_text(problem);
  }
}

// Two workers have uneven parts of a triangle in three rows of tiles, but the columns of these are
// long enough.
TEST(Tune, LeavesWholeRoundsOfATriangleWhereTheirColumnsAreSlow) {
  const auto columns_s = [](const std::vector<ColumnRate>& columns, std::int64_t tile) {
    Machine machine = with_slow_columns(node(2));
    for (Link& link : machine.links)
      if (!link.columns.empty()) link.columns = columns;
    const Problem problem = make_problem({.routine = Routine::syrk, .n = 8192, .k = 8192});
    const Tuned tuned = tune(problem, machine, {.tile = tile});
    EXPECT_EQ(check(tuned.plan), "");
    return std::pair(tuned.plan.tuning.tile, tuned.cost.seconds);
  };
  const std::vector<ColumnRate> long_ones_fast{{8192, 0.6}, {16384, 0.5}, {24576, 1}},
      all_slow{{8192, 0.6}};

  const auto [tile, seconds] = columns_s(long_ones_fast, 0);

  EXPECT_EQ(tile, 2731);
  for (const std::int64_t even : {1024, 2048})
    EXPECT_LT(seconds, 0.95 * columns_s(long_ones_fast, even).second);
  EXPECT_EQ(2048 % columns_s(all_slow, 0).first, 0);
}

TEST(Tune, LeavesTilesSquareWhereItIsToldTheirEdgeOrColumnsCostNothing) {
  const Problem problem = square(8192, kHost);
  const Machine machine = with_slow_columns(node(2));
  for (const Tuning& tuning :
       {tune(problem, node(2), {}).plan.tuning, tune(problem, machine, {.tile = 1024}).plan.tuning,
        tune(problem, machine, {.rules = Rules::all().without(Rule::tile)}).plan.tuning}) {
    EXPECT_EQ(tuning.tile_m, 0);
    EXPECT_EQ(tuning.tile_k, 0);
  }
}

// If the first tiles take a large part of the run, products begin with a part of them.
TEST(Tune, BeginsWithShortStepsWhereTheFirstTilesTakeLong) {
  const Machine machine = with_slow_columns(node(2));
  const Problem problem = square(16384, kHost);
  const auto first_product_s = [&](const Plan& plan) {
    const Trace trace = simulate(plan, machine);
    double first_s = 1e300;
    for (std::size_t t = 0; t < plan.tasks.size(); ++t)
      if (plan.tasks[t].kind == TaskKind::compute)
        first_s = std::min(first_s, trace.spans[t].start_s);
    return first_s;
  };

  const Tuned ramped = tune(problem, machine, {});
  Tuning even = ramped.plan.tuning;
  even.ramp = 0;
  const Plan without = make_plan(problem, machine, even);

  EXPECT_EQ(check(ramped.plan), "");
  EXPECT_GT(ramped.plan.tuning.ramp, 0);
  EXPECT_LT(first_product_s(ramped.plan), 0.5 * first_product_s(without));
  EXPECT_LT(ramped.cost.seconds, 0.98 * simulate(without, machine).seconds);
}

// Tiles as long as C cannot form groups of rows, but those of the first columns can go home early.
TEST(Tune, MakesGroupsOfWholeColumnsWhereTilesAreLong) {
  const Machine machine = with_slow_columns(node(2));
  const Problem problem = square(8192, kHost);

  const Tuned grouped = tune(problem, machine, {});
  Tuning ungrouped = grouped.plan.tuning;
  ungrouped.group = ungrouped.group_m = 0;

  EXPECT_EQ(check(grouped.plan), "");
  EXPECT_GT(grouped.plan.tuning.group, 0);
  EXPECT_EQ(grouped.plan.tuning.group_m, problem.m);
  EXPECT_LT(grouped.cost.seconds,
            simulate(make_plan(problem, machine, ungrouped), machine).seconds);
}

// The first products by a triangle need the most bytes for each multiply-add, and results take the
// same host memory.
TEST(Tune, LetsResultsOfTrianglesWaitWhereInputsAreTheLimit) {
  const Machine machine = test::shipped("h200x4");
  for (const Routine routine : {Routine::trsm, Routine::trmm}) {
    const Problem problem = make_problem({.routine = routine, .m = 32768, .n = 32768});
    const Tuned waits = tune(problem, machine, {});
    EXPECT_EQ(check(waits.plan), "");
    EXPECT_TRUE(waits.plan.tuning.inputs_first);
    const Tuned product = tune(square(32768, kHost), machine, {});
    EXPECT_LT(waits.cost.seconds, product.cost.seconds / 2 / 0.95);
  }
  // Where C is not in host memory, nothing is gained.
  const Problem at_device = make_problem({.routine = Routine::trsm, .m = 8192, .n = 8192},
                                         {.homes = {kHost, kHost, kFirstDevice}});
  const Tuned there = tune(at_device, machine, {});
  for (const Considered* candidate : there.search.best_first())
    EXPECT_FALSE(candidate->tuning.inputs_first);
}

// C is 32 times as large as A and B: with equal parts the links of the device that holds all
// operands are the limit.
TEST(Tune, GivesMoreToTheOwnerWhereTheOthersWaitForItsLinks) {
  const Machine machine = node(4);
  const DeviceId owner = kFirstDevice + 2;
  const Problem thin =
      make_problem({.m = 16384, .n = 16384, .k = 512}, {.homes = {owner, owner, owner}});

  const Tuned free = tune(thin, machine, {});
  const Tuned equal = tune(thin, machine, {.rules = Rules::all().without(Rule::grid)});

  EXPECT_EQ(check(free.plan), "");
  double whole = 0, owned = 0;
  for (const Task& task : free.plan.tasks) {
    if (task.kind != TaskKind::compute || task.kernel != Kernel::multiply ||
        free.plan.program->op(task.op).inputs[1].tile.row > 0)
      continue;
    const auto elements = static_cast<double>(free.plan.program->rows_of(task.tile)) *
                          static_cast<double>(free.plan.program->cols_of(task.tile));
    whole += elements;
    if (task.device() == owner) owned += elements;
  }
  EXPECT_GT(owned, 0.3 * whole);
  EXPECT_LT(free.cost.seconds, 0.95 * equal.cost.seconds);
}

TEST(Tune, GivesMoreOfTheRightHandSidesToTheOwner) {
  const Machine machine = test::shipped("h200x4");
  const DeviceId owner = kFirstDevice + 2;
  const Problem problem = make_problem({.routine = Routine::trsm, .m = 4096, .n = 4096},
                                       {.homes = {owner, owner, owner}});
  const Tuned free = tune(problem, machine, {});
  const Tuned equal = tune(problem, machine, {.rules = Rules::all().without(Rule::grid)});

  EXPECT_EQ(check(free.plan), "");
  ASSERT_EQ(free.plan.tuning.col_shares.size(), 4u);
  EXPECT_GT(free.plan.tuning.col_shares[2], 0.3);
  EXPECT_LT(free.cost.seconds, 0.95 * equal.cost.seconds);
}

// The fastest few may all be of one grid.
TEST(Tune, TriesVariantsOfTheBestPlanOfEachGrid) {
  const Machine machine = test::shipped("h200x4");
  for (const std::int64_t n : {3072, 6144, 16384}) {
    const Tuned tuned = tune(square(n, kFirstDevice), machine, {});
    double least_s = kNever;
    std::map<std::pair<int, int>, double> plain_s, ramped_s;  // the least by grid
    for (const Considered& c : tuned.search.list) {
      if (!c.is_planned()) continue;
      auto& of_grid = c.tuning.ramp > 0 ? ramped_s : plain_s;
      double& grid_s =
          of_grid.try_emplace({c.tuning.grid.rows, c.tuning.grid.cols}, kNever).first->second;
      grid_s = std::min(grid_s, c.seconds);
      if (c.tuning.ramp == 0 && c.tuning.row_shares.empty()) least_s = std::min(least_s, c.seconds);
    }
    EXPECT_EQ(plain_s.size(), 3u);
    for (const auto& [grid, seconds] : plain_s) {
      if (seconds > limits::kOtherGrid * least_s) continue;
      EXPECT_TRUE(ramped_s.contains(grid)) << n << ": " << grid.first << " x " << grid.second;
    }
  }
}

// In a grid of 2 x 2 a larger part for one worker also gives its neighbour more rows of A.
TEST(Tune, GivesNoLargerPartThanMemoryHolds) {
  const Machine machine = node(4, 50e9, 100e9);
  const Problem tall = make_problem({.m = 65536, .n = 2048, .k = 4096},
                                    {.homes = {kFirstDevice, kFirstDevice, kFirstDevice}});
  const auto most = [](const Plan& plan) { return std::ranges::max(plan.arena_bytes); };
  TuneRequest request{.grid = {2, 2}};
  const Tuned free = tune(tall, machine, request);
  const Tuned equal = tune(tall, machine, {.rules = Rules::all().without(Rule::grid)});
  ASSERT_GT(most(free.plan), most(equal.plan) * 11 / 10);

  request.memory_cap.assign(machine.devices.size(), most(equal.plan) * 105 / 100);
  request.memory_cap[kHost] = 1LL << 40;
  const Tuned capped = tune(tall, machine, request);

  EXPECT_EQ(check(capped.plan), "");
  EXPECT_LE(most(capped.plan), request.memory_cap[kFirstDevice]);
  EXPECT_EQ(capped.plan.tuning.out_of_core, OutOfCore::none);
}

TEST(Tune, GivesEqualPartsWhereNobodyOwnsC) {
  const Tuned tuned = tune(square(16384, kHost), node(4), {});
  EXPECT_TRUE(tuned.plan.tuning.row_shares.empty());
  EXPECT_TRUE(tuned.plan.tuning.col_shares.empty());
}

TEST(Tune, TakesTheGridThatItIsGivenIfItHoldsTheWorkers) {
  const Problem problem = square(4096, kHost);
  for (const Grid& grid : {Grid{1, 8}, Grid{8, 1}, Grid{2, 4}})
    EXPECT_EQ(tune(problem, node(8), {.grid = grid}).plan.tuning.grid, grid);
  EXPECT_EQ(tune(problem, node(4), {.grid = {2, 4}}).plan.tuning.grid,
            tune(problem, node(4), {}).plan.tuning.grid);
}

/// The first call waits until it is pinned.
TEST(Tune, KeepsThePinnedRingSmall) {
  const Machine machine = test::shipped("h200x4");
  const auto ring = [&](const Problem& problem, const TuneRequest& request) {
    return tune(problem, machine, request).plan.arena_bytes[kHost];
  };
  const std::int64_t most = limits::kMostRingBytes + kAlignmentBytes;

  for (const std::int64_t n : {4096, 8192, 16384})
    EXPECT_LE(ring(square(n, kPageable), {}), most) << n;
  EXPECT_LE(ring(square(16384, kPageable), {.workers = {kFirstDevice}}), most);
  for (const Routine routine : {Routine::syrk, Routine::trsm})
    EXPECT_LE(ring(make_problem({.routine = routine, .m = 16384, .n = 16384, .k = 16384},
                                {.homes = {kPageable, kPageable, kPageable}}),
                   {}),
              most);
  EXPECT_LE(ring(make_problem({.type = DataType::f16, .m = 16384, .n = 16384, .k = 16384},
                              {.homes = {kPageable, kPageable, kPageable}}),
                 {}),
            most);
  const std::int64_t n = 65536;
  EXPECT_LE(ring(square(n, kPageable), {}), 3 * n * n * 8 / 16 + kAlignmentBytes);
  EXPECT_GT(ring(square(16384, kPageable), {.tile = 8192}), 4 * most);  // as it was asked for
}

/// Results on their way home would take those of operands.
TEST(Tune, GivesTheRingOfOneDeviceEightSlots) {
  const Plan plan =
      tune(square(8192, kPageable), test::shipped("h200x4"), {.workers = {kFirstDevice}}).plan;

  EXPECT_EQ(plan.slots[kHost].size(), 8u);
}

TEST(Tune, EndsBeforeThePlanThatNobodyWaitsFor) {
  const Machine machine = node(4);
  const int all = tune(square(4096, kHost), machine, {}).planned;
  for (const int most : {0, 1, all / 2}) {
    int asked = 0;
    TuneRequest request;
    request.gives_up = [&] { return asked++ == most; };
    EXPECT_THROW(tune(square(4096, kHost), machine, request), GaveUp);
    EXPECT_EQ(asked, most + 1);
  }
}

TEST(Tune, UsesTheFixedTileWhenTheRuleIsOff) {
  const Tuned tuned =
      tune(square(8192, kHost), node(4), {.rules = Rules::all().without(Rule::tile)});
  EXPECT_EQ(tuned.plan.tuning.tile, 2048);
}

TEST(Tune, IsNeverSlowerByItsOwnClockThanWithoutItsRules) {
  const Machine machine = node(8);
  for (DeviceId home : {kHost, kFirstDevice})
    for (std::int64_t n : {4096, 8192, 16384}) {
      const double all_s = tune(square(n, home), machine, {}).cost.seconds;
      const double none_s = tune(square(n, home), machine, {.rules = Rules::none()}).cost.seconds;
      EXPECT_LT(all_s, none_s) << n << " at " << place_word(home);
    }
}

TEST(Tune, RefusesAMachineThatCannotComputeTheType) {
  Machine machine = node(2);
  for (Device& d : machine.devices) d.kernels.clear();
  EXPECT_THROW(tune(square(100, kHost), machine, {}), Error);
}

TEST(TileCost, IsTheSumOfThePapersThreeTerms) {
  // M = N = K = 4096, 8 GPUs, T = 1024: no padding; 8*1024^3/4096^3 = 1/8; 0.2*2048/1024 = 0.4.
  EXPECT_DOUBLE_EQ(tile_cost(square(4096, kHost), 8, 1024), 0.125 + 0.4);
  // T = 3000 wastes (6000 - 4096)/4096 in each dimension.
  EXPECT_NEAR(
      tile_cost(square(4096, kHost), 8, 3000) - 8 * std::pow(3000.0 / 4096, 3) - 409.6 / 3000,
      3 * 1904.0 / 4096, 1e-12);
}

TEST(Grids, CoverOddNumbersOfDevices) {
  EXPECT_EQ(near_square_grid(3), (Grid{3, 1}));
  EXPECT_EQ(near_square_grid(5), (Grid{5, 1}));
  EXPECT_EQ(near_square_grid(7), (Grid{7, 1}));
  EXPECT_EQ(near_square_grid(8), (Grid{4, 2}));
  EXPECT_EQ(near_square_grid(9), (Grid{3, 3}));
  EXPECT_EQ(grids_of(8).size(), 4u);
}

}  // namespace
}  // namespace fleet
