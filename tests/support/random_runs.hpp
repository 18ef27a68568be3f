// SPDX-License-Identifier: BSD-3-Clause
// random_runs.hpp: runs random plans of given problems on virtual devices, and counts the outcomes.
// It compares no results.
#pragma once
#include <string>

#include "support/host_trial.hpp"
#include "support/random_plans.hpp"

namespace fleet::test {

struct Tally {
  int run = 0;
  int refused = 0;    ///< problems without a plan
  std::string wrong;  ///< the first wrong result, or ""
};

inline Machine random_node(Generator& random) {
  const int devices = static_cast<int>(between(random, 1, 5));
  return chance(random, 50) ? node(devices) : uneven_node(random, devices);
}

/// Plans `problem` in tiles of up to `largest_tile`. run(plan, backend) returns its fault, or "".
template <typename Run>
void try_random_plan(Generator& random, const Machine& machine, const Problem& problem,
                     std::int64_t largest_tile, const Options& options, Tally& tally, Run run) {
  const Tuning tuning = random_tuning(random, machine, problem, largest_tile);
  const auto plan = plan_if_any(problem, machine, tuning);
  if (!plan) {
    ++tally.refused;
    return;
  }
  ++tally.run;
  const auto backend = make_host_backend(machine, shared_cpu_blas(), options);
  const std::string wrong = run(*plan, *backend);
  if (!wrong.empty() && tally.wrong.empty())
    tally.wrong = to_text(problem) + " rules " + to_string(tuning.rules) + ": " + wrong;
}

/// Runs a trial by a plan, and returns the fault of its result, or "".
template <typename Trial>
std::string outcome(Trial&& trial, const Plan& plan, Backend& backend) {
  const Trace trace = trial.run(plan, backend);
  return trace.status == Status::ok ? trial.verdict() : trace.message;
}

}  // namespace fleet::test
