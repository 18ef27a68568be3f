// SPDX-License-Identifier: BSD-3-Clause
// test_tune_cost.cpp: the time of tuning. It runs alone, because it measures time.
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <cstdio>

#include "support/random_plans.hpp"
#include "tune/tune.hpp"

namespace fleet {
namespace {

double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Tuning and planning together: under 10 ms for 3,000 tasks and 30 ms for 8,000, one core.
TEST(TuneCost, StaysUnderItsBudget) {
  const Machine machine = test::node(8);
  // The least of many runs, to exclude the time of other programs on the machine.
  const auto seconds_of = [&](std::int64_t n, std::int64_t tile, double limit_s,
                              std::size_t& tasks) {
    double best_s = 1;
    for (int repeat = 0; repeat < 60 && (repeat < 5 || best_s >= limit_s); ++repeat) {
      const double begin_s = thread_seconds();
      const Tuned tuned = tune(make_problem({.m = n, .n = n, .k = n}), machine, {.tile = tile});
      best_s = std::min(best_s, thread_seconds() - begin_s);
      tasks = tuned.plan.tasks.size();
    }
    return best_s;
  };
  std::size_t tasks = 0;
  const double middle_s = seconds_of(16384, 1408, 0.010, tasks);
  RecordProperty("tasks_middle", static_cast<int>(tasks));
  EXPECT_GE(tasks, 2800u);
  EXPECT_LT(middle_s, 0.010);
  const double large_s = seconds_of(16384, 960, 0.030, tasks);
  EXPECT_GE(tasks, 7500u);
  EXPECT_LT(large_s, 0.030);
  std::printf("tuning and planning: %.2f ms and %.2f ms\n", middle_s * 1e3, large_s * 1e3);
}

}  // namespace
}  // namespace fleet
