// SPDX-License-Identifier: BSD-3-Clause
// test_cuda_runs.cpp: runs on the fake CUDA, whose cuBLAS has products only and which captures no
// graphs.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "gpu/gpus.hpp"
#include "run/execute.hpp"
#include "support/composed.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using test::between;
using test::chance;
using test::Composed;
using test::Generator;
using test::gpus;

TEST(CudaRuns, GoOnInStreamsWhereNoCaptureCanBeOpened) {
  constexpr std::int64_t kEdge = 90;
  const auto backend = gpus();
  const Problem problem = make_problem({.m = kEdge, .n = kEdge, .k = kEdge},
                                       {.homes = {kHost, kHost, kHost}, .beta_is_zero = true});
  Tuning tuning{.workers = {kFirstDevice}, .grid = {1, 1}, .tile = 40};
  for (const Device& device : backend->machine().devices)
    tuning.memory_cap.push_back(device.memory_bytes);
  const Plan plan = make_plan(problem, backend->machine(), tuning);
  std::vector<double> a(kEdge * kEdge, 2), b(kEdge * kEdge, 3), c(kEdge * kEdge, 0);
  const Arguments arguments{.data = {a.data(), b.data(), c.data()}, .ld = {kEdge, kEdge, kEdge}};
  constexpr int kRounds = 6, kSerial = 1;
  for (int round = 0; round < kRounds; ++round) {  // the fourth would be captured
    std::ranges::fill(c, -1);
    const Trace trace = execute(plan, arguments, *backend, kSerial);
    ASSERT_EQ(trace.status, Status::ok) << trace.message << " round " << round;
    ASSERT_EQ(c, std::vector<double>(c.size(), 2 * 3 * kEdge)) << round;
  }
}

[[noreturn]] void leave_while_kernels_are_loaded(bool is_started_by_this_thread) {
  const auto start = [] { static const auto* const backend [[maybe_unused]] = gpus().release(); };
  is_started_by_this_thread ? start() : std::thread(start).join();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::exit(0);
}

TEST(CudaRuns, AreOverBeforeWhatCublasHasGoesAtTheEnd) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(leave_while_kernels_are_loaded(true), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(leave_while_kernels_are_loaded(false), testing::ExitedWithCode(0), "");
}

TEST(CudaRuns, ScaleMatricesAtHomeBetweenCallsThatUseThem) {
  Generator random(5);
  const auto backend = gpus();
  const int devices = backend->machine().device_count();
  int scaled_first = 0, scaled_last = 0;  // tasks that wait for such, and such that wait
  for (int trial = 0; trial < test::scaled(200); ++trial) {
    Composed composed;
    const Cuts cuts{0, 6, between(random, 7, 15)};
    const std::int64_t order = cuts.back();
    const Problem product = make_problem({.m = order, .n = order, .k = order});
    const Problem scaling = make_problem({.m = order, .n = order, .k = 0});
    const bool begins = chance(random, 50);
    constexpr std::array<MatrixId, 3> kNew{kNoMatrix, kNoMatrix, kNoMatrix};
    test::append_call(composed, begins ? scaling : product, cuts, kNew, random, devices);
    const MatrixId c = composed.program.calls.front().target();
    if (!begins)
      test::append_call(composed, scaling, cuts, {kNoMatrix, kNoMatrix, c}, random, devices);
    const bool reads = chance(random, 50);
    test::append_call(composed, product, cuts,
                      {reads ? c : kNoMatrix, kNoMatrix, reads ? kNoMatrix : c}, random, devices);
    const Tuning tuning = test::random_tuning_of_deals(random, backend->machine());
    std::vector<Dealing> deals;
    for (const ProgramCall& call : composed.program.calls)
      deals.push_back(test::random_dealing(random, call, tuning.grid));
    const Plan plan = schedule(std::make_shared<const TileProgram>(composed.program), deals,
                               backend->machine(), tuning);
    test::ComposedTrial<double> run(composed, random());
    const Trace trace = run.run(plan, *backend);
    ASSERT_EQ(trace.status, Status::ok) << trace.message << " trial " << trial;
    ASSERT_EQ(run.verdict(), "") << trial;
    for (const Task& task : plan.tasks) {
      const auto scales_at_home = [](const Task& one) {
        return one.kind == TaskKind::compute && one.kernel == Kernel::scale &&
               on_host(one.device());
      };
      scaled_last += scales_at_home(task) && task.after_count > 0;
      for (const TaskId earlier : plan.after(task))
        scaled_first += scales_at_home(plan.tasks[static_cast<std::size_t>(earlier)]);
    }
  }
  EXPECT_GT(scaled_first, 0);
  EXPECT_GT(scaled_last, 0);
}

}  // namespace
}  // namespace fleet
