// SPDX-License-Identifier: BSD-3-Clause
// block_search.hpp: finds what more than two links at a time show of ports. It knows no kind of
// backend.
#pragma once
#include <utility>
#include <vector>

#include "probe/slowdowns.hpp"

namespace fleet {

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

}  // namespace fleet
