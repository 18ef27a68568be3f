// SPDX-License-Identifier: BSD-3-Clause
// ports.hpp: finds the capacities of the ports that links share. It knows no kind of backend.
#pragma once
#include <compare>

#include "probe/session.hpp"
#include "probe/small_plans.hpp"

namespace fleet {

/// Whether the unit of the port is a second of a CPU thread: the weight of such a share is the
/// inverse of its link's rate, so that a copy alone keeps one thread busy. Such weights follow the
/// rate, and the capacity of the port is not measured.
bool takes_thread(const Link& link, const PortShare& share);

/// Whether the link belongs to the pinned ring, where many CPU threads share one copy between
/// pageable and pinned memory.
bool is_staging(const Machine& machine, LinkId link);

/// Whether each wire and each port is measured by itself. A quick probe of many devices has no time
/// for that, since the number of links grows with the number of pairs.
bool measures_all(const Machine& machine, const ProbeSession& session);

/// Links of one kind join the same kinds of places and take equally many ports.
struct LinkKind {
  bool by_thread = false;  ///< copies by a CPU thread, not by a wire
  int source = 0, target = 0;
  std::size_t ports = 0;
  friend auto operator<=>(const LinkKind&, const LinkKind&) = default;
};
LinkKind kind_of(const Machine& machine, LinkId link);

/// Whether one measurement of kernels holds for both devices: true for virtual devices that the
/// machine describes alike, false for real devices.
bool devices_alike(const Machine& machine, DeviceId one, DeviceId other);

/// Sets the measured rate of a link, and the weights of its thread shares, which follow the rate.
void set_rate(Machine& machine, LinkId link, double latency_s, double bytes_per_s);

/// Fits the capacities of the ports that links share. `machine` has the measured rates of its
/// links; a capacity that no load reaches stays, unless the load exceeded it. A careful session
/// also measures mixes of reads and writes of host memory, and reports the rate of each link under
/// load.
void fit_ports(Machine& machine, ProbeMemory& memory, ProbeSession& session);

/// The most loads that fit_ports may measure.
std::size_t loads_of(const Machine& machine);

}  // namespace fleet
