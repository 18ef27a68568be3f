// SPDX-License-Identifier: BSD-3-Clause
// test_host_random.cpp: plans for random problems, machines and rules give the right C on virtual
// devices, in random legal orders and on threads, with NaN in all unwritten memory. It knows
// nothing of faults.
#include <gtest/gtest.h>

#include <thread>

#include "support/random_runs.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using test::between;
using test::Generator;
using test::HostTrial;
using test::Tally;

/// Operands with homes on devices lie in device memory.
void try_one(Generator& random, std::int64_t most, const Options& options, Tally& tally) {
  const Machine machine = test::random_node(random);
  const Problem problem = test::random_gemm(random, machine.device_count(), most);
  const std::int64_t slack = between(random, 0, 3);
  test::try_random_plan(random, machine, problem, 24, options, tally,
                        [&](const Plan& plan, Backend& backend) {
                          return test::with_type(problem.type, [&]<typename T>() {
                            return outcome(HostTrial<T>(problem, random(), slack), plan, backend);
                          });
                        });
}

TEST(RandomPlans, GiveTheRightCInRandomLegalOrders) {
  Generator random(11);
  Tally tally;
  Options options;
  options.inject.poison = true;
  for (int trial = 0; trial < test::scaled(2000) && tally.wrong.empty(); ++trial) {
    options.inject.order = random();
    try_one(random, 70, options, tally);
  }

  EXPECT_EQ(tally.wrong, "");
  EXPECT_GT(tally.run, tally.refused);
}

TEST(RandomPlans, GiveTheRightCOnThreads) {
  Generator random(12);
  Tally tally;
  Options options;
  options.inject.poison = true;
  for (int trial = 0; trial < test::scaled(500) && tally.wrong.empty(); ++trial)
    try_one(random, 90, options, tally);

  EXPECT_EQ(tally.wrong, "");
  EXPECT_GT(tally.run, tally.refused);
}

TEST(RandomPlans, GiveTheRightCOnSeveralBackendsAtOnce) {
  std::array<Tally, 3> tallies;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < tallies.size(); ++t)
    threads.emplace_back([&tallies, t] {
      Generator random(13 + t);
      for (int trial = 0; trial < test::scaled(100) && tallies[t].wrong.empty(); ++trial)
        try_one(random, 70, {}, tallies[t]);
    });
  for (std::thread& thread : threads) thread.join();

  for (const Tally& tally : tallies) EXPECT_EQ(tally.wrong, "");
}

TEST(RandomPlans, GiveTheSameBitsWhateverTheOrder) {
  const Machine machine = test::node(3);
  const Problem problem = make_problem({.m = 61, .n = 47, .k = 83});
  Generator random(14);
  const Plan plan = make_plan(problem, machine, test::random_tuning(random, machine, problem, 16));
  std::vector<std::vector<double>> results;
  for (int run = 0; run < 6; ++run) {
    Options options;
    if (run < 3) options.inject.order = random();
    const auto backend = make_host_backend(machine, test::shared_cpu_blas(), options);
    HostTrial<double> trial(problem, 15);
    ASSERT_EQ(trial.run(plan, *backend).status, Status::ok);
    ASSERT_EQ(trial.verdict(), "");
    const double* c = trial.operand(kC).data();
    results.emplace_back(c, c + problem.m * problem.n);
  }

  for (const auto& result : results) EXPECT_EQ(result, results[0]);
}

}  // namespace
}  // namespace fleet
