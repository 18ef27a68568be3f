// SPDX-License-Identifier: BSD-3-Clause
// test_inverses.cpp: solves with inverses of a triangle's diagonal blocks, which a plan prepares
// once on each device that solves with the triangle.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "backend/host/backend.hpp"
#include "sim/simulate.hpp"
#include "support/level3_trial.hpp"
#include "support/random_runs.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using test::between;
using test::chance;
using test::Generator;

Machine machine_with_inverses(Generator& random) {
  Machine machine = test::random_node(random);
  for (Device& device : machine.devices) device.inverse_order = chance(random, 50) ? 8 : 130;
  return machine;
}

Problem random_trsm(Generator& random, int devices, std::int64_t most) {
  constexpr DataType kTypes[] = {DataType::f32, DataType::f64, DataType::c32, DataType::c64};
  const CallShape shape{.routine = Routine::trsm,
                        .type = kTypes[between(random, 0, 3)],
                        .side = chance(random, 50) ? Side::left : Side::right,
                        .uplo = chance(random, 50) ? Uplo::lower : Uplo::upper,
                        .diag = chance(random, 50) ? Diag::non_unit : Diag::unit,
                        .op_a = static_cast<Op>(between(random, 0, 2)),
                        .m = between(random, 1, most),
                        .n = between(random, 1, most)};
  const DeviceId same = test::random_home(random, devices);
  Conditions conditions;
  for (DeviceId& home : conditions.homes)
    home = chance(random, 50) ? same : test::random_home(random, devices);
  return make_problem(shape, conditions);
}

/// Checks that a device prepares the inverses of each triangle once, if it uses inverses at all,
/// and that its solves read them.
std::string fault_of_inverses(const Plan& plan, const Machine& machine) {
  std::map<std::pair<TileId, DeviceId>, int> prepared;
  for (const Task& task : plan.tasks) {
    if (task.kind != TaskKind::compute) continue;
    const auto least = machine.devices[static_cast<std::size_t>(task.device())].inverse_order;
    if (task.kernel == Kernel::prepare) {
      if (plan.program->rows_of(task.tile) < least) return "prepares what is too small";
      if (++prepared[{task.tile, task.device()}] > 1) return "prepares a triangle twice";
    } else if (task.kernel == Kernel::solve) {
      const TileOp& op = plan.program->op(task.op);
      const std::size_t x = op.inputs[0].form == Form::stored ? 0 : 1;
      const bool large = plan.program->rows_of(op.inputs[x].tile) >= least;
      if (large == task.inputs[1 - x].in_place()) return "solves by the wrong way";
    }
  }
  return "";
}

bool prepares(const Plan& plan) {
  return std::ranges::count(plan.tasks, Kernel::prepare, &Task::kernel) > 0;
}

/// Plans and runs `trials` random trsm; `of_launch` makes one of their kernels fail.
void expect_right(std::uint64_t seed, std::int64_t trials, std::int64_t most, bool of_launch) {
  Generator random(seed);
  int with_inverses = 0, capped = 0;
  for (std::int64_t trial = 0; trial < trials; ++trial) {
    const Machine machine = machine_with_inverses(random);
    const Problem problem = random_trsm(random, machine.device_count(), most);
    const Tuning tuning = test::random_tuning(random, machine, problem, most / 2);
    const auto plan = test::plan_if_any(problem, machine, tuning);
    if (!plan) continue;
    ASSERT_EQ(check(*plan), "") << trial << ": " << to_text(problem);
    ASSERT_EQ(fault_of_inverses(*plan, machine), "") << trial << ": " << to_text(problem);
    with_inverses += prepares(*plan);
    capped += prepares(*plan) && tuning.out_of_core != OutOfCore::none;
    Options options;
    options.inject.poison = true;
    if (chance(random, 70)) options.inject.order = random();
    const auto computes = std::ranges::count(plan->tasks, TaskKind::compute, &Task::kind);
    if (of_launch) options.inject.launch = between(random, 1, computes);
    const auto backend = make_host_backend(machine, test::shared_cpu_blas(), options);
    test::with_blas_type(problem.type, [&]<typename T>() {
      test::Level3Trial<T> run(problem, random(), 1);
      const Trace trace = run.run(*plan, *backend, of_launch);
      ASSERT_EQ(trace.status == Status::ok, !of_launch) << trace.message;
      ASSERT_EQ(run.verdict(), "") << trial << " rules " << to_string(tuning.rules);
    });
    if (::testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(with_inverses, trials / 4);
  EXPECT_GT(capped, 0);
}

TEST(Inverses, AreMadeOnceForEachTriangleAndDeviceAndSolveRight) {
  expect_right(71, test::scaled(800), 90, false);
}

TEST(Inverses, OfTrianglesOfSeveralBlocksSolveRight) {
  expect_right(72, test::scaled(40), 420, false);
}

TEST(Inverses, ThatFailedOrAreLeftBehindDoNotHinderRecovery) {
  expect_right(73, std::max<std::int64_t>(160, test::scaled(800)), 90, true);
}

// A left lower trsm of 4 x 4 tiles on one device with several lanes.
Plan plan_with_inverses(const Machine& machine) {
  return make_plan(make_problem({.routine = Routine::trsm, .m = 64, .n = 64}), machine,
                   test::simple(machine, {1, 1}, 16));
}

Machine one_device() {
  Machine machine = test::node(1);
  for (Device& device : machine.devices) device.inverse_order = 8;
  return machine;
}

TEST(Solves, TakeTimeForTheInversesAndForRowsAndElementsBeyondTheirMultiplyAdds) {
  const Problem problem = make_problem({.routine = Routine::trsm, .m = 64, .n = 32},
                                       {.homes = {kFirstDevice, kHost, kFirstDevice}});
  Machine machine = one_device();
  const auto seconds = [&] {
    return simulate(make_plan(problem, machine, test::simple(machine, {1, 1}, 64)), machine)
        .seconds;
  };
  const double without_s = seconds();
  Device& device = machine.devices[kFirstDevice];

  device.prepare_s = 5;
  device.solve_row_s = 1;
  device.solve_element_s = 0.25;

  EXPECT_NEAR(seconds() - without_s, 5 + 64 * 1 + 64 * 32 * 0.25, 1e-9);
}

TEST(Solves, TakeTimeOfTheirOwnForTheRowsOfTrianglesWithoutInverses) {
  const Problem problem = make_problem({.routine = Routine::trsm, .m = 64, .n = 32},
                                       {.homes = {kFirstDevice, kHost, kFirstDevice}});
  Machine machine = one_device();
  Device& device = machine.devices[kFirstDevice];
  const auto seconds = [&] {
    return simulate(make_plan(problem, machine, test::simple(machine, {1, 1}, 64)), machine)
        .seconds;
  };
  const auto beyond = [&](std::int64_t inverse_order, double row_s, double plain_row_s) {
    device.inverse_order = inverse_order;
    device.solve_row_s = device.plain_row_s = 0;
    const double without_s = seconds();
    device.solve_row_s = row_s;
    device.plain_row_s = plain_row_s;
    return seconds() - without_s;
  };

  EXPECT_NEAR(beyond(64, 1, 3), 64 * 1, 1e-9);
  EXPECT_NEAR(beyond(65, 1, 3), 64 * 3, 1e-9);
  EXPECT_NEAR(beyond(65, 1, 0), 64 * 1, 1e-9);
}

TEST(Solves, LeaveTheDeviceToOthersForTheirRowsAndNotForTheirElements) {
  const Problem problem = make_problem({.routine = Routine::trsm, .m = 32, .n = 64},
                                       {.homes = {kFirstDevice, kHost, kFirstDevice}});
  Machine machine = one_device();
  const auto seconds = [&] {  // of two solves in two lanes
    const Plan plan = make_plan(problem, machine, test::simple(machine, {1, 1}, 32));
    EXPECT_EQ(std::ranges::count(plan.tasks, Kernel::solve, &Task::kernel), 2);
    return simulate(plan, machine).seconds;
  };
  const double without_s = seconds();
  Device& device = machine.devices[kFirstDevice];

  device.solve_row_s = 1;
  EXPECT_NEAR(seconds() - without_s, 32 * 1, 1e-9);
  device.solve_element_s = 0.25;
  EXPECT_NEAR(seconds() - without_s, 32 * 1 + 2 * 32 * 32 * 0.25, 1e-9);
}

TEST(Inverses, OfAnotherTileAreNoticed) {
  const Machine machine = one_device();
  const Plan right = plan_with_inverses(machine);
  ASSERT_EQ(check(right), "");
  const auto first = std::ranges::find(right.tasks, Kernel::solve, &Task::kernel);
  int changed = 0;
  for (std::size_t t = 0; t < right.tasks.size(); ++t) {
    const Task& task = right.tasks[t];
    if (task.kernel != Kernel::solve || task.inputs[1] == first->inputs[1]) continue;
    Plan plan = right;
    plan.tasks[t].inputs[1] = first->inputs[1];
    EXPECT_NE(check(plan), "") << t;
    plan.tasks[t].inputs[1] = task.inputs[0];  // the triangle itself instead of its inverses
    if (!task.inputs[0].in_place()) {
      EXPECT_NE(check(plan), "") << t;
    }
    ++changed;
  }
  EXPECT_EQ(changed, 12) << "three triangles of four solves each";
}

TEST(Inverses, ThatAreReadBeforeTheyAreMadeAreNoticed) {
  const Machine machine = one_device();
  const Plan right = plan_with_inverses(machine);
  int dropped = 0;
  for (std::size_t t = 0; t < right.tasks.size(); ++t) {
    if (right.tasks[t].kernel != Kernel::solve) continue;
    for (std::int32_t a = 0; a < right.tasks[t].after_count; ++a) {
      const auto at = static_cast<std::size_t>(right.tasks[t].after_begin);
      const TaskId earlier = right.after_pool[at + static_cast<std::size_t>(a)];
      if (right.tasks[static_cast<std::size_t>(earlier)].kernel != Kernel::prepare) continue;
      // Replaces this dependency by a repetition of the first.
      Plan plan = right;
      std::swap(plan.after_pool[at], plan.after_pool[at + static_cast<std::size_t>(a)]);
      ++plan.tasks[t].after_begin;
      --plan.tasks[t].after_count;
      EXPECT_NE(check(plan), "") << t;
      ++dropped;
    }
  }
  EXPECT_GT(dropped, 4);
}

TEST(Inverses, ThatAreNeverMadeOrMadeInAPlaceTooSmallAreNoticed) {
  const Machine machine = one_device();
  const Plan right = plan_with_inverses(machine);
  const auto prepare = std::ranges::find(right.tasks, Kernel::prepare, &Task::kernel);
  ASSERT_NE(prepare, right.tasks.end());
  const auto at = static_cast<std::size_t>(prepare - right.tasks.begin());

  Plan plan = right;
  plan.tasks[at].tile = {kA, 1, 0};  // not a triangle
  EXPECT_NE(check(plan), "");
  plan = right;
  plan.tasks[at].form = Form::stored;
  EXPECT_NE(check(plan), "");
  plan = right;
  std::ranges::find(plan.tasks, TaskKind::fetch, &Task::kind)->form = Form::inverses;
  EXPECT_NE(check(plan), "");
  plan = right;
  plan.tasks[at].to = {kFirstDevice, -1};
  EXPECT_NE(check(plan), "");
  plan = right;
  plan.slots[kFirstDevice][static_cast<std::size_t>(prepare->to.slot)].bytes =
      plan.program->bytes_of(prepare->tile);
  EXPECT_NE(check(plan), "");
}

}  // namespace
}  // namespace fleet
