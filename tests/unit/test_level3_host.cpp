// SPDX-License-Identifier: BSD-3-Clause
// test_level3_host.cpp: plans of the routines with triangles, run on virtual devices in random
// legal orders and on threads, give what the oracle gives, and touch nothing else.
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

struct Tally {
  int run = 0;
  int refused = 0;
  std::string wrong;
};

template <typename Work>
std::string with_blas_type(DataType type, Work work) {
  switch (type) {
    case DataType::f32:
      return work.template operator()<float>();
    case DataType::f64:
      return work.template operator()<double>();
    case DataType::c32:
      return work.template operator()<std::complex<float>>();
    default:
      return work.template operator()<std::complex<double>>();
  }
}

void try_one(Generator& random, std::int64_t most, const Options& options, Tally& tally) {
  const int devices = static_cast<int>(between(random, 1, 5));
  const Machine machine =
      chance(random, 50) ? test::node(devices) : test::uneven_node(random, devices);
  const Problem problem = test::random_level3(random, devices, most);
  if (problem.k == 0 || problem.m == 0 || problem.n == 0) return;  // never comes to a plan
  const Tuning tuning = test::random_tuning(random, machine, problem, most / 3);
  Plan plan;
  try {
    plan = make_plan(problem, machine, tuning);
  } catch (const Error&) {
    ++tally.refused;
    return;
  }
  ++tally.run;
  const std::int64_t guard_rows = between(random, 0, 3);
  const std::string wrong = with_blas_type(problem.type, [&]<typename T>() {
    const auto backend = make_host_backend(machine, test::shared_cpu_blas(), options);
    test::Level3Trial<T> trial(problem, random(), guard_rows);
    const Trace trace = trial.run(plan, *backend);
    return trace.status == Status::ok ? trial.verdict() : trace.message;
  });
  if (!wrong.empty() && tally.wrong.empty())
    tally.wrong = wrong + " rules " + to_string(tuning.rules);
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

// Tiles larger than the blocks that triangles are cut into.
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
