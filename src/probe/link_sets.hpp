// SPDX-License-Identifier: BSD-3-Clause
// link_sets.hpp: sets of links chosen by what they join, and ports made of them. It knows no
// backend.
#pragma once
#include <string>
#include <vector>

#include "machine/machine.hpp"

namespace fleet {

/// Links, ascending.
using LinkSet = std::vector<LinkId>;

/// Links that take one port, each with weight 1.
struct SharedPort {
  LinkSet links;
  double capacity = 0;  ///< bytes per second
  friend bool operator==(const SharedPort&, const SharedPort&) = default;
};

bool joins_devices(const Link& link);
/// Whether one end is the host, and the other a device.
bool joins_host(const Link& link);

/// Links that copies by wires use: a CPU thread is a port that the machine describes.
LinkSet wires_of(const Machine& machine);

/// The wires for which `condition` is true.
template <typename Condition>
LinkSet links_that(const Machine& machine, const Condition& condition) {
  LinkSet found;
  for (const LinkId id : wires_of(machine))
    if (condition(machine.links[static_cast<std::size_t>(id)])) found.push_back(id);
  return found;
}

/// "0-3": the names of the first and the last of these devices.
std::string range_of(const Machine& machine, DeviceId first, DeviceId last);

/// Whether a port of the machine has exactly these links.
bool has_port(const Machine& machine, const LinkSet& links);

/// Adds a port with a name that says which links it has.
PortId add_port(Machine& machine, const SharedPort& port);

/// Removes the ports for which `is_out` is true; the others keep their order.
void remove_ports(Machine& machine, const std::vector<bool>& is_out);

}  // namespace fleet
