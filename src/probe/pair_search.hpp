// SPDX-License-Identifier: BSD-3-Clause
// pair_search.hpp: finds ports that pairs of links show and the machine does not describe. It knows
// no kind of backend.
#pragma once
#include <vector>

#include "probe/slowdowns.hpp"

namespace fleet {

struct FoundByPairs {
  std::vector<SharedPort> ports;
  std::vector<Load> slowed;  ///< the pairs of links that slow each other down
};

/// Ports that two of their links fill. Pairs of links are loaded as in paper 2 (PARALiA, section
/// 3.4, Eq. 6), those that may share a port by what they join: all pairs of links with the host,
/// the two directions between two devices, each link between devices with the links of its ends
/// with the host, and links that begin or end at one device. The last two classes are first loaded
/// as a whole, and in pairs where that is slower than known ports explain. Further pairs are loaded
/// where the members of a port depend on them. With many devices (more than 8 in a quick probe, 16
/// in a careful one) only the two directions between each device and the host are loaded. Ports
/// that the machine has are not among them; their capacities are not used.
FoundByPairs shared_by_pairs(const Machine& machine, Slowdowns& slowdowns, ProbeSession& session);

/// About as many values as the search measures in a careful probe.
std::size_t values_of_search(const Machine& machine);

}  // namespace fleet
