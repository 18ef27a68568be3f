// SPDX-License-Identifier: BSD-3-Clause
// crew.cpp: a crew grows while its ports can serve one more device.
#include "probe/crew.hpp"

#include <algorithm>

#include "probe/ports.hpp"

namespace fleet {
namespace {

bool fits_ports(const Machine& machine, const std::vector<DeviceId>& busy, DeviceId newcomer) {
  if (busy.empty()) return true;
  std::vector<double> load(machine.ports.size(), 0.0);
  const auto add = [&](DeviceId id) {
    for (const PortShare& share : machine.devices[static_cast<std::size_t>(id)].ports)
      load[static_cast<std::size_t>(share.port)] += share.weight;
  };
  std::ranges::for_each(busy, add);
  add(newcomer);
  for (std::size_t p = 0; p < load.size(); ++p)
    if (load[p] > machine.ports[p].capacity) return false;
  return true;
}

}  // namespace

std::vector<Crew> crews_of(const Machine& machine, const std::vector<Device>& said) {
  std::vector<Crew> crews;
  std::vector<bool> known(machine.devices.size(), false);
  for (DeviceId id = kFirstDevice; id < static_cast<DeviceId>(machine.devices.size()); ++id) {
    if (known[static_cast<std::size_t>(id)] || said[static_cast<std::size_t>(id)].kernels.empty())
      continue;
    std::vector<DeviceId> same;
    for (DeviceId other = id; other < static_cast<DeviceId>(machine.devices.size()); ++other)
      if (devices_alike(machine, id, other)) same.push_back(other);
    for (const DeviceId other : same) known[static_cast<std::size_t>(other)] = true;
    if (!same.empty()) {
      crews.push_back({.busy = {}, .alike = same});
      for (const DeviceId other : same)
        if (fits_ports(machine, crews.back().busy, other)) crews.back().busy.push_back(other);
    } else if (!crews.empty() && crews.back().alike.empty() &&
               fits_ports(machine, crews.back().busy, id)) {
      crews.back().busy.push_back(id);
    } else {
      crews.push_back({.busy = {id}, .alike = {}});
    }
  }
  return crews;
}

}  // namespace fleet
