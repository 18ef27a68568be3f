// SPDX-License-Identifier: BSD-3-Clause
// test_vectors_plan.cpp: plans of gemv, axpy and dot, and the tuner's choices for them.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.hpp"
#include "plan/bound.hpp"
#include "support/scale.hpp"
#include "support/vector_trial.hpp"
#include "tune/tune.hpp"

namespace fleet {
namespace {

using test::between;
using test::node;
using test::simple;

Problem gemv(std::int64_t m, std::int64_t n, Op op = Op::none) {
  return make_problem({.routine = Routine::gemv, .op_a = op, .m = m, .n = n});
}

std::int64_t bytes_moved(const Plan& plan, const Machine& machine) {
  std::int64_t all = 0;
  for (const std::int64_t bytes : bytes_by_link(plan, machine.links.size())) all += bytes;
  return all;
}

TEST(VectorPlan, PassesItsCheckForRandomRoutinesMachinesAndRules) {
  EXPECT_EQ(test::fault_of_random_plans(20261123, test::scaled(4000),
                                        [](auto& random, int devices) {
                                          return test::random_vectors(random, devices, 60);
                                        }),
            "");
}

TEST(VectorPlan, DealsTilesInTurn) {
  const Machine machine = node(3);
  const Problem axpy = make_problem({.routine = Routine::axpy, .n = 10 * 128});

  const Plan plan = make_plan(axpy, machine, simple(machine, {1, 3}, 128));

  ASSERT_EQ(check(plan), "");
  for (const Task& task : plan.tasks) {
    if (task.kind != TaskKind::compute) continue;
    EXPECT_EQ(task.device(), kFirstDevice + task.tile.col % 3);
  }
}

// axpy reads x and y once and writes y once; each element of gemv's matrix goes to one worker.
TEST(VectorPlan, MovesWhatMustMoveOnce) {
  const Machine machine = node(4);
  const Problem axpy = make_problem({.routine = Routine::axpy, .n = 1 << 20});
  const Plan of_axpy = make_plan(axpy, machine, simple(machine, {1, 4}, 1 << 16));
  const std::int64_t m = 4096, n = 8192;
  const Plan of_gemv = make_plan(gemv(m, n), machine, simple(machine, {1, 4}, 1024));
  const Plan of_dot = make_plan(make_problem({.routine = Routine::dot, .n = 1 << 20}), machine,
                                simple(machine, {4, 1}, 1 << 16));

  EXPECT_EQ(bytes_moved(of_axpy, machine), 3 * 8 << 20);
  // x comes once per row of tiles: 4 of them.
  EXPECT_EQ(bytes_moved(of_gemv, machine), 8 * (m * n + 4 * n + 2 * m));
  // Three sums go to the first worker, and one result goes home.
  EXPECT_EQ(bytes_moved(of_dot, machine), (2 * 8 << 20) + 4 * 8);
}

TEST(VectorPlan, NeedsAFewSlotsWhateverTheSizes) {
  const Machine machine = node(2);
  const auto arena = [&](std::int64_t m) {
    return make_plan(gemv(m, m), machine, simple(machine, {1, 2}, 512)).arena_bytes[kFirstDevice];
  };

  EXPECT_EQ(arena(1 << 13), arena(1 << 15));
  EXPECT_LE(arena(1 << 15), 9 * 512 * 512 * 8);
}

// So that a queued call has the same tiles by itself as with others, which do not stream.
TEST(VectorPlan, FitsIntoTheMemoryOfFourTiles) {
  const Machine machine = node(2);
  const auto vectors = [](Routine routine) {
    return make_problem({.routine = routine, .n = 5000});
  };
  const Problem problems[] = {gemv(2000, 3000), gemv(2000, 3000, Op::transpose),
                              vectors(Routine::axpy), vectors(Routine::dot)};
  for (const Problem& problem : problems) {
    const bool sums = problem.routine == Routine::dot, is_gemv = problem.routine == Routine::gemv;
    const std::int64_t input = 8 * (is_gemv ? 256 * 256 : 256), output = 8 * (sums ? 32 : 256);
    Tuning tuning = simple(machine, sums ? Grid{2, 1} : Grid{1, 2}, 256);
    for (const std::int64_t at_once : {1, 2, 3}) {
      tuning.memory_cap.assign(machine.devices.size(), 2 * at_once * (input + output));
      const Plan plan = make_plan(problem, machine, tuning);
      EXPECT_EQ(check(plan), "");
      EXPECT_LE(plan.arena_bytes[kFirstDevice], tuning.memory_cap[kFirstDevice]);
    }
  }
}

TEST(VectorPlan, IsFoundWrongWhenSumsMeetOutOfTurn) {
  const Machine machine = node(3);
  Plan plan = make_plan(make_problem({.routine = Routine::dot, .n = 300}), machine,
                        simple(machine, {3, 1}, 100));
  ASSERT_EQ(check(plan), "");
  std::vector<Task*> adds;
  for (Task& task : plan.tasks)
    if (task.kernel == Kernel::add) adds.push_back(&task);
  ASSERT_EQ(adds.size(), 2u);

  std::swap(adds[0]->inputs[0], adds[1]->inputs[0]);

  EXPECT_NE(check(plan), "");
}

TEST(VectorPlan, IsFoundWrongWithoutOneOfItsSums) {
  const Machine machine = node(2);
  Plan plan = make_plan(make_problem({.routine = Routine::dot, .n = 200}), machine,
                        simple(machine, {2, 1}, 100));
  for (Task& task : plan.tasks)
    if (task.kernel == Kernel::add) task.op = 0;

  EXPECT_NE(check(plan), "");
}

TEST(VectorTuner, LeavesVectorsWithTheDeviceThatHasThem) {
  const Machine machine = node(4);
  const Problem axpy = make_problem({.routine = Routine::axpy, .n = 1 << 24},
                                    {.homes = {kFirstDevice + 2, kFirstDevice, kFirstDevice + 2}});

  TuneRequest request;
  request.selects = true;

  const Tuned tuned = tune(axpy, machine, request);

  EXPECT_EQ(tune(axpy, machine, {}).plan.tuning.workers.size(), 4U);
  EXPECT_EQ(tuned.plan.tuning.workers, std::vector<DeviceId>{kFirstDevice + 2});
  EXPECT_EQ(bytes_moved(tuned.plan, machine), 0);
  EXPECT_EQ(check(tuned.plan), "");
}

TEST(VectorTuner, SpreadsAMatrixOnTheHostOverTheLinks) {
  const Machine machine = node(4);
  for (const auto& [m, n] : {std::pair(65536, 64), std::pair(64, 65536), std::pair(16384, 16384)}) {
    const Problem problem = gemv(m, n);

    const Tuned tuned = tune(problem, machine, {});

    ASSERT_EQ(check(tuned.plan), "");
    std::set<DeviceId> busy;
    for (const Task& task : tuned.plan.tasks)
      if (task.kind == TaskKind::compute) busy.insert(task.device());
    EXPECT_EQ(busy.size(), 4u) << m << " x " << n;
    EXPECT_LT(tuned.cost.seconds, 3 * bound(problem, machine).seconds) << m << " x " << n;
  }
}

// The bound holds for every plan, so none may be faster.
TEST(VectorTuner, IsNeverFasterThanTheBound) {
  test::Generator random(5);
  for (int trial = 0; trial < test::scaled(150); ++trial) {
    const int devices = static_cast<int>(between(random, 1, 4));
    const Machine machine = node(devices);
    const Problem problem = test::random_vectors(random, devices, 200'000 >> between(random, 0, 9));
    if (problem.n == 0 || problem.k == 0) continue;

    const Tuned tuned = tune(problem, machine, {});

    ASSERT_EQ(check(tuned.plan), "") << to_text(problem);
    EXPECT_GE(tuned.cost.seconds * (1 + 1e-9), bound(problem, machine).seconds) << to_text(problem);
    EXPECT_LE(std::ssize(tuned.plan.tasks), 30'000) << to_text(problem);
  }
}

TEST(VectorTuner, TakesSmallerTilesWhereMemoryIsShort) {
  const Machine machine = node(2);
  TuneRequest request;
  request.memory_cap.assign(machine.devices.size(), 1 << 20);

  const Tuned tuned = tune(gemv(8192, 8192), machine, request);

  EXPECT_EQ(check(tuned.plan), "");
  EXPECT_LE(tuned.plan.arena_bytes[kFirstDevice], 1 << 20);
}

TEST(VectorProblem, IsReadFromWhatItIsWrittenAs) {
  for (const char* text : {"dgemv m=8 n=5 a@h x@0 y@p", "zgemv m=8 n=5 a@1 x@h y@h transa=c beta=0",
                           "sgemv m=0 n=5 a@h x@h y@h transa=t", "daxpy n=7 x@0 y@1",
                           "zdotc n=7 x@h y@0", "cdotu n=7 x@h y@h r@1", "ddot n=0 x@p y@p"})
    EXPECT_EQ(to_text(parse_problem(text)), text);
}

TEST(VectorProblem, RefusesWhatItHasNot) {
  for (const char* text :
       {"daxpy n=7 m=2", "daxpy x@0 y@0", "ddot n=7 transa=t", "dgemv m=8 a@h", "zdot n=4",
        "ddotc n=4", "dgemv m=8 n=4 b@h", "hgemv m=8 n=4", "daxpy n=-1 x@h y@h"})
    EXPECT_THROW(parse_problem(text), Error) << text;
}

}  // namespace
}  // namespace fleet
