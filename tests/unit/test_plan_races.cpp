// SPDX-License-Identifier: BSD-3-Clause
// test_plan_races.cpp: check() rejects a plan without one of its dependencies whenever some order
// of its tasks gives a wrong C. It knows nothing of faults and times.
#include <gtest/gtest.h>

#include "support/host_trial.hpp"
#include "support/level3_trial.hpp"
#include "support/random_plans.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using test::between;
using test::Generator;
using test::HostTrial;

constexpr int kOrders = 25;

template <typename TrialOf>
bool goes_wrong(const Plan& plan, const Machine& machine, Generator& random) {
  Options options;
  options.inject.poison = true;
  for (int order = 0; order < kOrders; ++order) {
    options.inject.order = random();
    const auto backend = make_host_backend(machine, test::shared_cpu_blas(), options);
    TrialOf trial(plan.problem(), random(), 0);
    const Trace trace = trial.run(plan, *backend);
    if (trace.status != Status::ok || !trial.verdict().empty()) return true;
  }
  return false;
}

/// Runs `trials` plans of problems made by `problem_of`, each without one of its dependencies.
template <typename TrialOf, typename ProblemOf>
void expect_noticed(ProblemOf problem_of, std::int64_t trials) {
  Generator random(2026);
  int dropped = 0, wrong = 0;
  for (std::int64_t trial = 0; trial < trials; ++trial) {
    const int devices = static_cast<int>(between(random, 1, 4));
    const Machine machine = test::node(devices);
    const Problem problem = problem_of(random, devices);
    const Tuning tuning = test::random_tuning(random, machine, problem, 16);
    const auto made = test::plan_if_any(problem, machine, tuning);
    if (!made) continue;
    Plan plan = *made;
    if (!test::drop_one_dependency(plan, random)) continue;
    ++dropped;
    const bool caught = !check(plan).empty();
    if (goes_wrong<TrialOf>(plan, machine, random)) {
      ++wrong;
      ASSERT_TRUE(caught) << "check missed a race: " << to_text(problem);
    }
  }
  EXPECT_GT(wrong, dropped / 4);  // the random orders do expose races
  std::printf("dropped %d, wrong in some order %d\n", dropped, wrong);
}

TEST(Check, NoticesEveryDroppedDependencyThatAnyOrderShows) {
  expect_noticed<HostTrial<double>>(
      [](Generator& random, int devices) {
        Problem problem = test::random_gemm(random, devices, 40);
        problem.type = DataType::f64;
        return problem;
      },
      test::scaled(400));
}

TEST(Check, NoticesThemInPlansWithTriangles) {
  expect_noticed<test::Level3Trial<double>>(
      [](Generator& random, int devices) {
        for (;;) {
          Problem problem = test::random_level3(random, devices, 40);
          problem.type = DataType::f64;
          if (!problem.traits().hermitian && problem.k > 0) return problem;
        }
      },
      test::scaled(400));
}

}  // namespace
}  // namespace fleet
