// SPDX-License-Identifier: BSD-3-Clause
// test_composition.cpp: dependent calls planned as one: the plan passes its check, gives the right
// results in random legal orders, and can be completed after a fault.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <complex>
#include <vector>

#include "backend/host/backend.hpp"
#include "support/composed.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using test::between;
using test::chance;
using test::Composed;
using test::Generator;

constexpr int kMostDevices = 4;

Plan plan_of(Generator& random, const Composed& composed, const Machine& machine) {
  const Tuning tuning = test::random_tuning_of_deals(random, machine);
  std::vector<Dealing> deals;
  for (const ProgramCall& call : composed.program.calls)
    deals.push_back(test::random_dealing(random, call, tuning.grid));
  return schedule(std::make_shared<const TileProgram>(composed.program), deals, machine, tuning);
}

Cuts random_cuts(Generator& random) {
  Cuts cuts{0};
  const auto tiles = between(random, 1, 4);
  for (int i = 0; i < tiles; ++i) cuts.push_back(cuts.back() + between(random, 1, 9));
  return cuts;
}

Machine random_machine(Generator& random, int devices) {
  Machine machine = test::node(devices);
  if (chance(random, 30))
    for (Device& device : machine.devices) device.inverse_order = 3;
  return machine;
}

template <typename Run>
std::string with_type(const Composed& composed, Run run) {
  return composed.program.matrices.front().storage == Storage::f64
             ? run.template operator()<double>()
             : run.template operator()<std::complex<double>>();
}

std::string text_of(const TileProgram& program) {
  std::string text;
  for (const ProgramCall& call : program.calls) {
    text += to_text(call.problem) + " on";
    for (const MatrixId id : call.matrices) text += " " + std::to_string(id);
    text += "; ";
  }
  return text;
}

/// Runs `trials` compositions made by compose(random, cuts, devices), each in a random order.
template <typename Compose>
void expect_right(std::uint64_t seed, std::int64_t trials, Compose compose) {
  Generator random(seed);
  Options options;
  options.inject.poison = true;
  for (std::int64_t trial = 0; trial < trials; ++trial) {
    const int devices = static_cast<int>(between(random, 1, kMostDevices));
    const Machine machine = random_machine(random, devices);
    const Composed composed = compose(random, random_cuts(random), devices);
    const Plan plan = plan_of(random, composed, machine);
    ASSERT_EQ(check(plan), "") << trial << ": " << text_of(composed.program);
    options.inject.order = random();
    const auto backend = make_host_backend(machine, test::shared_cpu_blas(), options);
    ASSERT_EQ(with_type(composed,
                        [&]<typename T>() {
                          test::ComposedTrial<T> run(composed, random());
                          const Trace trace = run.run(plan, *backend);
                          return trace.status == Status::ok ? run.verdict() : trace.message;
                        }),
              "")
        << trial << ": " << text_of(composed.program);
  }
}

Problem trsm_of(Generator& random, std::int64_t order) {
  return make_problem({.routine = Routine::trsm,
                       .side = chance(random, 50) ? Side::left : Side::right,
                       .uplo = chance(random, 50) ? Uplo::lower : Uplo::upper,
                       .op_a = chance(random, 50) ? Op::none : Op::transpose,
                       .m = order,
                       .n = order});
}

TEST(Composition, AGemmReadsWhatATrsmSolvedFor) {
  expect_right(61, test::scaled(500), [](Generator& random, const Cuts& cuts, int devices) {
    Composed composed;
    const std::int64_t order = cuts.back();
    test::append_call(composed, trsm_of(random, order), cuts, {kNoMatrix, kNoMatrix, kNoMatrix},
                      random, devices);
    const MatrixId solved = composed.program.calls.front().target();
    const Op op = chance(random, 50) ? Op::none : Op::transpose;
    const bool is_left = chance(random, 50);
    test::append_call(
        composed, make_problem({.op_a = op, .op_b = op, .m = order, .n = order, .k = order}), cuts,
        {is_left ? solved : kNoMatrix, is_left ? kNoMatrix : solved, kNoMatrix}, random, devices);
    return composed;
  });
}

TEST(Composition, ACallOverwritesWhatTheOneBeforeRead) {
  expect_right(62, test::scaled(500), [](Generator& random, const Cuts& cuts, int devices) {
    Composed composed;
    const std::int64_t order = cuts.back();
    const Problem gemm =
        make_problem({.m = order, .n = order, .k = order}, {.beta_is_zero = chance(random, 30)});
    test::append_call(composed, gemm, cuts, {kNoMatrix, kNoMatrix, kNoMatrix}, random, devices);
    const MatrixId read = chance(random, 50) ? 0 : 1;
    const bool solves = chance(random, 50);
    test::append_call(composed, solves ? trsm_of(random, order) : gemm, cuts,
                      {kNoMatrix, kNoMatrix, read}, random, devices);
    return composed;
  });
}

TEST(Composition, TwoCallsAddToOneMatrix) {
  expect_right(63, test::scaled(300), [](Generator& random, const Cuts& cuts, int devices) {
    Composed composed;
    const std::int64_t order = cuts.back();
    const Problem gemm = make_problem({.m = order, .n = order, .k = order});
    test::append_call(composed, gemm, cuts, {kNoMatrix, kNoMatrix, kNoMatrix}, random, devices);
    test::append_call(composed, gemm, cuts, {kNoMatrix, kNoMatrix, kC}, random, devices);
    return composed;
  });
}

TEST(Composition, AnyCallsInAnyRelationAreRight) {
  expect_right(64, test::scaled(2500), [](Generator& random, const Cuts& cuts, int devices) {
    return test::random_composition(random, static_cast<int>(between(random, 2, 5)), cuts, devices);
  });
}

TEST(Composition, IsNotRightForCheckWithoutADependencyThatAnyOrderShows) {
  Generator random(68);
  constexpr int kOrders = 12;
  int dropped = 0, wrong = 0;
  for (std::int64_t trial = 0; trial < test::scaled(250); ++trial) {
    const int devices = static_cast<int>(between(random, 1, 3));
    const Machine machine = random_machine(random, devices);
    const Composed composed = test::random_composition(random, 2, random_cuts(random), devices);
    Plan plan = plan_of(random, composed, machine);
    if (!test::drop_one_dependency(plan, random)) continue;
    ++dropped;
    const bool caught = !check(plan).empty();
    Options options;
    options.inject.poison = true;
    bool goes_wrong = false;
    for (int order = 0; order < kOrders && !goes_wrong; ++order) {
      options.inject.order = random();
      const auto backend = make_host_backend(machine, test::shared_cpu_blas(), options);
      goes_wrong = !with_type(composed, [&]<typename T>() {
                      test::ComposedTrial<T> run(composed, random());
                      const Trace trace = run.run(plan, *backend);
                      return trace.status == Status::ok ? run.verdict() : trace.message;
                    }).empty();
    }
    wrong += goes_wrong;
    ASSERT_TRUE(caught || !goes_wrong) << "check missed a race: " << text_of(composed.program);
  }
  EXPECT_GT(wrong, dropped / 5);
}

enum class Fault { copy, launch, lost };

Inject inject_of(Generator& random, const Plan& plan, Fault fault) {
  Inject inject;
  inject.poison = true;
  if (chance(random, 70)) inject.order = random();
  const int device = static_cast<int>(plan.tuning.workers.front() - kFirstDevice);
  const auto tasks = std::ranges::count_if(plan.tasks, [&](const Task& task) {
    const bool computes = task.kind == TaskKind::compute;
    if (fault == Fault::lost) return computes && task.to.device == kFirstDevice + device;
    return computes == (fault == Fault::launch);
  });
  if (tasks == 0) return inject;
  if (fault == Fault::copy) inject.copy = between(random, 1, tasks);
  if (fault == Fault::launch) inject.launch = between(random, 1, tasks);
  if (fault == Fault::lost) inject.lost = Inject::Lost{device, between(random, 0, tasks - 1)};
  return inject;
}

// Either C is right, or an error says that it is undefined: never a wrong result.
TEST(Composition, IsFinishedAfterAFaultOrSaysThatItCannotBe) {
  Generator random(66);
  int failed = 0, finished = 0;
  for (std::int64_t trial = 0; trial < test::scaled(2500); ++trial) {
    const int devices = static_cast<int>(between(random, 1, kMostDevices));
    const Machine machine = random_machine(random, devices);
    const auto fault = static_cast<Fault>(between(random, 0, 2));
    const Composed composed =
        test::random_composition(random, static_cast<int>(between(random, 2, 5)),
                                 random_cuts(random), fault == Fault::lost ? 0 : devices);
    const Plan plan = plan_of(random, composed, machine);
    Options options;
    options.inject = inject_of(random, plan, fault);
    const auto backend = make_host_backend(machine, test::shared_cpu_blas(), options);
    const std::string wrong = with_type(composed, [&]<typename T>() -> std::string {
      test::ComposedTrial<T> run(composed, random());
      try {
        const Trace trace = run.run(plan, *backend, true);
        failed += trace.status != Status::ok;
        finished += trace.status != Status::ok;
        return run.verdict();
      } catch (const Error& error) {
        ++failed;
        return error.status() == Status::device_failed ? "" : error.what();
      }
    });
    ASSERT_EQ(wrong, "") << trial << ": " << text_of(composed.program);
  }
  EXPECT_GT(failed, test::scaled(2500) / 2);
  EXPECT_GT(finished, failed * 9 / 10);
}

// The last call fails on X in place. Slots still hold copies of X from before the second call, but
// the inputs of that call are overwritten by then, so recovery must not start from such a copy. If
// the last call overwrites X, it needs no copy at all.
TEST(Composition, GoesOnFromNoCopyThatIsOlderThanWhatWasOverwritten) {
  Generator random(67);
  int refused = 0, overwritten = 0;
  for (std::int64_t trial = 0; trial < test::scaled(600); ++trial) {
    const Machine machine = test::node(2);
    const Cuts cuts{0, 5};
    Composed composed;
    const bool overwrites = chance(random, 50);
    const auto gemm = [&](bool beta_is_zero, const std::array<MatrixId, 3>& matrices) {
      test::append_call(composed,
                        make_problem({.m = 5, .n = 5, .k = 5}, {.beta_is_zero = beta_is_zero}),
                        cuts, matrices, random, 2);
    };
    gemm(true, {kNoMatrix, kNoMatrix, kNoMatrix});  // 2 = 0 * 1; X is 0
    gemm(false, {1, kNoMatrix, 0});                 // X += 1 * 3
    gemm(true, {2, 2, 3});                          // 3 = 2 * 2
    gemm(overwrites, {2, 1, 0});                    // X = 2 * 1, or X += 2 * 1
    const Plan plan = plan_of(random, composed, machine);
    ASSERT_EQ(check(plan), "");
    Options options;
    options.inject.order = random();
    const auto computes = std::ranges::count(plan.tasks, TaskKind::compute, &Task::kind);
    options.inject.launch = computes;
    const auto backend = make_host_backend(machine, test::shared_cpu_blas(), options);
    test::ComposedTrial<double> run(composed, random());
    try {
      const Trace trace = run.run(plan, *backend, true);
      ASSERT_NE(trace.status, Status::ok);
      ASSERT_EQ(run.verdict(), "") << trial << ": " << text_of(composed.program);
      overwritten += overwrites;
    } catch (const Error& error) {
      ASSERT_EQ(error.status(), Status::device_failed);
      ASSERT_FALSE(overwrites) << trial << ": " << text_of(composed.program);
      ++refused;
    }
  }
  EXPECT_GT(overwritten, test::scaled(600) / 4);
  EXPECT_GT(refused, 0);
}

/// Ones times twos, of `edge` by `edge` elements each, and where their product goes.
template <typename T>
struct Product {
  explicit Product(std::int64_t edge)
      : ld(edge), a(index(edge * edge), T(1)), b(a.size(), T(2)), c(a.size(), T(7)) {}
  static std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }
  Arguments arguments() {
    return {.data = {a.data(), b.data(), c.data()}, .ld = {ld, ld, ld}, .beta = 0.0};
  }
  bool is_right() const { return std::ranges::count(c, T(2 * static_cast<float>(ld))) == ld * ld; }
  std::int64_t ld;
  std::vector<T> a, b, c;
};

TEST(Composition, MayHoldMatricesOfSeveralStorages) {
  Generator random(68);
  const Machine machine = test::node(kMostDevices);
  const auto backend = make_host_backend(machine, test::shared_cpu_blas(), {});
  for (std::int64_t trial = 0; trial < test::scaled(50); ++trial) {
    const Cuts cuts = random_cuts(random);
    const std::int64_t edge = cuts.back();
    Composed composed;
    for (const DataType type : {DataType::f64, DataType::tf32, DataType::c64})
      append(composed.program,
             make_problem({.type = type, .m = edge, .n = edge, .k = edge}, {.beta_is_zero = true}),
             {cuts, cuts, cuts}, {kNoMatrix, kNoMatrix, kNoMatrix});
    const Plan plan = plan_of(random, composed, machine);
    ASSERT_EQ(check(plan), "") << trial;
    Product<double> doubles(edge);
    Product<float> floats(edge);
    Product<std::complex<double>> complex(edge);
    const std::array calls{doubles.arguments(), floats.arguments(), complex.arguments()};

    const Trace trace = execute(plan, fleet::bind(*plan.program, calls), *backend);

    ASSERT_EQ(trace.status, Status::ok) << trace.message;
    EXPECT_TRUE(doubles.is_right() && floats.is_right() && complex.is_right()) << trial;
  }
}

}  // namespace
}  // namespace fleet
