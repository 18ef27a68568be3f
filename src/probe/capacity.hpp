// SPDX-License-Identifier: BSD-3-Clause
// capacity.hpp: the capacity of a port with which a simulated load takes as long as the measured
// one. It knows no clock and no backend.
#pragma once
#include <optional>
#include <vector>

#include "probe/loads.hpp"

namespace fleet {

double weight_at(const Link& link, PortId port);

/// The capacity that the port needs for these links at full speed.
double demand(const Machine& machine, const std::vector<LinkId>& links, PortId port);

/// Seconds of the load on this machine if the port has this capacity. The machine is left as it
/// was.
double simulated_s(Machine& machine, const Load& load, PortId port, double capacity);

/// The capacity that explains the seconds of the load; nullopt if the port does not slow it down.
std::optional<double> fitted_capacity(Machine& machine, const Load& load, PortId port);

/// The capacity with which these links of the load, on average, take as long as they did.
double capacity_for_rates(Machine& machine, const Load& load, const std::vector<LinkId>& links,
                          PortId port);

}  // namespace fleet
