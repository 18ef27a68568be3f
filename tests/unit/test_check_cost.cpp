// SPDX-License-Identifier: BSD-3-Clause
// test_check_cost.cpp: the time and memory of check() on a large plan, and that it finds a fault
// there.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdio>
#include <fstream>
#include <limits>
#include <string>

#include "support/random_plans.hpp"
#include "support/thread_seconds.hpp"

namespace fleet {
namespace {

using test::thread_seconds;

/// The peak of resident memory since begin_peak(), so that the planner's memory does not count.
double peak_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (double kib = 0; word == "VmHWM:" && status >> kib) return kib / 1024;
  return std::numeric_limits<double>::infinity();
}
double begin_peak() {
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << 5;
  return peak_mib();
}

// 72 devices with links between any two have 5,256 queues of copies and 288 lanes: data kept for
// every pair of queues, or for every task and queue, would exceed the limit.
TEST(CheckCost, OfAHundredThousandTasksOnManyDevicesIsSmall) {
  const Machine machine = test::node(72);
  for (const Problem& problem :
       {make_problem({.m = 40960, .n = 40960, .k = 40960}),
        make_problem({.routine = Routine::trsm, .m = 49152, .n = 49152})}) {
    const bool is_gemm = problem.routine == Routine::gemm;
    Plan plan = make_plan(problem, machine, test::simple(machine, {8, 9}, is_gemm ? 1024 : 768));
    EXPECT_GT(plan.tasks.size(), 90000u);
    const double before_mib = begin_peak(), begin_s = thread_seconds();
    EXPECT_EQ(check(plan), "");
    const double seconds = thread_seconds() - begin_s, mib = peak_mib() - before_mib;
    std::printf("%zu tasks: %.2f s, %.0f MiB\n", plan.tasks.size(), seconds, mib);
    EXPECT_LT(seconds, 5);
    EXPECT_LT(mib, 500);

    // A product that does not wait for the copy of its input.
    int dropped = 0;
    for (std::size_t t = plan.tasks.size() / 2; t < plan.tasks.size() && dropped < 3; ++t) {
      Task& task = plan.tasks[t];
      if (task.kind != TaskKind::compute || task.after_count == 0) continue;
      const std::int32_t count = task.after_count;
      task.after_count = 0;
      EXPECT_NE(check(plan), "") << t;
      task.after_count = count;
      ++dropped;
    }
    EXPECT_EQ(dropped, 3);
  }
}

}  // namespace
}  // namespace fleet
