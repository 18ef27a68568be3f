// SPDX-License-Identifier: BSD-3-Clause
// teams.hpp: which devices may compute a problem together. It ranks sets of workers; it makes no
// plan.
#pragma once
#include <vector>

#include "tune/tune.hpp"

namespace fleet {

/// Workers in ascending order.
using Team = std::vector<DeviceId>;

/// The sets of `workers` to consider for a problem (paper 2, 3.1): all of them, then the most
/// promising of each smaller size whose estimated costs come near the best by the goal.
///
/// Sets that differ by a symmetry of the machine and of the operands' homes have the same plans, so
/// one stands for all: two devices of equal rates, links and ports, neither of which holds an
/// operand, are the same device. Up to limits::kMostEnumerated workers every set is considered;
/// with more, those that grow by the device that is nearest to the operands.
std::vector<Team> teams(const Problem& problem, const Machine& machine, const Team& workers,
                        const Goal& goal);

/// All sets of the workers, of which there are at most limits::kMostEnumerated: one of those that a
/// symmetry maps onto each other.
std::vector<Team> all_sets(const Problem& problem, const Machine& machine, const Team& workers);

}  // namespace fleet
