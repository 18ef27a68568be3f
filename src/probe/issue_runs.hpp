// SPDX-License-Identifier: BSD-3-Clause
// issue_runs.hpp: the cost of issuing a task, by runs of empty kernels. It knows no kind of
// backend.
#pragma once
#include <vector>

#include "probe/small_plans.hpp"

namespace fleet {

/// Empty kernels, each in a queue of its own: the time between their starts is the cost of issuing.
class IssueRuns {
 public:
  /// On all these devices in turn; `machine` must outlive it.
  IssueRuns(const Machine& machine, const std::vector<DeviceId>& busy, DataType type);
  /// One value: seconds per task. Empty if the tiles do not fit into memory.
  std::vector<double> seconds(ProbeMemory& memory) const;

 private:
  ProbePlan few_, many_;
};

}  // namespace fleet
