// SPDX-License-Identifier: BSD-3-Clause
// test_split_k.cpp: products whose sums are split over the workers. That such plans are right is
// shown with all others, in test_plan and test_host_random.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.hpp"
#include "program/decompose.hpp"
#include "sim/simulate.hpp"
#include "support/random_plans.hpp"
#include "support/shipped.hpp"
#include "tune/tune.hpp"

namespace fleet {
namespace {

Problem product(std::int64_t edge, std::int64_t k, DeviceId home) {
  return make_problem({.m = edge, .n = edge, .k = k}, {.homes = {home, home, home}});
}

Tuning split(int rows, int cols, std::int64_t tile) {
  Tuning tuning;
  for (int w = 0; w < rows * cols; ++w) tuning.workers.push_back(kFirstDevice + w);
  tuning.grid = {rows, cols};
  tuning.tile = tile;
  tuning.split_k = true;
  return tuning;
}

TEST(SplitK, GivesEachRowOfTheGridAPartOfK) {
  const Decomposition made = decompose(product(512, 4096, kHost), split(2, 2, 512));
  EXPECT_EQ(made.cuts.k.size(), 9U);
  EXPECT_EQ(made.deal.step_owner, (std::vector<int>{0, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(made.deal.col_owner, (std::vector<int>{0, 1}));
  EXPECT_EQ(made.deal.row_owner, (std::vector<int>{0}));

  Tuning uneven = split(2, 1, 512);
  uneven.row_shares = {3, 1};
  const Decomposition more = decompose(product(512, 4096, kHost), uneven);
  EXPECT_EQ(std::ranges::count(more.deal.step_owner, 0), 6);
  EXPECT_EQ(std::ranges::count(more.deal.step_owner, 1), 2);
}

TEST(SplitK, NumbersPartsWithoutThoseThatGetNothing) {
  EXPECT_EQ(decompose(product(50, 2, kHost), split(4, 1, 50)).deal.step_owner,
            (std::vector<int>{0, 1}));
  Tuning tiny = split(3, 1, 50);
  tiny.row_shares = {1e-3, 1, 1};
  EXPECT_EQ(decompose(product(50, 100, kHost), tiny).deal.step_owner.front(), 0);
}

TEST(SplitK, IsForProductsOfWholeMatricesOnly) {
  const auto may = [](CallShape shape) { return may_split_k(make_problem(shape, {})); };
  EXPECT_TRUE(may({.m = 8, .n = 8, .k = 8}));
  EXPECT_FALSE(may({.type = DataType::f16, .m = 8, .n = 8, .k = 8}));
  EXPECT_FALSE(may({.m = 8, .n = 8, .k = 8, .batch = 2}));
  EXPECT_FALSE(may({.routine = Routine::syrk, .m = 8, .n = 8, .k = 8}));
  EXPECT_FALSE(may({.routine = Routine::trsm, .m = 8, .n = 8, .k = 8}));
  const Problem triangle = make_problem({.routine = Routine::syrk, .n = 64, .k = 512}, {});
  EXPECT_THROW(decompose(triangle, split(2, 1, 64)), Error);
  Tuning out = split(2, 1, 64);
  out.out_of_core = OutOfCore::stationary;
  out.group = 64;
  EXPECT_THROW(decompose(product(64, 512, kHost), out), Error);
}

TEST(SplitK, AddsTheSumsOfThePartsInTheOrderOfK) {
  const Machine machine = test::node(3);
  const Plan plan = make_plan(product(256, 3000, kFirstDevice), machine, split(3, 1, 256));
  EXPECT_EQ(check(plan), "");
  std::vector<int> order;
  for (const Task& task : plan.tasks)
    if (adds_sums(task)) order.push_back(task.op);
  EXPECT_EQ(order.size(), 2U);
  EXPECT_TRUE(std::ranges::is_sorted(order));
}

TEST(SplitK, IsTakenWhereCIsSmallBesideK) {
  const Machine machine = test::shipped("h200x4");
  for (const auto& [edge, k, gain] : {std::tuple(3000, 30000, 0.75), std::tuple(512, 16384, 0.6)}) {
    const Problem problem = product(edge, k, kFirstDevice);
    const Tuned tuned = tune(problem, machine, {});
    EXPECT_TRUE(tuned.plan.tuning.split_k) << edge;
    double without_s = kNever;
    for (const Considered& c : tuned.search.list)
      if (c.is_planned() && !c.tuning.split_k) without_s = std::min(without_s, c.seconds);
    EXPECT_LT(tuned.cost.seconds, gain * without_s) << edge;
  }
  EXPECT_FALSE(tune(product(4096, 4096, kHost), machine, {}).plan.tuning.split_k);
}

// Longer steps than the tiles of C are wide.
TEST(SplitK, CutsCAndKApart) {
  const Machine machine = test::shipped("h200x4");
  constexpr double kGain = 0.97;
  for (const auto& [edge, k] : {std::pair(3000, 30000), std::pair(2560, 20480)}) {
    const Tuned tuned = tune(product(edge, k, kFirstDevice), machine, {});
    double cubes_s = kNever;
    for (const Considered& c : tuned.search.list)
      if (c.is_planned() && c.tuning.split_k && c.tuning.tile_k == 0)
        cubes_s = std::min(cubes_s, c.seconds);
    EXPECT_GT(tuned.plan.tuning.tile_k, tuned.plan.tuning.tile) << edge;
    EXPECT_LT(tuned.cost.seconds, kGain * cubes_s) << edge;
  }
}

}  // namespace
}  // namespace fleet
