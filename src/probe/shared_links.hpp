// SPDX-License-Identifier: BSD-3-Clause
// shared_links.hpp: finds ports that links share and the machine does not describe. It knows no kind
// of backend.
#pragma once
#include <utility>
#include <vector>

#include "probe/cliques.hpp"
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
/// where the members of a port depend on them. A quick probe of many devices only loads the two
/// directions between each device and the host. Ports that the machine has are not among them;
/// their capacities are not used.
FoundByPairs shared_by_pairs(const Machine& machine, Slowdowns& slowdowns, ProbeSession& session);

/// Links between devices that take one of the ports from `first` on, and need too little of it to
/// be found in pairs: each is loaded beside as many links with the host as fill the port.
/// `machine` has the capacities of its ports.
std::vector<std::pair<LinkId, PortId>> quiet_members(const Machine& machine, PortId first,
                                                     Slowdowns& slowdowns);

/// Ports that only more than two links fill: of reads, writes, and both, by blocks of 2, 4, 8, ...
/// neighbouring devices and by all; of links that begin or end at one device and may cross its
/// links with the host; of all links between devices. Their links are those that are slower than on
/// `machine`, whose ports have their capacities. None in a quick probe of many devices.
std::vector<SharedPort> shared_by_blocks(const Machine& machine, Slowdowns& slowdowns,
                                         ProbeMemory& memory, ProbeSession& session);

/// Adds a port with a name that says which links it has.
PortId add_port(Machine& machine, const SharedPort& port);

/// Removes the ports for which `is_out` is true; the others keep their order.
void remove_ports(Machine& machine, const std::vector<bool>& is_out);

/// The most values that both searches measure in a careful probe.
std::size_t values_of_search(const Machine& machine);

}  // namespace fleet
