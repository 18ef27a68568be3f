// SPDX-License-Identifier: BSD-3-Clause
// ports.hpp: what links and devices share, as a probe finds out. It knows no kind of backend.
#pragma once
#include <compare>

#include "probe/session.hpp"
#include "probe/small_plans.hpp"

namespace fleet {

/// A port's unit is a second of a CPU thread for a share whose weight is the inverse of its link's
/// rate: alone, the copy keeps one thread busy. Such weights follow the rate; what is left of the
/// thread for others is not measured.
bool takes_thread(const Link& link, const PortShare& share);

/// A link of the pinned ring: many CPU threads copy between pageable and pinned memory for one
/// copy.
bool is_staging(const Machine& machine, LinkId link);

/// Whether each wire and each port is measured by itself. A quick probe of many devices has no time
/// for that: the number of links grows with that of pairs.
bool measures_all(const Machine& machine, const ProbeSession& session);

/// Links of one kind join the same kinds of places, and as many of them share something.
struct LinkKind {
  bool by_thread = false;  ///< copies by a CPU thread, not by a wire
  int source = 0, target = 0;
  std::size_t ports = 0;
  friend auto operator<=>(const LinkKind&, const LinkKind&) = default;
};
LinkKind kind_of(const Machine& machine, LinkId link);

/// Kernels on virtual devices that the machine describes alike are alike: one measurement stands
/// for all. Real devices never are.
bool devices_alike(const Machine& machine, DeviceId one, DeviceId other);

/// Gives a link its measured rate, and its shares of threads the weights that go with it.
void set_rate(Machine& machine, LinkId link, double latency_s, double bytes_per_s);

/// Fits the capacities of the ports that links share. `machine` has the measured rates of its
/// links; a capacity that no load reaches stays as it is, unless it is lower than what was reached.
/// A careful session also sees mixes of reads and writes of the host's memory, and reports what
/// each link has left under load.
void fit_ports(Machine& machine, ProbeMemory& memory, ProbeSession& session);

/// Loads that fit_ports may measure, at most.
std::size_t loads_of(const Machine& machine);

}  // namespace fleet
