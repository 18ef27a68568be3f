// SPDX-License-Identifier: BSD-3-Clause
// capacity.cpp: simulates loads with different capacities of one port. It must not know how loads
// are measured.
#include "probe/capacity.hpp"

#include <cmath>
#include <utility>

#include "base/sizes.hpp"
#include "sim/simulate.hpp"

namespace fleet {

double weight_at(const Link& link, PortId port) {
  double weight = 0;
  for (const PortShare& share : link.ports)
    if (share.port == port) weight += share.weight;
  return weight;
}

double demand(const Machine& machine, const std::vector<LinkId>& links, PortId port) {
  double units = 0;
  for (const LinkId id : links) {
    const Link& link = machine.links[index(id)];
    units += weight_at(link, port) * link.bytes_per_s;
  }
  return units;
}

double simulated_s(Machine& machine, const Load& load, PortId port, double capacity) {
  const double kept = std::exchange(machine.ports[index(port)].capacity, capacity);
  const double seconds = simulate(load.plan.plan(), machine).seconds;
  machine.ports[index(port)].capacity = kept;
  return seconds;
}

std::optional<double> fitted_capacity(Machine& machine, const Load& load, PortId port) {
  if (load.seconds <= simulated_s(machine, load, port, kUnlimited) * (1 + load.noticeable))
    return std::nullopt;
  double high = demand(machine, load.links, port), low = high / 1e6;
  while (high > low * (1 + 1e-6)) {
    const double middle = std::sqrt(low * high);
    (simulated_s(machine, load, port, middle) > load.seconds ? low : high) = middle;
  }
  return high;
}

}  // namespace fleet
