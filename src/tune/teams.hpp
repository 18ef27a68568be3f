// SPDX-License-Identifier: BSD-3-Clause
// teams.hpp: which devices may compute a problem together. It ranks sets of workers; it makes no
// plan.
#pragma once
#include <vector>

#include "tune/tune.hpp"

namespace fleet {

/// Workers in ascending order.
using Team = std::vector<DeviceId>;

/// The sets of `workers` to consider for a problem (paper 2, 3.1), most promising first and at most
/// limits::kMostTeams: all of them, and those smaller ones whose estimates come near the best.
///
/// Sets that differ by a symmetry of the machine and of the operands' homes have the same plans, so
/// one stands for all: two devices of equal rates, links and ports, neither of which holds an
/// operand, are the same device. Up to limits::kMostEnumerated workers every set is considered;
/// with more, those that grow by the device that is nearest to the operands.
std::vector<Team> teams(const Problem& problem, const Machine& machine, const Team& workers);

}  // namespace fleet
