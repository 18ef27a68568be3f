// SPDX-License-Identifier: BSD-3-Clause
// plan_text.hpp: a plan and the choice about it as JSON, in the words of fleet_plan_json. It
// knows no context.
#pragma once
#include <string>
#include <vector>

#include "core/plan_cache.hpp"
#include "plan/bound.hpp"

namespace fleet {

struct PlanReport {
  Problem problem;  ///< with user-facing device numbers, as it was written
  const Machine* machine = nullptr;
  const Planned* planned = nullptr;  ///< nullptr: there are no devices to plan for
  std::vector<int> users;            ///< user-facing numbers of the machine's devices, in its order
  double host_s = 0;
  Bound bound;
  Goal goal;
  /// The least value of any plan by the goal, where it is known.
  std::optional<double> bound_value;
  bool offloaded = false;
  std::string reason;
  std::string rules, preset;
};

std::string to_json(const PlanReport& report);

/// The plan of a factorization, in the words of fleet_plan_json.
struct FactorReport {
  Factorization what;  ///< with a user-facing device number, as it was written
  const Machine* machine = nullptr;
  const PlannedFactors* planned = nullptr;
  std::vector<int> users;  ///< as in PlanReport
  Bound bound;
  Goal goal;
  bool offloaded = false;
  std::string reason;
};

std::string to_json(const FactorReport& report);

/// The plan of several calls as one, in the words of fleet_plan_program_json.
struct ProgramReport {
  const Composition* calls = nullptr;  ///< with user-facing device numbers, as they were written
  const Machine* machine = nullptr;
  const Planned* planned = nullptr;
  std::vector<int> users;  ///< as in PlanReport
  /// Predicted seconds of the plan of each call alone.
  std::vector<double> alone_s;
  Bound bound;
  Goal goal;
};

std::string to_json(const ProgramReport& report);

}  // namespace fleet
