// SPDX-License-Identifier: BSD-3-Clause
// link_sets.cpp: chooses links, and names and renumbers ports. It must not know what they are
// chosen for.
#include "probe/link_sets.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "base/sizes.hpp"
#include "probe/loads.hpp"
#include "probe/ports.hpp"

namespace fleet {
namespace {

/// The devices at the ends of the links, "0-1" or "0,2".
std::string devices_of(const Machine& machine, const LinkSet& links) {
  std::set<DeviceId> devices;
  for (const LinkId id : links)
    for (const DeviceId end : {machine.links[index(id)].source, machine.links[index(id)].target})
      if (!on_host(end)) devices.insert(end);
  if (devices.empty()) return "host";
  if (*devices.rbegin() - *devices.begin() + 1 == std::ssize(devices))
    return range_of(machine, *devices.begin(), *devices.rbegin());
  std::string names;
  for (const DeviceId device : devices)
    names += (names.empty() ? "" : ",") + machine.devices[index(device)].name;
  return names;
}

std::string name_of(const Machine& machine, const LinkSet& links) {
  LinkSet with_host;
  bool reads = false, writes = false, one_source = true, one_target = true;
  for (const LinkId id : links) {
    const Link& link = machine.links[index(id)];
    const Link& first = machine.links[index(links.front())];
    one_source = one_source && link.source == first.source;
    one_target = one_target && link.target == first.target;
    if (!joins_host(link)) continue;
    with_host.push_back(id);
    (on_host(link.source) ? reads : writes) = true;
  }
  const auto device_name = [&](DeviceId device) { return machine.devices[index(device)].name; };
  const Link& first = machine.links[index(links.front())];
  if (!reads && !writes && joins_devices(first)) {
    if (one_source) return "out of " + device_name(first.source);
    if (one_target) return "into " + device_name(first.target);
    return "between " + devices_of(machine, links);
  }
  if (!reads && !writes) return "copy threads";
  const bool all = with_host.size() == links_that(machine, joins_host).size();
  const std::string devices = devices_of(machine, with_host);
  if (reads && writes) return all ? "host memory" : "to and from " + devices;
  return (reads ? "to " : "from ") + devices;
}

}  // namespace

bool joins_devices(const Link& link) { return !on_host(link.source) && !on_host(link.target); }

bool joins_host(const Link& link) { return on_host(link.source) != on_host(link.target); }

LinkSet wires_of(const Machine& machine) {
  LinkSet wires;
  for (LinkId id = 0; id < static_cast<LinkId>(machine.links.size()); ++id)
    if (!kind_of(machine, id).by_thread) wires.push_back(id);
  return wires;
}

std::string range_of(const Machine& machine, DeviceId first, DeviceId last) {
  const std::string& name = machine.devices[index(first)].name;
  return first == last ? name : name + "-" + machine.devices[index(last)].name;
}

bool has_port(const Machine& machine, const LinkSet& links) {
  for (PortId port = 0; port < static_cast<PortId>(machine.ports.size()); ++port)
    if (links_at(machine, port) == links) return true;
  return false;
}

PortId add_port(Machine& machine, const SharedPort& port) {
  const std::string wanted = name_of(machine, port.links);
  std::string name = wanted;
  for (int number = 2; std::ranges::count(machine.ports, name, &Port::name) > 0; ++number)
    name = wanted + " (" + std::to_string(number) + ")";
  const auto id = static_cast<PortId>(machine.ports.size());
  machine.ports.push_back({name, port.capacity});
  for (const LinkId link : port.links) machine.links[index(link)].ports.push_back({id, 1});
  return id;
}

void remove_ports(Machine& machine, const std::vector<bool>& is_out) {
  std::vector<PortId> now;
  std::vector<Port> kept;
  for (std::size_t port = 0; port < is_out.size(); ++port) {
    now.push_back(is_out[port] ? -1 : static_cast<PortId>(kept.size()));
    if (!is_out[port]) kept.push_back(std::move(machine.ports[port]));
  }
  machine.ports = std::move(kept);
  const auto renumber = [&](std::vector<PortShare>& shares) {
    for (PortShare& share : shares) share.port = now[index(share.port)];
    std::erase_if(shares, [](const PortShare& share) { return share.port < 0; });
  };
  for (Link& link : machine.links) renumber(link.ports);
  for (Device& device : machine.devices) renumber(device.ports);
}

}  // namespace fleet
