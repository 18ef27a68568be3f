// SPDX-License-Identifier: BSD-3-Clause
// test_cpu_beside.cpp: runs in which the CPU's lane computes a part of C beside virtual devices:
// right results, faults on either side, and contexts. Plans are tested in test_cpu_share, and the
// same plans in random legal orders with all others, in test_host_random and test_level3_host.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <new>

#include "base/error.hpp"
#include "support/beside_backend.hpp"
#include "support/host_context.hpp"
#include "support/level3_trial.hpp"
#include "support/random_runs.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using test::between;
using test::chance;
using test::Generator;

/// Virtual devices, and the CPU's lane for what a plan gives it.
test::BesideBackend beside(const Machine& machine, std::shared_ptr<CpuBlas> blas,
                           const Options& options) {
  return {make_host_backend(machine, test::shared_cpu_blas(), options), std::move(blas)};
}

/// Throws in its n-th product, before it writes anything.
class FailingBlas final : public CpuBlas {
 public:
  explicit FailingBlas(int failing) : left_(failing) {}
  std::string name() const override { return "fails on purpose"; }
  void gemm(const Launch& launch) override {
    if (left_-- == 0) throw std::bad_alloc();
    plain_.gemm(launch);
  }

 protected:
  void begin_lease(int) override {}
  void end_lease() override {}

 private:
  std::atomic<int> left_;
  PlainBlas plain_;
};

/// Options of a context with two virtual devices and a CPU whose rate is known.
std::string options_with_cpu(const std::string& more) {
  Machine machine = host_machine(2, 2, std::int64_t{1} << 30);
  machine.devices[kHost].kernels = {{DataType::f64, 256, 20e9}};
  const std::string file = test::temporary_file("with_cpu.json");
  std::ofstream(file) << to_json(machine);
  return "backend=host;offload=always;devices=2;machine=" + file + ";" + more;
}

/// A tuning of a random plan with a part for the CPU.
Tuning random_beside(Generator& random, const Machine& machine, const Problem& problem) {
  for (;;) {
    Tuning tuning = test::random_tuning(random, machine, problem, 24);
    if (tuning.has_cpu()) return tuning;
  }
}

Problem random_on_host(Generator& random, bool is_gemm) {
  for (;;) {
    Problem problem =
        is_gemm ? test::random_gemm(random, 1, 90) : test::random_level3(random, 1, 90);
    for (Operand& operand : problem.operands) operand.home = chance(random, 70) ? kHost : kPageable;
    if (may_have_cpu(problem) && problem.m > 1 && problem.n > 1) return problem;
  }
}

/// Runs random plans with a part for the CPU. run(problem, plan, options, machine) gives its fault.
template <typename Run>
std::string fault_of_random_runs(std::uint64_t seed, std::int64_t trials, Run run) {
  Generator random(seed);
  for (std::int64_t trial = 0; trial < trials; ++trial) {
    const Machine machine = test::random_node(random);
    const Problem problem = random_on_host(random, chance(random, 50));
    const auto plan = test::plan_if_any(problem, machine, random_beside(random, machine, problem));
    if (!plan) continue;
    Options options;
    options.inject.poison = true;
    if (chance(random, 30)) options.inject.order = random();
    if (std::string fault = run(random, problem, *plan, machine, options); !fault.empty())
      return to_text(problem) + ": " + fault;
  }
  return "";
}

/// Calls act(trial) with a trial of the problem.
template <typename Act>
std::string with_trial(Generator& random, const Problem& problem, Act act) {
  if (problem.routine == Routine::gemm)
    return test::with_type(problem.type, [&]<typename T>() {
      test::HostTrial<T> trial(problem, random(), between(random, 0, 2));
      return act(trial);
    });
  return test::with_blas_type(problem.type, [&]<typename T>() {
    test::Level3Trial<T> trial(problem, random(), between(random, 0, 2));
    return act(trial);
  });
}

TEST(CpuBeside, GivesTheRightCOfAllRoutines) {
  const std::string fault = fault_of_random_runs(
      61, test::scaled(600),
      [](Generator& random, const Problem& problem, const Plan& plan, const Machine& machine,
         const Options& options) {
        test::BesideBackend backend = beside(machine, test::shared_cpu_blas(), options);
        return with_trial(random, problem, [&](auto& trial) {
          const Trace trace = trial.run(plan, backend);
          if (trace.status != Status::ok) return trace.message;
          const auto is_done = [](const Span& span) { return span.done(); };
          if (!std::ranges::all_of(trace.spans, is_done)) return std::string("tasks are missing");
          return trial.verdict();
        });
      });
  EXPECT_EQ(fault, "");
}

TEST(CpuBeside, GivesTheRightCWhenDevicesFailMeanwhile) {
  const std::string fault = fault_of_random_runs(
      62, test::scaled(400),
      [](Generator& random, const Problem& problem, const Plan& plan, const Machine& machine,
         Options options) {
        const std::int64_t at = between(random, 1, 12);
        if (chance(random, 50))
          options.inject.copy = at;
        else
          options.inject.lost = Inject::Lost{plan.tuning.workers.front() - kFirstDevice, at};
        test::BesideBackend backend = beside(machine, test::shared_cpu_blas(), options);
        return with_trial(random, problem, [&](auto& trial) {
          trial.run(plan, backend, true);
          return trial.verdict();
        });
      });
  EXPECT_EQ(fault, "");
}

// Only the first op of a tile that is overwritten can be computed again: in place the old contents
// of others are gone, and the call says so.
TEST(CpuBeside, FinishesOrRefusesWhereItsOwnKernelFails) {
  int finished = 0, refused = 0;
  const std::string fault = fault_of_random_runs(
      63, test::scaled(400),
      [&](Generator& random, const Problem& problem, const Plan& plan, const Machine& machine,
          const Options& options) {
        test::BesideBackend backend =
            beside(machine, std::make_shared<FailingBlas>(static_cast<int>(between(random, 0, 5))),
                   options);
        return with_trial(random, problem, [&](auto& trial) {
          try {
            const Trace trace = trial.run(plan, backend, true);
            finished += trace.status == Status::ok ? 0 : 1;
            return trial.verdict();
          } catch (const Error& error) {
            ++refused;
            return error.status() == Status::device_failed ? std::string() : error.what();
          }
        });
      });
  EXPECT_EQ(fault, "");
  EXPECT_GT(finished, 0);
  EXPECT_GT(refused, 0);
}

TEST(CpuBeside, BeginsNoKernelAfterOneThatFailed) {
  const Machine machine = test::node(1);
  const Problem problem = make_problem({.m = 96, .n = 96, .k = 96});
  const Plan plan =
      make_plan(problem, machine, test::with_cpu(test::simple(machine, {1, 1}, 32), 0.5));
  test::BesideBackend backend = beside(machine, std::make_shared<FailingBlas>(2), {});
  test::HostTrial<double> trial(problem, 64);
  const Trace trace = trial.run(plan, backend);

  EXPECT_EQ(trace.status, Status::device_failed);
  ASSERT_GE(trace.failed, 0);
  int done = 0, begun = 0;
  for (std::size_t id = 0; id < plan.tasks.size(); ++id) {
    if (plan.tasks[id].kind != TaskKind::compute || !on_host(plan.tasks[id].device())) {
      EXPECT_TRUE(trace.spans[id].done());
      continue;
    }
    done += trace.spans[id].done() ? 1 : 0;
    begun += trace.spans[id].start_s >= 0 ? 1 : 0;
  }
  EXPECT_EQ(done, 2);
  EXPECT_EQ(begun, 3);
}

TEST(CpuBeside, IsPartOfACallOfAContext) {
  const test::HostContext context(options_with_cpu("cpu_share=0.25;tile=64"));
  constexpr std::int64_t kEdge = 256;
  std::vector<double> a(kEdge * kEdge, 1.0), b = a, c(kEdge * kEdge, 0.5);
  ASSERT_EQ(fleet_dgemm(context, FLEET_NO_TRANS, FLEET_NO_TRANS, kEdge, kEdge, kEdge, 1.0, a.data(),
                        kEdge, b.data(), kEdge, 2.0, c.data(), kEdge),
            FLEET_OK);
  EXPECT_TRUE(std::ranges::all_of(c, [](double x) { return x == kEdge + 1; }));
  const std::string statistics = context.text(fleet_stats_json);
  EXPECT_NE(statistics.find("\"cpu_share\":0.25"), std::string::npos) << statistics;
  EXPECT_NE(statistics.find("\"cpu_beside\":{\"calls\":1,\"share\":0.25}"), std::string::npos);
  const std::string plan = context.text(fleet_plan_json, "dgemm size=256 a@h b@h c@h");
  EXPECT_NE(plan.find("\"cpu_share\":0.25"), std::string::npos) << plan;
}

TEST(CpuBeside, IsNoPartOfADeterministicCall) {
  const test::HostContext context(options_with_cpu("cpu_share=0.25;deterministic=1"));
  const std::string plan = context.text(fleet_plan_json, "dgemm size=256 a@h b@h c@h");
  EXPECT_NE(plan.find("\"cpu_share\":0,"), std::string::npos) << plan;
  EXPECT_NE(plan.find("deterministic results exclude"), std::string::npos) << plan;
}

}  // namespace
}  // namespace fleet
