// SPDX-License-Identifier: BSD-3-Clause
// program_planner.hpp: all that the plan of a program depends on, as a value: any thread may plan
// with it. It knows no device's state.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/plan_cache.hpp"

namespace fleet {

/// What the plan of a program is for.
struct ProgramKey {
  std::vector<ProgramCall> calls;
  std::vector<bool> stays, returns;  ///< per matrix
  std::vector<std::optional<Distribution>> distributions;
  Residency before;
  friend bool operator==(const ProgramKey&, const ProgramKey&) = default;
};
ProgramKey key_of(const TileProgram& program, const Residency& before);

struct ProgramPlanner {
  std::shared_ptr<const Machine> machine;
  std::uint64_t version = 0;  ///< of the machine (OnlineModel::version)
  TuneRequest request;
  std::map<DataType, std::vector<DeviceId>> workers;  ///< that compute each type

  /// The plan of several calls as one, by the workers that compute all their types. Throws as
  /// tune_program, and Error(unsupported) where there is no such worker.
  Planned plan(const std::shared_ptr<const TileProgram>& program, const Residency& before) const;
};

}  // namespace fleet
