// SPDX-License-Identifier: BSD-3-Clause
// test_level3_faults.cpp: the CPU completes runs of the routines with triangles in which a copy or
// a kernel fails, or a device is lost, whatever was done before.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "support/level3_trial.hpp"
#include "support/random_plans.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using test::between;
using test::chance;
using test::Generator;

constexpr int kDevices = 3;

enum class Fault { copy, launch, lost };

/// The number of tasks for which `counts` returns true.
template <typename Counts>
std::int64_t count_tasks(const Plan& plan, Counts counts) {
  return std::ranges::count_if(plan.tasks, counts);
}

/// A fault of one task of the plan; nullopt if it has no such task.
std::optional<Inject> inject_of(Fault fault, Generator& random, const Plan& plan) {
  Inject inject;
  if (chance(random, 50)) inject.order = random();
  const int device = static_cast<int>(between(random, 0, kDevices - 1));
  const std::int64_t tasks = count_tasks(plan, [&](const Task& task) {
    const bool computes = task.kind == TaskKind::compute;
    if (fault == Fault::lost) return computes && task.to.device == kFirstDevice + device;
    return computes == (fault == Fault::launch);
  });
  if (tasks == 0) return std::nullopt;
  if (fault == Fault::copy) inject.copy = between(random, 1, tasks);
  if (fault == Fault::launch) inject.launch = between(random, 1, tasks);
  if (fault == Fault::lost) inject.lost = Inject::Lost{device, between(random, 0, tasks - 1)};
  return inject;
}

/// Makes the plan one whose results wait for inputs, in several turns.
void make_late(Generator& random, Problem& problem, Tuning& tuning) {
  for (Operand& operand : problem.operands) operand.home = chance(random, 50) ? kHost : kPageable;
  tuning.out_of_core = OutOfCore::none;
  tuning.memory_cap.clear();
  tuning.owners = Owners::blocks;
  tuning.worker_shares.clear();
  if (tuning.has_cpu()) {
    tuning.workers.pop_back();
    tuning.cpu_share = tuning.cpu_part = 0;
  }
  const std::int64_t free_side = problem.side == Side::left ? problem.n : problem.m;
  tuning.group = between(random, 1, std::max<std::int64_t>(1, free_side / 2));
  tuning.group_m = 0;
  tuning.inputs_first = true;
}

/// Runs `faults` random plans with one fault each. Lost devices hold no operands. With
/// `only_late` results wait for inputs.
void expect_right_c(Fault fault, std::int64_t faults, std::uint64_t seed, bool only_late = false) {
  Generator random(seed);
  std::int64_t failed = 0;
  // Problems without a product, and plans without a task for the fault, are drawn again.
  const std::int64_t trials = (only_late ? 16 : 4) * faults;
  for (std::int64_t trial = 0; trial < trials && failed < faults; ++trial) {
    const Machine machine = test::node(kDevices);
    Problem problem = test::random_level3(random, kDevices, 60);
    if (problem.k == 0 || problem.m == 0 || problem.n == 0) continue;
    if (fault == Fault::lost)
      for (Operand& operand : problem.operands)
        operand.home = chance(random, 50) ? kHost : kPageable;
    if (!problem.traits().has_b) problem.operands[kB].home = problem.operands[kA].home;
    Tuning tuning = test::random_tuning(random, machine, problem, 20);
    // With `pairs` a tile goes home in pieces, and C is undefined where its device is lost
    // meanwhile.
    if (fault == Fault::lost && tuning.routing == Routing::pairs) tuning.routing = Routing::fleet;
    if (only_late) {
      if (!problem.traits().triangular) continue;
      make_late(random, problem, tuning);
    }
    const auto plan = test::plan_if_any(problem, machine, tuning);
    if (!plan) continue;
    ASSERT_TRUE(!only_late || decompose(problem, tuning).deal.is_late);
    const auto inject = inject_of(fault, random, *plan);
    if (!inject) continue;
    Options options;
    options.inject = *inject;
    const auto backend = make_host_backend(machine, test::shared_cpu_blas(), options);
    test::with_blas_type(problem.type, [&]<typename T>() {
      test::Level3Trial<T> run(problem, random(), 1);
      const Trace trace = run.run(*plan, *backend, true);
      ASSERT_NE(trace.status, Status::ok) << trial << ": the fault did not occur";
      ASSERT_EQ(run.verdict(), "") << trial << " rules " << to_string(tuning.rules);
    });
    if (::testing::Test::HasFatalFailure()) return;
    ++failed;
  }
  EXPECT_EQ(failed, faults);
}

TEST(Level3Faults, AFailedCopyLeavesTheRightC) {
  expect_right_c(Fault::copy, test::scaled(1000), 31);
}

TEST(Level3Faults, AFailedKernelLeavesTheRightC) {
  expect_right_c(Fault::launch, test::scaled(1000), 32);
}

TEST(Level3Faults, ALostDeviceLeavesTheRightCOnTheHost) {
  expect_right_c(Fault::lost, test::scaled(1000), 33);
}

TEST(Level3Faults, OfResultsThatWaitForInputsLeaveTheRightC) {
  for (const Fault fault : {Fault::copy, Fault::launch, Fault::lost})
    expect_right_c(fault, test::scaled(400), 34, true);
}

}  // namespace
}  // namespace fleet
