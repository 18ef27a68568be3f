// SPDX-License-Identifier: BSD-3-Clause
// test_faults_recover.cpp: a fault at every copy, kernel and device of small plans, and its
// recovery. It knows the backend only as a whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <memory>
#include <new>
#include <optional>

#include "backend/host/backend.hpp"
#include "backend/host/machine.hpp"
#include "base/error.hpp"
#include "probe/probe.hpp"
#include "recover/recover.hpp"
#include "run/execute.hpp"
#include "support/cpu_blas.hpp"
#include "support/reference.hpp"
#include "support/scale.hpp"
#include "support/wrapped_backend.hpp"
#include "tune/tune.hpp"

namespace fleet {
namespace {

using test::Guarded;
using test::Random;
using test::shared_cpu_blas;

constexpr std::int64_t kMemory = std::int64_t{64} << 20;

/// A problem, its tuning, and the homes of its operands.
struct Case {
  CallShape shape;
  Conditions conditions;
  Tuning tuning;
  int devices = 2;
};

/// The operands of a Case: random on the host, or in memory of the backend's devices.
template <typename T>
class Operands {
 public:
  Operands(const Case& c, Backend& backend, Random& random)
      : case_(c),
        backend_(backend),
        problem_(make_problem(c.shape, c.conditions)),
        host_{matrix(kA), matrix(kB), matrix(kC)} {
    for (Guarded<T>& operand : host_) operand.fill_random(random);
    if (c.conditions.beta_is_zero) host_[kC].fill(std::numeric_limits<double>::quiet_NaN());
    original_ = host_[kC];
    for (std::size_t x = 0; x < 3; ++x) {
      const DeviceId home = problem_.operands[x].home;
      if (on_host(home)) continue;
      const Operand& o = problem_.operands[x];
      on_device_[x] = backend.allocate(home, o.rows * o.cols * bytes_of(problem_.type.storage));
      backend.transfer(home, device_view(x), kPageable, host_view(x), sizeof(T));
    }
  }
  ~Operands() {
    for (std::size_t x = 0; x < 3; ++x)
      if (on_device_[x] != nullptr) backend_.release(problem_.operands[x].home, on_device_[x]);
  }
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;

  Arguments arguments() {
    Arguments arguments;
    for (std::size_t x = 0; x < 3; ++x) {
      const View view = on_device_[x] != nullptr ? device_view(x) : host_view(x);
      arguments.data[x] = view.data;
      arguments.ld[x] = view.ld;
    }
    arguments.alpha = 2.0;
    arguments.beta = case_.conditions.beta_is_zero ? 0.0 : -0.5;
    return arguments;
  }

  /// "" if C is right.
  std::string wrong() {
    const auto expected =
        test::expect_gemm<T>({.op_a = case_.shape.op_a,
                              .op_b = case_.shape.op_b,
                              .m = case_.shape.m,
                              .n = case_.shape.n,
                              .k = case_.shape.k,
                              .alpha = T(2),
                              .a = host_[kA].data(),
                              .lda = host_[kA].ld(),
                              .b = host_[kB].data(),
                              .ldb = host_[kB].ld(),
                              .beta = T(case_.conditions.beta_is_zero ? 0.0 : -0.5),
                              .c = original_->data(),
                              .ldc = original_->ld()});
    if (on_device_[kC] != nullptr)
      backend_.transfer(kPageable, host_view(kC), problem_.operands[kC].home, device_view(kC),
                        sizeof(T));
    const std::string guard = host_[kC].broken_guard();
    return guard.empty() ? test::first_difference(expected, host_[kC].data(), host_[kC].ld())
                         : guard;
  }

 private:
  Guarded<T> matrix(std::size_t x) const {
    const Operand& o = problem_.operands[x];
    return Guarded<T>(o.rows, o.cols, o.rows + 3);
  }
  View host_view(std::size_t x) {
    return {.data = host_[x].data(),
            .rows = host_[x].rows(),
            .cols = host_[x].cols(),
            .ld = host_[x].ld()};
  }
  View device_view(std::size_t x) {
    return {.data = on_device_[x],
            .rows = host_[x].rows(),
            .cols = host_[x].cols(),
            .ld = host_[x].rows()};
  }

  const Case& case_;
  Backend& backend_;
  Problem problem_;
  std::array<Guarded<T>, 3> host_;
  std::optional<Guarded<T>> original_;
  std::array<void*, 3> on_device_{};
};

enum class End { no_fault, finished, failed };

/// Runs the case on `backend`; `why` gets the error of C, or the reason of the failure.
End run_on(Backend& backend, const Case& c, std::string& why) {
  const Plan plan = make_plan(make_problem(c.shape, c.conditions), backend.machine(), c.tuning);
  Random random(7);
  Operands<double> operands(c, backend, random);
  const Arguments arguments = operands.arguments();

  const Binding binding = bind(*plan.program, {&arguments, 1});
  const auto run = backend.begin(plan, binding, 0);
  const Trace trace = complete(plan, binding, *run);
  const bool failed = trace.status != Status::ok;
  try {
    if (failed) recover({plan, binding, trace, *run}, {}, backend, *shared_cpu_blas());
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::device_failed);
    why = error.what();
    return End::failed;
  }
  why = operands.wrong();
  return failed ? End::finished : End::no_fault;
}

/// The same with the faults in `inject`.
End run_with(const Case& c, const Inject& inject, std::string& why) {
  Options options;
  options.inject = inject;
  const auto backend =
      make_host_backend(host_machine(c.devices, 2, kMemory), shared_cpu_blas(), options);
  return run_on(*backend, c, why);
}

/// How a backend fails at a task by an exception of its own: before it starts, or halfway.
enum class Refusal { before, halfway };

/// A run whose n-th task throws.
class RefusingRun final : public test::WrappedExecution {
 public:
  RefusingRun(std::unique_ptr<Execution> inner, Refusal refusal, TaskId refused)
      : WrappedExecution(std::move(inner)), refusal_(refusal), refused_(refused) {}

  void* slot(const Where& where) override {
    if (refusal_ == Refusal::before && taken_ == refused_) throw std::bad_alloc();
    return WrappedExecution::slot(where);
  }
  void copy(TaskId id, const View& from, const View& to) override {
    refuse(to);
    WrappedExecution::copy(id, from, to);
  }
  void launch(TaskId id, const Launch& launch) override {
    refuse(launch.c);
    WrappedExecution::launch(id, launch);
  }
  Trace finish() override {
    Trace trace = WrappedExecution::finish();
    if (half_written_.data != nullptr) {  // all dependencies of the task are done
      const std::vector<double> wrong(static_cast<std::size_t>(half_written_.rows), 777.0);
      for (std::int64_t col = 0; col < (half_written_.cols + 1) / 2; ++col)
        std::copy(wrong.begin(), wrong.end(),
                  static_cast<double*>(half_written_.data) + col * half_written_.ld);
    }
    return trace;
  }

 private:
  void refuse(const View& to) {
    if (taken_++ != refused_ || refusal_ != Refusal::halfway) return;
    half_written_ = to;
    throw std::bad_alloc();
  }

  const Refusal refusal_;
  const TaskId refused_;
  TaskId taken_ = 0;
  View half_written_{};
};

class Refusing final : public test::WrappedBackend {
 public:
  Refusing(std::unique_ptr<Backend> inner, Refusal refusal, TaskId refused)
      : WrappedBackend(std::move(inner)), refusal_(refusal), refused_(refused) {}

  std::unique_ptr<Execution> begin(const Plan& plan, const Binding& binding,
                                   std::uint64_t serial) override {
    return std::make_unique<RefusingRun>(WrappedBackend::begin(plan, binding, serial), refusal_,
                                         refused_);
  }

 private:
  const Refusal refusal_;
  const TaskId refused_;
};

Tuning tuning_for(int devices, std::int64_t tile, Rules rules) {
  Tuning tuning;
  for (int d = 0; d < devices; ++d) tuning.workers.push_back(kFirstDevice + d);
  tuning.grid = {devices, 1};
  tuning.tile = tile;
  tuning.rules = rules;
  tuning.memory_cap.assign(static_cast<std::size_t>(kFirstDevice + devices), kMemory);
  return tuning;
}

std::string place_of(const Case& c) {
  std::string text;
  for (const DeviceId home : c.conditions.homes) text += place_word(home) + ",";
  return text + (c.conditions.beta_is_zero ? " beta=0" : "");
}

std::vector<Case> cases_at_all_places(Rules rules) {
  std::vector<Case> cases;
  for (const DeviceId a : {kHost, kPageable, kFirstDevice})
    for (const DeviceId b : {kHost, kFirstDevice + 1})
      for (const DeviceId c : {kHost, kPageable, kFirstDevice})
        for (const bool zero : {false, true})
          cases.push_back({.shape = {.op_a = Op::transpose, .m = 40, .n = 23, .k = 33},
                           .conditions = {.homes = {a, b, c}, .beta_is_zero = zero},
                           .tuning = tuning_for(2, 16, rules)});
  return cases;
}

/// Lets copy (or launch) 1, 2, 3, ... fail until the plan has no further one; at a smaller scale,
/// every second, third, ... of them.
void fail_each(const Case& c, std::int64_t Inject::*counter) {
  const std::int64_t step = test::scaled_step();
  std::int64_t index = 1 - step;
  for (End end = End::finished; end != End::no_fault;) {
    Inject inject;
    inject.*counter = index += step;
    std::string why;
    end = run_with(c, inject, why);
    ASSERT_NE(end, End::failed) << place_of(c) << " at " << index << ": " << why;
    ASSERT_EQ(why, "") << place_of(c) << " at " << index;
    ASSERT_LT(index, 10000);
  }
  EXPECT_GT(index, 1) << "no task failed";
}

class AtEveryStep : public ::testing::TestWithParam<const char*> {};

TEST_P(AtEveryStep, AFailedCopyLeavesTheRightC) {
  for (const Case& c : cases_at_all_places(parse_rules(GetParam()))) fail_each(c, &Inject::copy);
}

TEST_P(AtEveryStep, AFailedKernelLeavesTheRightC) {
  for (const Case& c : cases_at_all_places(parse_rules(GetParam()))) fail_each(c, &Inject::launch);
}

/// Lets the backend throw at each task in turn. Half a task spoils its target; C in place on a
/// device has no other copy, so the status must report that it is undefined.
void refuse_each(const Case& c, Refusal refusal) {
  const Machine machine = host_machine(c.devices, 2, kMemory);
  const auto tasks = static_cast<TaskId>(
      make_plan(make_problem(c.shape, c.conditions), machine, c.tuning).tasks.size());
  const auto step = static_cast<TaskId>(test::scaled_step());
  int finished = 0;
  for (TaskId refused = 0; refused < tasks; refused += step) {
    Refusing backend(make_host_backend(machine, shared_cpu_blas(), {}), refusal, refused);
    std::string why;
    const End end = run_on(backend, c, why);
    finished += end == End::finished;
    if (end == End::failed && refusal == Refusal::halfway && !on_host(c.conditions.homes[kC]))
      continue;
    ASSERT_NE(end, End::failed) << place_of(c) << " at " << refused << ": " << why;
    ASSERT_EQ(why, "") << place_of(c) << " at " << refused;
  }
  EXPECT_GT(finished, 0) << "no refused task was recovered";
}

TEST_P(AtEveryStep, ATaskThatIsNotTakenLeavesTheRightC) {
  for (const Case& c : cases_at_all_places(parse_rules(GetParam())))
    refuse_each(c, Refusal::before);
}

TEST_P(AtEveryStep, ATaskThatIsTakenInPartLeavesTheRightCOrSaysThatItIsUndefined) {
  for (const Case& c : cases_at_all_places(parse_rules(GetParam())))
    refuse_each(c, Refusal::halfway);
}

INSTANTIATE_TEST_SUITE_P(Rules, AtEveryStep, ::testing::Values("all", "none", "all,-lazy"));

TEST(LostDevice, LeavesTheRightCWhenAllOperandsAreOnTheHost) {
  for (const char* rules : {"all", "all,-lazy", "all,-overlap"})
    for (const DeviceId home : {kHost, kPageable})
      for (const bool zero : {false, true})
        for (std::int64_t tiles = 0; tiles < 40; tiles += test::scaled_step()) {
          const Case c{.shape = {.m = 50, .n = 37, .k = 41},
                       .conditions = {.homes = {home, kHost, home}, .beta_is_zero = zero},
                       .tuning = tuning_for(3, 16, parse_rules(rules)),
                       .devices = 3};
          Inject inject;
          inject.lost = Inject::Lost{1, tiles};
          std::string why;
          const End end = run_with(c, inject, why);
          ASSERT_NE(end, End::failed) << why;
          ASSERT_EQ(why, "") << rules << " after " << tiles << " kernels, " << place_of(c);
        }
}

TEST(LostDevice, IsReportedWhenItHoldsC) {
  const Case c{.shape = {.m = 50, .n = 37, .k = 41},
               .conditions = {.homes = {kHost, kHost, kFirstDevice}},
               .tuning = tuning_for(2, 16, Rules::all())};
  Inject inject;
  inject.lost = Inject::Lost{0, 2};
  std::string why;

  EXPECT_EQ(run_with(c, inject, why), End::failed);

  EXPECT_EQ(why, "device 0, which holds C, was lost: C is undefined");
}

TEST(LostDevice, IsReportedWhenItHoldsWhatIsStillNeeded) {
  const Case c{.shape = {.m = 50, .n = 37, .k = 41},
               .conditions = {.homes = {kFirstDevice + 1, kHost, kHost}},
               .tuning = tuning_for(2, 16, Rules::all())};
  Inject inject;
  inject.lost = Inject::Lost{1, 1};
  std::string why;

  EXPECT_EQ(run_with(c, inject, why), End::failed);

  EXPECT_EQ(why, "device 1, which holds A, was lost: C is undefined");
}

// Four cubes per tile of C: partial sums go home and come back three times.
Case out_of_core(OutOfCore mode, bool zero) {
  Case c{.shape = {.m = 48, .n = 48, .k = 64},
         .conditions = {.homes = {kHost, kPageable, kHost}, .beta_is_zero = zero},
         .tuning = tuning_for(2, 8, Rules::all())};
  c.tuning.out_of_core = mode;
  c.tuning.group = 16;
  c.tuning.memory_cap.assign(4, 64 * 1024);
  return c;
}

TEST(OutOfCorePlans, AreFinishedFromTheirPartialSums) {
  for (const OutOfCore mode : {OutOfCore::cube, OutOfCore::stationary})
    for (const bool zero : {false, true}) {
      const Case c = out_of_core(mode, zero);
      const std::int64_t step = test::scaled_step();
      for (std::int64_t index = 1;; index += 1 + step) {
        Inject inject;
        inject.copy = index;
        std::string why;
        const End end = run_with(c, inject, why);
        ASSERT_NE(end, End::failed) << why;
        ASSERT_EQ(why, "") << to_string(mode) << " at copy " << index;
        if (end == End::no_fault) break;
      }
      for (std::int64_t tiles = 0; tiles < 150; tiles += 6 + step) {
        Inject inject;
        inject.lost = Inject::Lost{1, tiles};
        std::string why;
        ASSERT_NE(run_with(c, inject, why), End::failed) << why;
        ASSERT_EQ(why, "") << to_string(mode) << " lost after " << tiles;
      }
    }
}

TEST(RandomOrders, AreFinishedToo) {
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(test::scaled(60)); ++seed) {
    Random random(seed);
    const auto place = [&] { return static_cast<DeviceId>(random.between(0, 3)); };
    const Case c{
        .shape = {.op_b = random.chance(0.5) ? Op::none : Op::transpose,
                  .m = random.between(1, 60),
                  .n = random.between(1, 60),
                  .k = random.between(1, 60)},
        .conditions = {.homes = {place(), place(), place()}, .beta_is_zero = random.chance(0.5)},
        .tuning = tuning_for(2, random.between(7, 30), Rules::all())};
    Inject inject;
    inject.order = seed;
    (random.chance(0.5) ? inject.copy : inject.launch) = random.between(1, 30);
    inject.poison = true;
    std::string why;

    ASSERT_NE(run_with(c, inject, why), End::failed) << why;
    ASSERT_EQ(why, "") << "seed " << seed << ", " << place_of(c);
  }
}

TEST(Recovery, ComputesOnlyWhatIsMissing) {
  const Case c{.shape = {.m = 64, .n = 64, .k = 64},
               .tuning = tuning_for(1, 16, Rules::all()),
               .devices = 1};
  const Machine machine = host_machine(1, 2, kMemory);
  Options options;
  options.inject.order = 3;
  const auto backend = make_host_backend(machine, shared_cpu_blas(), options);
  const Plan plan = make_plan(make_problem(c.shape, c.conditions), machine, c.tuning);
  Random random(1);
  Operands<double> operands(c, *backend, random);
  const Arguments arguments = operands.arguments();
  const Binding binding = bind(*plan.program, {&arguments, 1});
  const auto run = backend->begin(plan, binding, 0);
  const Trace trace = complete(plan, binding, *run);
  ASSERT_EQ(trace.status, Status::ok);

  // Every task is done, so nothing is left; a repeated task would change C.
  const Recovery nothing = recover({plan, binding, trace, *run}, {}, *backend, *shared_cpu_blas());

  EXPECT_EQ(nothing.tiles, 0);
  EXPECT_EQ(nothing.flops, 0);
  EXPECT_EQ(operands.wrong(), "");
}

}  // namespace
}  // namespace fleet
