// SPDX-License-Identifier: BSD-3-Clause
// test_vectors_host.cpp: plans of gemv, axpy and dot, run on virtual devices in random legal orders
// and on threads, agree with plain sums and write nothing else.
#include <gtest/gtest.h>

#include "support/random_runs.hpp"
#include "support/scale.hpp"
#include "support/vector_trial.hpp"

namespace fleet {
namespace {

using test::Generator;
using test::Tally;

void try_one(Generator& random, std::int64_t most, const Options& options, Tally& tally) {
  const Machine machine = test::random_node(random);
  const Problem problem = test::random_vectors(random, machine.device_count(), most);
  test::try_random_plan(random, machine, problem, most / 3, options, tally,
                        [&](const Plan& plan, Backend& backend) {
                          return test::with_type(problem.type, [&]<typename T>() {
                            return outcome(test::VectorTrial<T>(problem, random()), plan, backend);
                          });
                        });
}

TEST(VectorPlans, GiveTheRightResultsInRandomLegalOrders) {
  Generator random(31);
  Tally tally;
  Options options;
  options.inject.poison = true;
  for (int trial = 0; trial < test::scaled(1500) && tally.wrong.empty(); ++trial) {
    options.inject.order = random();
    try_one(random, 70, options, tally);
  }

  EXPECT_EQ(tally.wrong, "");
  EXPECT_GT(tally.run, 4 * tally.refused);
}

TEST(VectorPlans, GiveTheRightResultsOnThreads) {
  Generator random(32);
  Tally tally;
  Options options;
  options.inject.poison = true;
  for (int trial = 0; trial < test::scaled(100) && tally.wrong.empty(); ++trial)
    try_one(random, 700, options, tally);

  EXPECT_EQ(tally.wrong, "");
  EXPECT_GT(tally.run, 4 * tally.refused);
}

// Sums over parts of k are added in one order, whatever the order of the tasks.
TEST(VectorPlans, GiveTheSameBitsInAnyOrder) {
  const Machine machine = test::node(4);
  const Problem dot = make_problem({.routine = Routine::dot, .n = 5000});
  Tuning tuning{.grid = {4, 1}, .tile = 100};
  for (int w = 0; w < 4; ++w) tuning.workers.push_back(kFirstDevice + w);
  const Plan plan = make_plan(dot, machine, tuning);
  std::vector<double> results;

  for (const std::uint64_t order : {1, 2, 3, 4, 5}) {
    Options options;
    options.inject.order = order;
    const auto backend = make_host_backend(machine, test::shared_cpu_blas(), options);
    test::VectorTrial<double> trial(dot, 7);
    ASSERT_EQ(trial.run(plan, *backend).status, Status::ok);
    results.push_back(trial.result()[0]);
  }

  for (const double result : results) EXPECT_EQ(result, results[0]);
}

template <typename T>
std::string by_loops_and_library(const Problem& problem, std::uint64_t seed) {
  // The host is the only worker: one kernel on the operands in place.
  const Machine machine = test::node(1);
  Tuning tuning{.workers = {kHost}, .grid = {1, 1}, .tile = 1 << 20};
  const Plan plan = make_plan(problem, machine, tuning);
  for (const std::shared_ptr<CpuBlas>& blas :
       {test::shared_cpu_blas(), std::shared_ptr<CpuBlas>(std::make_shared<PlainBlas>())}) {
    const auto backend = make_host_backend(machine, blas, {});
    test::VectorTrial<T> trial(problem, seed);
    const Trace trace = trial.run(plan, *backend);
    if (trace.status != Status::ok) return trace.message;
    if (const std::string wrong = trial.verdict(); !wrong.empty())
      return blas->name() + ": " + wrong;
  }
  return "";
}

TEST(VectorKernels, GiveTheSameByLoopsAsByTheLibrary) {
  Generator random(33);
  for (int trial = 0; trial < test::scaled(200); ++trial) {
    Problem problem = test::random_vectors(random, 1, 80);
    for (Operand& operand : problem.operands) operand.home = kHost;
    ASSERT_EQ(
        test::with_type(problem.type,
                        [&]<typename T>() { return by_loops_and_library<T>(problem, random()); }),
        "");
  }
}

TEST(VectorKernels, AllowIncrementsOfZeroWhereTheReferenceDoes) {
  double x = 3, y[3] = {1, 2, 4}, sum = 0;
  const auto vector = [](double* data, std::int64_t increment) {
    return View{.data = data, .rows = 1, .cols = 3, .ld = increment};
  };
  const auto blas = test::shared_cpu_blas();

  blas->multiply_vectors(
      {.kernel = Kernel::axpy, .alpha = 2.0, .beta = 1.0, .a = vector(&x, 0), .c = vector(y, 1)});
  blas->multiply_vectors(
      {.kernel = Kernel::axpy, .alpha = 1.0, .beta = 1.0, .a = vector(y, 1), .c = vector(&sum, 0)});

  EXPECT_EQ(y[0] + 100 * y[1] + 10000 * y[2], 7 + 800 + 100000);
  EXPECT_EQ(sum, 25);
}

}  // namespace
}  // namespace fleet
