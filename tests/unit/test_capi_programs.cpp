// SPDX-License-Identifier: BSD-3-Clause
// test_capi_programs.cpp: random programs of queued calls through the public header, on virtual
// devices with poisoned memory, beside the same calls one by one on the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <string>
#include <thread>
#include <vector>

#include "support/host_context.hpp"
#include "support/program_judge.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using fleetblas::Context;
using test::Act;
using test::between;
using test::chance;
using test::FaultsSeen;
using test::Generator;
using test::MadeProgram;
using test::MatrixPart;
using test::ProgramOutcome;
using test::ProgramStep;
using test::RandomProgram;
using test::Timing;

constexpr DataType kTypes[] = {DataType::f64, DataType::f32, DataType::c64, DataType::c32};

/// The type of a program goes with its seed, so that the seed alone names it.
DataType type_of(std::uint64_t seed) { return kTypes[seed % 4]; }

Context the_cpu() { return Context("backend=host;offload=never"); }

/// Of virtual devices with small tiles; `inject` after poison: ",copy:3".
std::string on_devices(int devices, const std::string& inject = "") {
  return test::host_options(devices) + ";tile=16;inject=poison" + inject;
}

/// Ways to disturb a run that change no plan.
std::string disturbance(Generator& random, int devices) {
  std::string words;
  if (chance(random, 50)) words += ",order:" + std::to_string(between(random, 1, 1000000));
  if (chance(random, 20))
    words += ",delay:host->" + std::to_string(between(random, 0, devices - 1)) + "+0.0002";
  return words;
}

/// What plans are made for, but for the devices: with half of the programs, so little memory that
/// tiles have to leave it before they have been used for the last time.
struct Limits {
  bool have_no_peers = false;
  std::int64_t cap_tiles = 0;
};

Limits random_limits(Generator& random) {
  return {.have_no_peers = chance(random, 20),
          .cap_tiles = chance(random, 50) ? between(random, 12, 80) : 0};
}

template <typename T>
std::string options_for(const RandomProgram& program, const Limits& limits,
                        const std::string& inject) {
  std::string options =
      on_devices(program.devices, inject + (limits.have_no_peers ? ",nopeer" : ""));
  if (limits.cap_tiles > 0)
    options +=
        ";memory_cap=" + std::to_string(limits.cap_tiles * 16 * 16 * std::int64_t{sizeof(T)});
  return options;
}

/// Calls that are not planned with others have tiles of their own, and these depend on what the
/// plan is made for: those that their caller waits for, and those whose output may overlap what
/// they read.
bool has_calls_planned_alone(const RandomProgram& program) {
  return std::ranges::any_of(program.steps, [](const ProgramStep& step) {
    const auto& [a, b, c] = step.operands;
    const bool may_overlap = a.part.matrix == c.part.matrix || b.part.matrix == c.part.matrix;
    return step.act == Act::call || (step.act == Act::queue && may_overlap);
  });
}

template <typename T>
ProgramOutcome<T> run(const RandomProgram& program, const Timing& timing,
                      const std::string& options) {
  const Context context(options);
  return test::ProgramRunner<T>(program, timing, context.handle()).run();
}

/// Runs the program at once, and another time with pauses, waits and reads, with other company and,
/// if `limits_vary`, in other memory.
template <typename T>
std::string verdict_on_two_runs(const MadeProgram<T>& made, bool limits_vary) {
  const RandomProgram& program = made.program;
  Generator random(~program.seed);
  const Limits limits = random_limits(random);
  const Limits others = limits_vary ? random_limits(random) : limits;
  const auto options = [&](const Limits& of) {
    return options_for<T>(program, of, disturbance(random, program.devices));
  };
  const auto first = run<T>(program, {.seed = random()}, options(limits));
  const auto second =
      run<T>(program, {.seed = random(), .lingers = true, .has_company = chance(random, 50)},
             options(others));
  for (const auto* outcome : {&first, &second})
    if (std::string wrong = test::verdict_on(made, *outcome, FaultsSeen::none); !wrong.empty())
      return wrong + "\n" + text_of(program);
  const std::string differs = test::different_bits(program, first, second);
  return differs.empty() ? "" : differs + "\n" + text_of(program);
}

/// Without the comparison of long texts that EXPECT_EQ would print.
void expect_none(const std::string& wrong) {
  if (!wrong.empty()) ADD_FAILURE() << wrong;
}

TEST(RandomPrograms, GiveTheResultsOfCallsOneByOneAndTheSameBitsAtAnyTime) {
  const Context cpu = the_cpu();
  for (const std::uint64_t seed : test::program_seeds(1000, test::scaled(120)))
    expect_none(test::with_blas_type(type_of(seed), [&]<typename T>() {
      const auto made = test::make_program<T>(seed, {}, cpu.handle());
      return verdict_on_two_runs(made, !has_calls_planned_alone(made.program));
    }));
}

/// A fault of any kind at any time.
std::string random_fault(Generator& random, int devices) {
  const char* const kinds[] = {"copy", "launch", "alloc"};
  if (chance(random, 40))
    return ",lost:" + std::to_string(between(random, 0, devices - 1)) + "@" +
           std::to_string(between(random, 1, 200));
  return std::string(",") + kinds[between(random, 0, 2)] + ":" +
         std::to_string(between(random, 1, chance(random, 50) ? 40 : 400));
}

template <typename T>
std::string verdict_after_a_fault(std::uint64_t seed, FaultsSeen faults, const Context& cpu) {
  const MadeProgram<T> made = test::make_program<T>(seed, {.faults = true}, cpu.handle());
  const RandomProgram& program = made.program;
  Generator random(~seed);
  const std::string fault = random_fault(random, program.devices);
  const std::string options =
      options_for<T>(program, random_limits(random), disturbance(random, program.devices) + fault);
  const Timing timing{.seed = random(), .lingers = chance(random, 50), .has_company = true};
  const std::string wrong = test::verdict_on(made, run<T>(program, timing, options), faults);
  return wrong.empty() ? "" : wrong + "\nwith " + fault + "\n" + text_of(program);
}

TEST(RandomPrograms, AfterAFaultGiveThemTooOrSayThatADeviceFailed) {
  const Context cpu = the_cpu();
  for (const std::uint64_t seed : test::program_seeds(300000, test::scaled(60)))
    expect_none(test::with_blas_type(type_of(seed), [&]<typename T>() {
      return verdict_after_a_fault<T>(seed, FaultsSeen::told, cpu);
    }));
}

TEST(RandomPrograms, OfSeveralThreadsOnOneContextAreRightAndHaveTheSameBits) {
  constexpr int kThreads = 4;
  const Context cpu = the_cpu();
  for (const std::uint64_t seed : test::program_seeds(400000, test::scaled(8))) {
    std::vector<MadeProgram<double>> made;
    for (std::uint64_t t = 0; t < kThreads; ++t)
      made.push_back(test::make_program<double>(
          seed * kThreads + t, {.shares_first = true, .most_calls = 15}, cpu.handle()));
    const MatrixPart whole = made[0].program.whole(0);
    test::Guarded<double> shared(whole.rows, whole.cols, made[0].program.matrices[0].ld);
    const auto numbers = test::fresh_numbers<double>(
        whole, whole.rows, test::ProgramOracle<double>::initial_seed(made[0].program, 0));
    for (std::int64_t i = 0; i < std::ssize(numbers); ++i)
      shared.at(i % whole.rows, i / whole.rows) = numbers[static_cast<std::size_t>(i)];
    const std::string options = on_devices(4, ",order:" + std::to_string(seed));
    std::vector<ProgramOutcome<double>> alone, together(kThreads);
    for (const auto& one : made) {
      const Context context(options);
      alone.push_back(
          test::ProgramRunner<double>(one.program, {}, context.handle(), &shared).run());
    }

    const Context context(options);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        const Timing timing{.seed = seed + t, .lingers = t % 2 == 0};
        together[t] =
            test::ProgramRunner<double>(made[t].program, timing, context.handle(), &shared).run();
      });
    for (std::thread& thread : threads) thread.join();

    EXPECT_EQ(shared.broken_guard(), "");
    for (std::size_t t = 0; t < kThreads; ++t) {
      std::string wrong = test::verdict_on(made[t], together[t], FaultsSeen::none);
      if (wrong.empty()) wrong = test::different_bits(made[t].program, alone[t], together[t]);
      expect_none(wrong.empty() ? "" : wrong + "\n" + text_of(made[t].program));
    }
  }
}

// What follows shows that the tests above would notice it.

TEST(TheJudgeOfPrograms, NoticesAWrongExpectationOfAnyElement) {
  const Context cpu = the_cpu();
  Generator random(5);
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    MadeProgram<double> made = test::make_program<double>(seed, {.most_calls = 10}, cpu.handle());
    const auto outcome = run<double>(made.program, {}, on_devices(made.program.devices));
    ASSERT_EQ(test::verdict_on(made, outcome, FaultsSeen::none), "");
    test::Bounded<double>& last = made.expected.back();
    const auto i = static_cast<std::size_t>(between(random, 0, std::ssize(last.is) - 1));
    last.is[i] += 1e-6;
    EXPECT_NE(test::verdict_on(made, outcome, FaultsSeen::none), "") << text_of(made.program);
  }
}

TEST(TheJudgeOfPrograms, NoticesThatWritesAreMissing) {
  const Context cpu = the_cpu();
  int changed = 0, noticed = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const MadeProgram<double> made = test::make_program<double>(seed, {}, cpu.handle());
    RandomProgram other = made.program;
    for (ProgramStep& step : other.steps)
      if (step.act == Act::write) step.act = Act::read;
    changed += std::ranges::any_of(made.program.steps,
                                   [](const ProgramStep& step) { return step.act == Act::write; });
    auto outcome = run<double>(other, {}, on_devices(other.devices));
    for (std::size_t s = 0; s < other.steps.size(); ++s)
      if (made.program.steps[s].act == Act::write) outcome.steps[s].seen.clear();
    noticed += test::verdict_on(made, outcome, FaultsSeen::none) != "";
  }
  EXPECT_GT(changed, 4);
  EXPECT_GE(noticed, changed - 1);  // one may be overwritten before anybody looks
}

TEST(TheJudgeOfPrograms, NoticesOtherBits) {
  const Context cpu = the_cpu();
  const auto made = test::make_program<double>(3, {}, cpu.handle());
  const auto one = run<double>(made.program, {}, on_devices(made.program.devices));
  auto other = one;
  double& last = other.steps.back().seen.back();
  last = std::nextafter(last, 2.0);
  EXPECT_EQ(test::different_bits(made.program, one, one), "");
  EXPECT_NE(test::different_bits(made.program, one, other), "");
}

TEST(TheJudgeOfPrograms, TakesNothingFromWhatAFailedCallLeft) {
  const Context cpu = the_cpu();
  MadeProgram<double> made;
  for (std::uint64_t seed = 1;
       made.program.steps.empty() || made.program.steps.front().act != Act::queue ||
       !test::changes_output(made.program.steps.front().call);
       ++seed)
    made = test::make_program<double>(seed, {.faults = true, .most_calls = 1}, cpu.handle());
  auto outcome = run<double>(made.program, {}, on_devices(made.program.devices));
  ASSERT_EQ(test::verdict_on(made, outcome, FaultsSeen::told), "");
  outcome.steps[0].status = FLEET_DEVICE_FAILED;
  outcome.steps[0].message = made.program.steps[0].call.traits().word;
  EXPECT_NE(test::verdict_on(made, outcome, FaultsSeen::none), "");
  EXPECT_NE(test::verdict_on(made, outcome, FaultsSeen::told), "");
}

}  // namespace
}  // namespace fleet
