// SPDX-License-Identifier: BSD-3-Clause
// ports.hpp: finds the ports that links share, and their capacities. It knows no kind of backend.
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

/// Whether ports that the machine does not describe are looked for among all links.
bool searches_all(const Machine& machine, const ProbeSession& session);

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

/// Fits the capacities of the first `said` ports of `machine`, which the backend describes, and
/// replaces the others by those that links turn out to share (pair_search.hpp, block_search.hpp).
/// `machine` has the measured rates of its links. A capacity of a described port that no load
/// reaches stays, unless a load exceeded it; a port that was found and can never be the limit is
/// left out. A careful session also measures mixes of reads and writes of host memory, and reports
/// the rate of each link under load.
void fit_ports(Machine& machine, std::size_t said, ProbeMemory& memory, ProbeSession& session);

/// The most values that fit_ports may measure for the ports that `machine` has, and about as many
/// as it may measure to find others.
std::size_t loads_of(const Machine& machine);

}  // namespace fleet
