// SPDX-License-Identifier: BSD-3-Clause
// test_host_backend.cpp: plans made by hand on virtual devices: every kind of task, in plan order
// on threads and in random orders, with memory that starts and ends as NaN. It knows no planner.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "backend/host/backend.hpp"
#include "base/error.hpp"
#include "support/hand_gemm.hpp"
#include "support/host_trial.hpp"

namespace fleet {
namespace {

using test::HandGemm;
using test::HostTrial;
using test::shared_cpu_blas;
using test::virtual_devices;

constexpr DeviceId kD0 = kFirstDevice, kD1 = kFirstDevice + 1, kD2 = kFirstDevice + 2;
constexpr TileId kTileA{kA, 0, 0}, kTileB{kB, 0, 0}, kTileC{kC, 0, 0};

Options poisoned() {
  Options options;
  options.inject.poison = true;
  return options;
}

Options random_order(std::uint64_t seed) {
  Options options = poisoned();
  options.inject.order = seed;
  return options;
}

std::unique_ptr<Backend> backend_of(const Machine& machine, const Options& options = poisoned()) {
  return make_host_backend(machine, shared_cpu_blas(), options);
}

/// A, B and C to device 0, one product, C back.
Plan one_product(const Machine& machine, const Problem& problem, int chunks = 1) {
  HandGemm plan(machine, problem, {problem.m, problem.n, problem.k});
  const Where a = plan.slot(kD0, kTileA), b = plan.slot(kD0, kTileB), c = plan.slot(kD0, kTileC);
  const bool updates = problem.operands[kC].access == Access::update;
  std::vector<TaskId> inputs = {plan.copy({.tile = kTileA, .to = a, .chunks = chunks}),
                                plan.copy({.tile = kTileB, .to = b, .chunks = chunks})};
  if (updates) inputs.push_back(plan.copy({.tile = kTileC, .to = c, .chunks = chunks}));
  const TaskId product =
      plan.multiply({.a_at = a,
                     .b_at = b,
                     .c = kTileC,
                     .to = c,
                     .accumulate = updates ? Accumulate::beta : Accumulate::overwrite,
                     .after = inputs});
  plan.copy({.tile = kTileC, .from = c, .after = {product}, .chunks = chunks});
  return plan.get();
}

TEST(HostBackend, MultipliesStridedOperandsOfEveryTypeAndFlag) {
  const Machine machine = virtual_devices(1);
  const auto backend = backend_of(machine);
  std::uint64_t seed = 0;
  for (DataType type : {DataType::f32, DataType::f64, DataType::c32, DataType::c64, DataType::f16,
                        DataType::bf16, DataType::tf32})
    for (Op op_a : {Op::none, Op::transpose, Op::conjugate})
      for (Op op_b : {Op::none, Op::transpose, Op::conjugate})
        for (bool beta_is_zero : {false, true}) {
          const Problem problem =
              make_problem({.type = type, .op_a = op_a, .op_b = op_b, .m = 13, .n = 7, .k = 11},
                           {.beta_is_zero = beta_is_zero});
          const Plan plan = one_product(machine, problem, 3);
          const std::string wrong = test::with_type(type, [&]<typename T>() {
            HostTrial<T> trial(problem, ++seed, 5);
            EXPECT_EQ(trial.run(plan, *backend).status, Status::ok);
            return trial.verdict();
          });
          EXPECT_EQ(wrong, "") << to_text(problem);
        }
}

TEST(HostBackend, SaysWhenEachTaskRan) {
  const Machine machine = virtual_devices(1);
  const Problem problem = make_problem({.m = 40, .n = 40, .k = 40});
  const Plan plan = one_product(machine, problem);
  const auto backend = backend_of(machine);
  HostTrial<double> trial(problem, 1);

  const Trace trace = trial.run(plan, *backend);

  EXPECT_EQ(trace.source, CostSource::measured);
  EXPECT_EQ(trace.failed, kNoTask);
  EXPECT_EQ(trace.lost, -1);
  ASSERT_EQ(trace.spans.size(), plan.tasks.size());
  for (std::size_t t = 0; t < trace.spans.size(); ++t) {
    EXPECT_LE(0, trace.spans[t].start_s);
    EXPECT_LE(trace.spans[t].start_s, trace.spans[t].stop_s);
    EXPECT_LE(trace.spans[t].stop_s, trace.seconds);
    for (TaskId earlier : plan.after(plan.tasks[t]))
      EXPECT_LE(trace.spans[static_cast<std::size_t>(earlier)].stop_s, trace.spans[t].start_s);
  }
}

/// Device j computes tile column j of C; A goes host -> 0 -> 1 -> 2 as a chain of chunks.
Plan chain_over_three(const Machine& machine, const Problem& problem, int chunks) {
  HandGemm plan(machine, problem, {problem.m, (problem.n + 2) / 3, problem.k});
  TaskId upstream = kNoTask;
  Where holder{kHost};
  for (int d = 0; d < 3; ++d) {
    const TileId b{kB, 0, d}, c{kC, 0, d};
    const DeviceId device = kFirstDevice + d;
    const Where a_at = plan.slot(device, kTileA), b_at = plan.slot(device, b),
                c_at = plan.slot(device, c);
    upstream = plan.copy(
        {.tile = kTileA, .from = holder, .to = a_at, .chunks = chunks, .upstream = upstream});
    holder = a_at;
    const TaskId b_here = plan.copy({.tile = b, .to = b_at});
    const TaskId product = plan.multiply({.a_at = a_at,
                                          .b_at = b_at,
                                          .c = c,
                                          .to = c_at,
                                          .accumulate = Accumulate::overwrite,
                                          .after = {upstream, b_here}});
    plan.copy({.tile = c, .from = c_at, .after = {product}});
  }
  return plan.get();
}

TEST(HostBackend, ForwardsChunksAlongAChainOfDevices) {
  const Machine machine = virtual_devices(3);
  const auto backend = backend_of(machine);
  for (std::int64_t k : {1, 5, 64, 200})
    for (int chunks : {1, 2, 8, 255}) {
      const Problem problem = make_problem({.m = 33, .n = 30, .k = k}, {.beta_is_zero = true});
      HostTrial<double> trial(problem, 3, 2);

      EXPECT_EQ(trial.run(chain_over_three(machine, problem, chunks), *backend).status, Status::ok);

      EXPECT_EQ(trial.verdict(), "") << "k " << k << " chunks " << chunks;
    }
}

TEST(HostBackend, GivesTheSameProductInEveryRandomOrder) {
  const Machine machine = virtual_devices(3);
  const Problem problem = make_problem({.m = 17, .n = 12, .k = 20}, {.beta_is_zero = true});
  const Plan plan = chain_over_three(machine, problem, 4);
  std::vector<std::vector<TaskId>> orders;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    HostTrial<double> trial(problem, 4);
    const Trace trace = trial.run(plan, *backend_of(machine, random_order(seed)));
    EXPECT_EQ(trial.verdict(), "") << seed;
    std::vector<TaskId> order(plan.tasks.size());
    for (std::size_t t = 0; t < order.size(); ++t) order[t] = static_cast<TaskId>(t);
    std::ranges::stable_sort(
        order, {}, [&](TaskId t) { return trace.spans[static_cast<std::size_t>(t)].stop_s; });
    if (std::ranges::find(orders, order) == orders.end()) orders.push_back(order);
  }

  EXPECT_GT(orders.size(), 5u);
}

TEST(HostBackend, ShowsAMissingDependencyInSomeRandomOrder) {
  const Machine machine = virtual_devices(1);
  const Problem problem = make_problem({.m = 9, .n = 9, .k = 9});
  Plan plan = one_product(machine, problem);
  plan.tasks[3].after_count = 1;  // the product no longer waits for B and C
  int wrong = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    HostTrial<double> trial(problem, 5);
    trial.run(plan, *backend_of(machine, random_order(seed)));
    wrong += !trial.verdict().empty();
  }

  EXPECT_GT(wrong, 5);
  EXPECT_LT(wrong, 20);
}

TEST(HostBackend, RefusesTasksThatWaitForEachOtherInsteadOfHanging) {
  const Machine machine = virtual_devices(1);
  const Problem problem = make_problem({.m = 4, .n = 4, .k = 4});
  Plan plan = one_product(machine, problem);
  plan.after_pool[0] = 4;  // a cycle: the product and the copy wait for each other
  HostTrial<double> trial(problem, 6);

  const Trace trace = trial.run(plan, *backend_of(machine, random_order(1)));

  EXPECT_EQ(trace.status, Status::internal);
}

TEST(HostBackend, BringsPageableOperandsThroughThePinnedRing) {
  const Machine machine = virtual_devices(1);
  const Problem problem =
      make_problem({.m = 21, .n = 18, .k = 40},
                   {.homes = {kPageable, kPageable, kPageable}, .beta_is_zero = true});
  HandGemm plan(machine, problem, {problem.m, problem.n, problem.k});
  const auto in = [&](const TileId& tile) {
    const Where ring = plan.slot(kHost, tile), there = plan.slot(kD0, tile);
    const TaskId hop = plan.copy({.tile = tile, .from = {kPageable}, .to = ring, .chunks = 6});
    const TaskId arrival =
        plan.copy({.tile = tile, .from = ring, .to = there, .chunks = 6, .upstream = hop});
    return std::pair(there, arrival);
  };
  const auto [a, a_here] = in(kTileA);
  const auto [b, b_here] = in(kTileB);
  const Where c = plan.slot(kD0, kTileC), ring = plan.slot(kHost, kTileC);
  const TaskId product = plan.multiply({.a_at = a,
                                        .b_at = b,
                                        .c = kTileC,
                                        .to = c,
                                        .accumulate = Accumulate::overwrite,
                                        .after = {a_here, b_here}});
  const TaskId out =
      plan.copy({.tile = kTileC, .from = c, .to = ring, .after = {product}, .chunks = 6});
  plan.copy({.tile = kTileC, .from = ring, .to = {kPageable}, .chunks = 6, .upstream = out});

  for (const Options& options : {poisoned(), random_order(1), random_order(2)}) {
    HostTrial<double> trial(problem, 7, 3);
    EXPECT_EQ(trial.run(plan.get(), *backend_of(machine, options)).status, Status::ok);
    EXPECT_EQ(trial.verdict(), "");
  }
}

// One tile: alpha*A*B from two steps of k, with C fetched late and added. The other tile: beta*C by
// scale.
TEST(HostBackend, AddsAndScalesTilesOfC) {
  const Machine machine = virtual_devices(1);
  const Problem problem = make_problem({.m = 12, .n = 10, .k = 16});
  HandGemm plan(machine, problem, {problem.m, problem.n, 8});
  const Where sum = plan.slot(kD0, kTileC), late = plan.slot(kD0, kTileC);
  std::vector<TaskId> last;
  for (int k = 0; k < 2; ++k) {
    const TileId a{kA, 0, k}, b{kB, k, 0};
    const Where a_at = plan.slot(kD0, a), b_at = plan.slot(kD0, b);
    std::vector<TaskId> after = {plan.copy({.tile = a, .to = a_at}),
                                 plan.copy({.tile = b, .to = b_at})};
    after.insert(after.end(), last.begin(), last.end());
    last = {plan.multiply({.a_at = a_at,
                           .b_at = b_at,
                           .c = kTileC,
                           .to = sum,
                           .accumulate = k == 0 ? Accumulate::overwrite : Accumulate::sum,
                           .k_index = k,
                           .after = after})};
  }
  last.push_back(plan.copy({.tile = kTileC, .to = late}));
  const TaskId added =
      plan.compute({.kernel = Kernel::add, .c = kTileC, .c_at = late, .to = sum, .after = last});
  plan.copy({.tile = kTileC, .from = sum, .after = {added}});
  HostTrial<double> trial(problem, 9, 1);
  const auto backend = backend_of(machine);

  trial.run(plan.get(), *backend);

  EXPECT_EQ(trial.verdict(), "");
}

TEST(HostBackend, ScalesInPlaceOnADevice) {
  const Machine machine = virtual_devices(2);
  const Problem problem = make_problem({.m = 6, .n = 5, .k = 0}, {.homes = {kHost, kHost, kD1}});
  HandGemm plan(machine, problem, {6, 5, 1});
  plan.compute({.kernel = Kernel::scale, .c = kTileC, .to = {kD1}});
  HostTrial<double> trial(problem, 10, 2);

  EXPECT_EQ(trial.run(plan.get(), *backend_of(machine)).status, Status::ok);

  EXPECT_EQ(trial.verdict(), "");
}

TEST(HostBackend, MultipliesInPlaceOnTheHost) {
  const Machine machine = virtual_devices(1);
  const Problem problem = make_problem({.op_b = Op::transpose, .m = 50, .n = 40, .k = 30});
  HandGemm plan(machine, problem, {25, 40, 30});
  for (int row = 0; row < 2; ++row)
    plan.multiply({.c = {kC, row, 0}, .accumulate = Accumulate::beta});
  HostTrial<double> trial(problem, 16, 4);

  EXPECT_EQ(trial.run(plan.get(), *backend_of(machine)).status, Status::ok);

  EXPECT_EQ(trial.verdict(), "");
}

TEST(HostBackend, RunsPlansOfOneDifferentShapeAfterAnother) {
  const Machine machine = virtual_devices(3);
  const auto backend = backend_of(machine);
  for (std::int64_t n : {30, 3, 90, 9, 60})
    for (int chunks : {1, 7}) {
      const Problem problem = make_problem({.m = n, .n = n, .k = n}, {.beta_is_zero = true});
      HostTrial<float> trial(problem, 11);
      HostTrial<double> other(problem, 12);
      Problem single = problem;
      single.type = DataType::f32;
      EXPECT_EQ(trial.run(chain_over_three(machine, single, chunks), *backend).status, Status::ok);
      EXPECT_EQ(other.run(one_product(machine, problem, chunks), *backend).status, Status::ok);
      EXPECT_EQ(trial.verdict(), "");
      EXPECT_EQ(other.verdict(), "");
    }
}

TEST(HostBackend, ServesTwoProgramsThreadsOnTheirOwnBackends) {
  const Machine machine = virtual_devices(3);
  std::array<std::string, 2> wrong;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      const auto backend = backend_of(machine);
      for (int round = 0; round < 20 && wrong[t].empty(); ++round) {
        const Problem problem = make_problem({.m = 40, .n = 36, .k = 50}, {.beta_is_zero = true});
        HostTrial<double> trial(problem, 13 + t);
        trial.run(chain_over_three(machine, problem, 4), *backend);
        wrong[t] = trial.verdict();
        CpuBlas::Lease lease(*shared_cpu_blas(), 2);  // an intervening call on the CPU
      }
    });
  for (std::thread& thread : threads) thread.join();

  EXPECT_EQ(wrong[0], "");
  EXPECT_EQ(wrong[1], "");
}

TEST(HostBackend, FinishesAnEmptyPlan) {
  const Machine machine = virtual_devices(1);
  const Problem problem = make_problem({.m = 0, .n = 5, .k = 5});
  HandGemm plan(machine, problem, {1, 5, 5});

  const Trace trace = execute(plan.get(), Arguments{}, *backend_of(machine));

  EXPECT_EQ(trace.status, Status::ok);
  EXPECT_TRUE(trace.spans.empty());
}

TEST(HostBackend, EndsARunThatNobodyFinished) {
  const Machine machine = virtual_devices(1);
  const Problem problem = make_problem({.m = 8, .n = 8, .k = 8});
  const Plan plan = one_product(machine, problem);
  const auto backend = backend_of(machine);
  HostTrial<double> trial(problem, 17);

  backend->begin(plan, {}, 0);
  EXPECT_EQ(trial.run(plan, *backend).status, Status::ok);

  EXPECT_EQ(trial.verdict(), "");
}

TEST(HostBackend, RefusesARunWhileAnotherIsUnderWay) {
  const Machine machine = virtual_devices(1);
  const Problem problem = make_problem({.m = 8, .n = 8, .k = 8});
  const Plan plan = one_product(machine, problem);
  const auto backend = backend_of(machine);
  HostTrial<double> trial(problem, 18);

  const auto run = backend->begin(plan, {}, 0);
  EXPECT_THROW(backend->begin(plan, {}, 0), Error);
  EXPECT_FALSE(run->finish().spans[0].done());
  EXPECT_EQ(trial.run(plan, *backend).status, Status::ok);

  EXPECT_EQ(trial.verdict(), "");
}

TEST(HostBackend, RunsItsThreadsWithAllSignalsBlocked) {
  const Machine machine = virtual_devices(2);
  const Problem problem = make_problem({.m = 8, .n = 8, .k = 8});
  const auto backend = backend_of(machine);
  HostTrial<double> trial(problem, 14);
  trial.run(one_product(machine, problem), *backend);
  int workers = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(entry.path() / "status");
    std::string line, name, blocked;
    while (std::getline(status, line)) {
      if (line.starts_with("Name:\t")) name = line.substr(6);
      if (line.starts_with("SigBlk:\t")) blocked = line.substr(8);
    }
    if (!name.starts_with("fleet-")) continue;
    ++workers;
    EXPECT_EQ(std::stoull(blocked, nullptr, 16) & (1u << (SIGTERM - 1)), 1u << (SIGTERM - 1));
    EXPECT_EQ(std::stoull(blocked, nullptr, 16) & (1u << (SIGUSR1 - 1)), 1u << (SIGUSR1 - 1));
  }

  EXPECT_EQ(workers, 1);  // device 1 and the ring have no work
}

}  // namespace
}  // namespace fleet
