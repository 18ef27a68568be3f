// SPDX-License-Identifier: BSD-3-Clause
// capacity.cpp: simulates loads with different capacities of one port. It must not know how loads
// are measured.
#include "probe/capacity.hpp"

#include <algorithm>
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

namespace {

Trace trace_with(Machine& machine, const Load& load, PortId port, double capacity) {
  const double kept = std::exchange(machine.ports[index(port)].capacity, capacity);
  Trace trace = simulate(load.plan.plan(), machine);
  machine.ports[index(port)].capacity = kept;
  return trace;
}

/// The capacity up to which the load is too slow, at most the demand.
template <typename TooSlow>
double bisected(double demand, const TooSlow& too_slow) {
  double high = demand, low = high / 1e6;
  while (high > low * (1 + 1e-6)) {
    const double middle = std::sqrt(low * high);
    (too_slow(middle) ? low : high) = middle;
  }
  return high;
}

}  // namespace

double simulated_s(Machine& machine, const Load& load, PortId port, double capacity) {
  return trace_with(machine, load, port, capacity).seconds;
}

std::optional<double> fitted_capacity(Machine& machine, const Load& load, PortId port) {
  if (load.seconds <= simulated_s(machine, load, port, kUnlimited) * (1 + load.noticeable))
    return std::nullopt;
  return bisected(demand(machine, load.links, port), [&](double capacity) {
    return simulated_s(machine, load, port, capacity) > load.seconds;
  });
}

double capacity_for_rates(Machine& machine, const Load& load, const std::vector<LinkId>& links,
                          PortId port) {
  double measured = 0;
  for (std::size_t i = 0; i < load.links.size(); ++i)
    if (std::ranges::find(links, load.links[i]) != links.end()) measured += 1 / load.bytes_per_s[i];
  return bisected(demand(machine, load.links, port), [&](double capacity) {
    const Trace trace = trace_with(machine, load, port, capacity);
    double simulated = 0;
    for (const LinkId link : links) simulated += 1 / rate_in(load.plan.plan(), trace, link);
    return simulated > measured;
  });
}

}  // namespace fleet
