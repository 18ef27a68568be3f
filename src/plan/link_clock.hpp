// SPDX-License-Identifier: BSD-3-Clause
// link_clock.hpp: the planner's own idea of when links and ports are free: the LAM of paper 1,
// III-D2, with ports as well as pairs. A rough clock for choosing, not a simulation.
#pragma once
#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include "machine/machine.hpp"
#include "program/tuning.hpp"

namespace fleet {

class LinkClock {
 public:
  /// One copy as the clock sees it. `first_s` is when its first chunk has arrived.
  struct Hop {
    LinkId link = -1;
    double first_s = 0;
    double stop_s = 0;
  };

  /// With Routing::pairs only links are busy, not the ports that they share. `in_turn`: devices
  /// send in turn (Queue::in_turn).
  LinkClock(const Machine& machine, Routing routing, bool in_turn)
      : machine_(machine),
        in_turn_(in_turn),
        knows_ports_(routing != Routing::pairs),
        link_free_s_(machine.links.size(), 0.0),
        port_busy_s_(machine.ports.size(), 0.0) {
    for (const Link& link : machine.links) {
      if (link.source == kPageable || link.target == kPageable) continue;  // never within a chain
      least_latency_s_ = std::min(least_latency_s_, link.latency(in_turn));
      best_bytes_per_s_ = std::max(best_bytes_per_s_, link.bytes_per_s);
    }
  }

  /// When `cargo` in `chunks` pieces over `link` would arrive, not before `ready_s` and, behind an
  /// upstream hop, chunk by chunk after it. Changes nothing.
  Hop hop(LinkId link, const Cargo& cargo, double ready_s, int chunks = 1,
          const Hop* upstream = nullptr) const {
    const Link& l = machine_.links[static_cast<std::size_t>(link)];
    const double chunk_s =
        l.latency(in_turn_) + static_cast<double>(cargo.bytes) / chunks / l.rate(cargo);
    double start_s = std::max(ready_s, link_free_s_[static_cast<std::size_t>(link)]);
    if (upstream) start_s = std::max(start_s, upstream->first_s);
    Hop hop{link, start_s + chunk_s, start_s + chunks * chunk_s};
    if (upstream) hop.stop_s = std::max(hop.stop_s, upstream->stop_s + chunk_s);
    for (const PortShare& share : ports_of(l))
      hop.stop_s = std::max(hop.stop_s, port_busy_s_[static_cast<std::size_t>(share.port)] +
                                            port_s(share, cargo.bytes));
    return hop;
  }

  /// How much later than the hop before it a chained one stops, at least.
  double least_hop_s(const Cargo& cargo, int chunks) const {
    return least_latency_s_ + static_cast<double>(cargo.bytes) / chunks / best_bytes_per_s_;
  }

  /// Plans the copy: its link is taken until it stops. A port only remembers how much work it has
  /// been given: it may serve an earlier copy that is planned later, so it is never "taken until".
  void commit(const Hop& hop, std::int64_t bytes) {
    link_free_s_[static_cast<std::size_t>(hop.link)] = hop.stop_s;
    for (const PortShare& share : ports_of(machine_.links[static_cast<std::size_t>(hop.link)]))
      port_busy_s_[static_cast<std::size_t>(share.port)] += port_s(share, bytes);
  }

  double free_s(LinkId link) const { return link_free_s_[static_cast<std::size_t>(link)]; }

 private:
  double port_s(const PortShare& share, std::int64_t bytes) const {
    return static_cast<double>(bytes) * share.weight /
           machine_.ports[static_cast<std::size_t>(share.port)].capacity;
  }

  std::span<const PortShare> ports_of(const Link& link) const {
    return knows_ports_ ? std::span<const PortShare>(link.ports) : std::span<const PortShare>();
  }

  const Machine& machine_;
  const bool in_turn_;
  const bool knows_ports_;
  std::vector<double> link_free_s_;
  std::vector<double> port_busy_s_;
  double least_latency_s_ = std::numeric_limits<double>::infinity();
  double best_bytes_per_s_ = 0;
};

}  // namespace fleet
