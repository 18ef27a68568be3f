// SPDX-License-Identifier: BSD-3-Clause
// goal_bound.hpp: the least value that any plan can have by a goal. It knows no plan.
#pragma once
#include <optional>
#include <vector>

#include "machine/machine.hpp"
#include "problem/problem.hpp"
#include "tune/goal.hpp"

namespace fleet {

/// No plan for `problem` on `workers`, or on some of them, with a `cpu_part` of the host's rates
/// beside them (Tuning), has a lesser value. A set of devices
/// takes at least bound() seconds without the arithmetic of the others; for as long, its devices
/// and those that hold operands draw the watts of waiting, and all products together need at least
/// the joules of the device that needs least for a flop. Where time is the objective,
/// bound().seconds of the whole machine; nothing for a goal of the caller's own. A limit of time
/// ("energy@1.1") does not raise it. With more than limits::kMostEnumerated workers, sets are told
/// apart by their number only, which lowers it.
std::optional<double> goal_bound(const Problem& problem, const Machine& machine,
                                 const std::vector<DeviceId>& workers, const Goal& goal,
                                 double cpu_part = 0);

}  // namespace fleet
