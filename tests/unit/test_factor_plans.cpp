// SPDX-License-Identifier: BSD-3-Clause
// test_factor_plans.cpp: plans of factorizations pass their check, and give the factors of random
// matrices in random legal orders, in core and in stages.
#include <gtest/gtest.h>

#include <set>

#include "backend/host/backend.hpp"
#include "sim/simulate.hpp"
#include "support/cpu_blas.hpp"
#include "support/factor_trial.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using test::between;
using test::chance;
using test::Generator;

TEST(FactorPlans, AreRightInRandomLegalOrders) {
  Generator random(15);
  Options options;
  options.inject.poison = true;
  for (std::int64_t trial = 0; trial < test::scaled(1500); ++trial) {
    const int devices = static_cast<int>(between(random, 1, 4));
    const Machine machine =
        chance(random, 30) ? test::uneven_node(random, devices) : test::node(devices);
    const test::FactorCase made = test::random_factor_case(random, machine, 40);
    for (const Plan& plan : made.plans) {
      ASSERT_EQ(check(plan), "") << trial << ": " << made.text;
      ASSERT_GT(simulate(plan, machine).seconds, 0) << trial << ": " << made.text;
    }
    options.inject.order = random();
    const auto backend = make_host_backend(machine, test::shared_cpu_blas(), options);
    ASSERT_EQ(test::verdict_of_factors(made.what, made.plans, *backend, random), "")
        << trial << ": " << made.text;
  }
}

/// The errors of the factors of one matrix by floats and by pairs of halves.
std::pair<double, double> errors_by_floats_and_halves(std::int64_t order, std::int64_t width) {
  const Machine machine = test::node(2);
  const auto backend = make_host_backend(machine, test::shared_cpu_blas(), {});
  const Factorization what = make_factorization(
      {.routine = Factoring::getrf, .storage = Storage::f32, .m = order, .n = order});
  const Tuning tuning{.workers = {2, 3}, .grid = {1, 2}, .tile = width};
  std::vector<double> errors;
  for (const bool in_halves : {false, true}) {
    Generator random(9);
    test::FactorTrial<float> trial(what, random);
    Strips strips = strips_of(what, width);
    strips.in_halves = in_halves;
    const auto plans = test::plans_of_stages(strips, strips.count(), machine, tuning);
    EXPECT_EQ(trial.run(plans.front(), *backend), "");
    EXPECT_EQ(trial.verdict(strips), "");
    errors.push_back(static_cast<double>(trial.error_of_factors()));
  }
  return {errors[0], errors[1]};
}

TEST(FactorPlans, InHalvesAreNearlyAsExactAsFloats) {
  const std::int64_t order = std::max<std::int64_t>(96, test::scaled(320));
  for (const std::int64_t width : {7, 32}) {
    const auto [by_floats, by_halves] = errors_by_floats_and_halves(order, width);

    // 22 bits for 24. Halves alone would have 11.
    EXPECT_LT(by_halves, 8 * by_floats) << width;
    EXPECT_NE(by_halves, by_floats) << width;
  }
}

/// The queues of panels, and those of updates.
std::pair<std::set<QueueId>, std::set<QueueId>> queues_of(const Plan& plan) {
  std::set<QueueId> panels, updates;
  for (const Task& task : plan.tasks) {
    if (task.kind != TaskKind::compute) continue;
    if (task.kernel == Kernel::factor) panels.insert(task.queue);
    if (task.kernel == Kernel::update) updates.insert(task.queue);
  }
  return {panels, updates};
}

TEST(FactorPlans, GiveADeviceWithoutOthersALaneOfPanelsAndFewDevicesTwoOfUpdates) {
  for (const int devices : {1, 2, 4}) {
    Machine machine = test::node(devices);
    Tuning tuning{.grid = {1, devices}, .tile = 16};
    for (DeviceId d = kFirstDevice; d < kFirstDevice + devices; ++d) {
      machine.devices[static_cast<std::size_t>(d)].lanes = 4;
      machine.devices[static_cast<std::size_t>(d)].filling_elements = 1;
      tuning.workers.push_back(d);
    }
    const Strips strips = strips_of({.routine = Factoring::getrf, .m = 320, .n = 320}, 16);
    const auto program = std::make_shared<const TileProgram>(expand(strips));

    const Plan plan = schedule_factorization(program, machine, tuning);

    const auto [panels, updates] = queues_of(plan);
    const auto is_ahead = [&](QueueId queue) {
      return plan.queues[static_cast<std::size_t>(queue)].is_ahead;
    };
    EXPECT_EQ(std::ranges::all_of(panels, is_ahead), devices == 1) << devices;
    EXPECT_TRUE(std::ranges::none_of(updates, is_ahead)) << devices;
    EXPECT_EQ(std::ssize(updates), devices * (devices <= 2 ? 2 : 1)) << devices;
  }
}

TEST(FactorPlans, AreTheSameFromTheSameInputs) {
  const Machine machine = test::node(3);
  const Strips strips = strips_of({.routine = Factoring::getrf, .m = 100, .n = 90}, 16);
  Tuning tuning{.workers = {2, 3, 4}, .grid = {1, 3}, .tile = 16};
  const auto program = std::make_shared<const TileProgram>(expand(strips));
  EXPECT_EQ(schedule_factorization(program, machine, tuning),
            schedule_factorization(program, machine, tuning));
}

TEST(FactorPlans, RefuseStripsThatDoNotFit) {
  const Machine machine = test::node(2);
  const Strips strips = strips_of({.routine = Factoring::potrf, .m = 64, .n = 64}, 16);
  Tuning tuning{.workers = {2, 3}, .grid = {1, 2}, .tile = 16};
  tuning.memory_cap.assign(machine.devices.size(), 1 << 14);
  const auto program = std::make_shared<const TileProgram>(expand(strips));
  EXPECT_THROW(schedule_factorization(program, machine, tuning), Error);
}

}  // namespace
}  // namespace fleet
