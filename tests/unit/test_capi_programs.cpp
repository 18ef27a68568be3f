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
#include "support/program_trials.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using fleetblas::Context;
using test::Act;
using test::between;
using test::chance;
using test::expect_none;
using test::FaultsSeen;
using test::Generator;
using test::MadeProgram;
using test::MatrixPart;
using test::ProgramOutcome;
using test::ProgramStep;
using test::RandomProgram;
using test::run_program;
using test::the_cpu;
using test::Timing;

std::string disturbance(Generator& random, int devices) {
  std::string words;
  if (chance(random, 50)) words += ",order:" + std::to_string(between(random, 1, 1000000));
  if (chance(random, 20))
    words += ",delay:host->" + std::to_string(between(random, 0, devices - 1)) + "+0.0002";
  return words;
}

/// As many as each program says, or this number.
test::ProgramDevices virtual_devices(int count = 0) {
  return {.count = count,
          .options = [](int devices) { return test::host_options(devices); },
          .disturbance = disturbance,
          .faults = {"copy", "launch", "alloc"}};
}

std::string on_devices(int devices, const std::string& inject = "") {
  return options_of(virtual_devices(), devices, inject);
}

TEST(RandomPrograms, GiveTheResultsOfCallsOneByOneAndTheSameBitsAtAnyTime) {
  const Context cpu = the_cpu();
  for (const std::uint64_t seed : test::program_seeds(1000, test::scaled(120)))
    expect_none(test::verdict_on_two_runs(virtual_devices(), seed, cpu));
}

TEST(RandomPrograms, OfOneDeviceGiveThemToo) {
  const Context cpu = the_cpu();
  for (const std::uint64_t seed : test::program_seeds(200000, test::scaled(20)))
    expect_none(test::verdict_on_two_runs(virtual_devices(1), seed, cpu));
}

TEST(RandomPrograms, AfterAFaultGiveThemTooOrSayThatADeviceFailed) {
  const Context cpu = the_cpu();
  for (const std::uint64_t seed : test::program_seeds(300000, test::scaled(60)))
    expect_none(test::verdict_after_a_fault(virtual_devices(), seed, cpu));
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

/// What is judged has no threads: for sanitizers fewer programs do.
std::uint64_t judged_programs() { return test::test_scale() < 1 ? 3 : 8; }

TEST(TheJudgeOfPrograms, NoticesAWrongExpectationOfAnyElement) {
  const Context cpu = the_cpu();
  Generator random(5);
  for (std::uint64_t seed = 1; seed <= judged_programs(); ++seed) {
    MadeProgram<double> made = test::make_program<double>(seed, {.most_calls = 10}, cpu.handle());
    const auto outcome = run_program<double>(made.program, {}, on_devices(made.program.devices));
    ASSERT_EQ(test::verdict_on(made, outcome, FaultsSeen::none), "");
    test::Bounded<double>& last = made.expected.back();
    const auto i = static_cast<std::size_t>(between(random, 0, std::ssize(last.is) - 1));
    last.is[i] += 1e-6;
    EXPECT_NE(test::verdict_on(made, outcome, FaultsSeen::none), "") << text_of(made.program);
  }
}

TEST(TheJudgeOfPrograms, NoticesThatWritesAreMissing) {
  const Context cpu = the_cpu();
  std::uint64_t changed = 0, noticed = 0;
  for (std::uint64_t seed = 1; seed <= judged_programs(); ++seed) {
    const MadeProgram<double> made = test::make_program<double>(seed, {}, cpu.handle());
    RandomProgram other = made.program;
    for (ProgramStep& step : other.steps)
      if (step.act == Act::write) step.act = Act::read;
    changed += std::ranges::any_of(made.program.steps,
                                   [](const ProgramStep& step) { return step.act == Act::write; });
    auto outcome = run_program<double>(other, {}, on_devices(other.devices));
    for (std::size_t s = 0; s < other.steps.size(); ++s)
      if (made.program.steps[s].act == Act::write) outcome.steps[s].seen.clear();
    noticed += test::verdict_on(made, outcome, FaultsSeen::none) != "";
  }
  EXPECT_GT(changed, judged_programs() / 2);
  EXPECT_GE(noticed, changed - 1);  // one may be overwritten before anybody looks
}

TEST(TheJudgeOfPrograms, NoticesOtherBits) {
  const Context cpu = the_cpu();
  const auto made = test::make_program<double>(3, {}, cpu.handle());
  const auto one = run_program<double>(made.program, {}, on_devices(made.program.devices));
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
  auto outcome = run_program<double>(made.program, {}, on_devices(made.program.devices));
  ASSERT_EQ(test::verdict_on(made, outcome, FaultsSeen::told), "");
  outcome.steps[0].status = FLEET_DEVICE_FAILED;
  outcome.steps[0].message = made.program.steps[0].call.traits().word;
  EXPECT_NE(test::verdict_on(made, outcome, FaultsSeen::none), "");
  EXPECT_NE(test::verdict_on(made, outcome, FaultsSeen::told), "");
}

}  // namespace
}  // namespace fleet
