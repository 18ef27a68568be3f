// SPDX-License-Identifier: BSD-3-Clause
// test_level3_host.cpp: plans of the routines with triangles, run on virtual devices in random
// legal orders and on threads, agree with the oracle and write nothing else.
#include <gtest/gtest.h>

#include "support/level3_trial.hpp"
#include "support/random_runs.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using test::between;
using test::Generator;
using test::Tally;

void try_one(Generator& random, std::int64_t most, const Options& options, Tally& tally) {
  const Machine machine = test::random_node(random);
  const Problem problem = test::random_level3(random, machine.device_count(), most);
  if (problem.k == 0 || problem.m == 0 || problem.n == 0) return;  // such a call needs no plan
  const std::int64_t guard_rows = between(random, 0, 3);
  test::try_random_plan(
      random, machine, problem, most / 3, options, tally, [&](const Plan& plan, Backend& backend) {
        return test::with_blas_type(problem.type, [&]<typename T>() {
          return outcome(test::Level3Trial<T>(problem, random(), guard_rows), plan, backend);
        });
      });
}

TEST(Level3Plans, GiveTheRightCInRandomLegalOrders) {
  Generator random(21);
  Tally tally;
  Options options;
  options.inject.poison = true;
  for (int trial = 0; trial < test::scaled(1200) && tally.wrong.empty(); ++trial) {
    options.inject.order = random();
    try_one(random, 70, options, tally);
  }

  EXPECT_EQ(tally.wrong, "");
  EXPECT_GT(tally.run, tally.refused);
}

// Tiles are larger than the blocks into which kernels cut triangles.
TEST(Level3Plans, GiveTheRightCOnThreads) {
  Generator random(22);
  Tally tally;
  Options options;
  options.inject.poison = true;
  for (int trial = 0; trial < test::scaled(60) && tally.wrong.empty(); ++trial)
    try_one(random, 500, options, tally);

  EXPECT_EQ(tally.wrong, "");
  EXPECT_GT(tally.run, tally.refused);
}

}  // namespace
}  // namespace fleet
