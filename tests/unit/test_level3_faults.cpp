// SPDX-License-Identifier: BSD-3-Clause
// test_level3_faults.cpp: runs of the routines with triangles in which a copy or a kernel fails, or
// a device is lost, are finished by the CPU, whatever was done by then.
#include <gtest/gtest.h>

#include "base/error.hpp"
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

Inject inject_of(Fault fault, Generator& random, const Plan& plan) {
  const std::int64_t tasks = std::ssize(plan.tasks);
  Inject inject;
  if (chance(random, 50)) inject.order = random();
  if (fault == Fault::copy) inject.copy = between(random, 1, std::max<std::int64_t>(1, tasks / 2));
  if (fault == Fault::launch)
    inject.launch = between(random, 1, std::max<std::int64_t>(1, tasks / 3));
  if (fault == Fault::lost)
    inject.lost = Inject::Lost{static_cast<int>(between(random, 0, kDevices - 1)),
                               between(random, 0, std::max<std::int64_t>(1, tasks / 8))};
  return inject;
}

/// Runs `trials` random problems with one fault each. A device that is lost holds no operand.
void expect_right_c(Fault fault, std::int64_t trials, std::uint64_t seed) {
  Generator random(seed);
  int failed = 0;
  for (std::int64_t trial = 0; trial < trials; ++trial) {
    const Machine machine = test::node(kDevices);
    Problem problem = test::random_level3(random, kDevices, 60);
    if (problem.k == 0 || problem.m == 0 || problem.n == 0) continue;
    if (fault == Fault::lost)
      for (Operand& operand : problem.operands)
        operand.home = chance(random, 50) ? kHost : kPageable;
    if (!problem.traits().has_b) problem.operands[kB].home = problem.operands[kA].home;
    const Tuning tuning = test::random_tuning(random, machine, problem, 20);
    Plan plan;
    try {
      plan = make_plan(problem, machine, tuning);
    } catch (const Error&) {
      continue;
    }
    Options options;
    options.inject = inject_of(fault, random, plan);
    const auto backend = make_host_backend(machine, test::shared_cpu_blas(), options);
    test::Level3Trial<double> real(problem, random(), 1);
    test::Level3Trial<std::complex<double>> complex(problem, random(), 1);
    const bool is_real = problem.type == DataType::f64;
    if (!is_real && problem.type != DataType::c64) continue;
    const Trace trace =
        is_real ? real.run(plan, *backend, true) : complex.run(plan, *backend, true);
    failed += trace.status != Status::ok;
    ASSERT_EQ(is_real ? real.verdict() : complex.verdict(), "")
        << trial << " rules " << to_string(tuning.rules);
  }
  EXPECT_GT(failed, trials / 20);
}

TEST(Level3Faults, AFailedCopyLeavesTheRightC) {
  expect_right_c(Fault::copy, test::scaled(1500), 31);
}

TEST(Level3Faults, AFailedKernelLeavesTheRightC) {
  expect_right_c(Fault::launch, test::scaled(1500), 32);
}

TEST(Level3Faults, ALostDeviceLeavesTheRightCOnTheHost) {
  expect_right_c(Fault::lost, test::scaled(1500), 33);
}

}  // namespace
}  // namespace fleet
