// SPDX-License-Identifier: BSD-3-Clause
// program_trials.hpp: random programs on the devices of a test: run twice with other timing, and
// with a fault. It knows neither what the devices are nor the programs' results.
#pragma once
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "support/program_judge.hpp"

namespace fleet::test {

inline constexpr DataType kProgramTypes[] = {DataType::f64, DataType::f32, DataType::c64,
                                             DataType::c32};
/// The type of a program goes with its seed, so that the seed alone names it.
inline DataType program_type(std::uint64_t seed) { return kProgramTypes[seed % 4]; }

inline fleetblas::Context the_cpu() { return fleetblas::Context("backend=host;offload=never"); }

/// What the programs of a test run on.
struct ProgramDevices {
  int count = 0;  ///< 0: as many as each program says
  /// Options of a context of so many devices, with tiles of at most 16.
  std::function<std::string(int devices)> options;
  /// Ways to disturb a run that change no plan, as words of `inject` after a comma.
  std::function<std::string(Generator& random, int devices)> disturbance;
  /// What a fault makes fail once, beside the loss of a device.
  std::vector<std::string> faults;
  /// A call of which a device does not hold a handful of tiles may be computed by itself, on the
  /// CPU: its bits are not promised. Virtual devices hold them with every cap of these programs.
  bool may_lack_room = false;
  /// A kernel may find an operand in place in one run and as a copy in another (the setting
  /// `deterministic`), and round differently.
  bool bits_vary = false;
};

/// `inject` after poison: ",copy:3".
inline std::string options_of(const ProgramDevices& on, int devices,
                              const std::string& inject = "") {
  return on.options(devices) + ";tile=16;inject=poison" + inject;
}

/// What plans are made for, but for the devices: with half of the programs, so little memory that
/// tiles have to leave it before they have been used for the last time.
struct ProgramLimits {
  bool have_no_peers = false;
  std::int64_t cap_tiles = 0;
};

inline ProgramLimits random_limits(Generator& random) {
  return {.have_no_peers = chance(random, 20),
          .cap_tiles = chance(random, 50) ? between(random, 12, 80) : 0};
}

template <typename T>
std::string options_for(const ProgramDevices& on, const RandomProgram& program,
                        const ProgramLimits& limits, const std::string& inject) {
  std::string options =
      options_of(on, program.devices, inject + (limits.have_no_peers ? ",nopeer" : ""));
  if (limits.cap_tiles > 0)
    options +=
        ";memory_cap=" + std::to_string(limits.cap_tiles * 16 * 16 * std::int64_t{sizeof(T)});
  return options;
}

/// Calls that are not planned with others have tiles of their own, which depend on what the plan is
/// made for: those whose output may overlap what they read.
inline bool has_calls_planned_alone(const RandomProgram& program) {
  return std::ranges::any_of(program.steps, [](const ProgramStep& step) {
    const auto& [a, b, c] = step.operands;
    return step.act == Act::queue &&
           (a.part.matrix == c.part.matrix || b.part.matrix == c.part.matrix);
  });
}

/// Calls that their caller waits for are planned by themselves; of their bits nothing is promised.
inline bool is_all_queued(const RandomProgram& program) {
  return std::ranges::none_of(program.steps,
                              [](const ProgramStep& step) { return step.act == Act::call; });
}

template <typename T>
ProgramOutcome<T> run_program(const RandomProgram& program, const Timing& timing,
                              const std::string& options) {
  const fleetblas::Context context(options);
  ProgramOutcome<T> outcome = ProgramRunner<T>(program, timing, context.handle()).run();
  const std::string stats = context.stats_json();
  outcome.lacked_room = stats.find("\"no plan\"") != std::string::npos;
  outcome.ran = stats.substr(std::min(stats.size(), stats.find("\"ran\"")));
  return outcome;
}

/// Runs the program at once, and another time with pauses, waits and reads, with other company and,
/// if `limits_vary`, in other memory.
template <typename T>
std::string verdict_on_two_runs(const ProgramDevices& on, const MadeProgram<T>& made,
                                bool limits_vary) {
  const RandomProgram& program = made.program;
  Generator random(~program.seed);
  const ProgramLimits limits = random_limits(random);
  const ProgramLimits others = limits_vary ? random_limits(random) : limits;
  const auto options = [&](const ProgramLimits& of) {
    return options_for<T>(on, program, of, on.disturbance(random, program.devices));
  };
  const auto first = run_program<T>(program, {.seed = random()}, options(limits));
  const auto second = run_program<T>(
      program, {.seed = random(), .lingers = true, .has_company = chance(random, 50)},
      options(others));
  for (const auto* outcome : {&first, &second})
    if (std::string wrong = verdict_on(made, *outcome, FaultsSeen::none); !wrong.empty())
      return wrong + "\n" + text_of(program);
  if (!is_all_queued(program) || on.bits_vary) return "";
  if (on.may_lack_room && (first.lacked_room || second.lacked_room)) return "";
  const std::string differs = different_bits(program, first, second);
  return differs.empty() ? ""
                         : differs + "\n" + text_of(program) + "\n" + first.ran + "\n" + second.ran;
}

inline std::string verdict_on_two_runs(const ProgramDevices& on, std::uint64_t seed,
                                       const fleetblas::Context& cpu) {
  return with_blas_type(program_type(seed), [&]<typename T>() {
    const auto made =
        make_program<T>(seed, {.only_queued = seed % 3 > 0, .devices = on.count}, cpu.handle());
    return verdict_on_two_runs(on, made, !has_calls_planned_alone(made.program));
  });
}

/// A fault of any kind at any time.
inline std::string random_fault(const ProgramDevices& on, Generator& random, int devices) {
  if (chance(random, 40))
    return ",lost:" + std::to_string(between(random, 0, devices - 1)) + "@" +
           std::to_string(between(random, 1, 200));
  const auto kind = static_cast<std::size_t>(between(random, 0, std::ssize(on.faults) - 1));
  return "," + on.faults[kind] + ":" +
         std::to_string(between(random, 1, chance(random, 50) ? 40 : 400));
}

template <typename T>
std::string verdict_after_a_fault(const ProgramDevices& on, std::uint64_t seed,
                                  const fleetblas::Context& cpu) {
  const auto made = make_program<T>(seed, {.faults = true, .devices = on.count}, cpu.handle());
  const RandomProgram& program = made.program;
  Generator random(~seed);
  const std::string fault = random_fault(on, random, program.devices);
  const std::string options = options_for<T>(on, program, random_limits(random),
                                             on.disturbance(random, program.devices) + fault);
  const Timing timing{.seed = random(), .lingers = chance(random, 50), .has_company = true};
  const std::string wrong =
      verdict_on(made, run_program<T>(program, timing, options), FaultsSeen::told);
  return wrong.empty() ? "" : wrong + "\nwith " + fault + "\n" + text_of(program);
}

inline std::string verdict_after_a_fault(const ProgramDevices& on, std::uint64_t seed,
                                         const fleetblas::Context& cpu) {
  return with_blas_type(program_type(seed),
                        [&]<typename T>() { return verdict_after_a_fault<T>(on, seed, cpu); });
}

/// Without the comparison of long texts that EXPECT_EQ would print.
inline void expect_none(const std::string& wrong) {
  if (!wrong.empty()) ADD_FAILURE() << wrong;
}

}  // namespace fleet::test
