// SPDX-License-Identifier: BSD-3-Clause
// cliques.hpp: from slowdowns of pairs of links to the ports that explain them. It knows no backend
// and no clock.
#pragma once
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "probe/link_sets.hpp"

namespace fleet {

/// Two links, the lower id first.
using LinkPair = std::pair<LinkId, LinkId>;
inline LinkPair pair_of(LinkId one, LinkId other) {
  return {std::min(one, other), std::max(one, other)};
}

/// For each pair that was loaded: the capacity of the port that explains its slowdown, kUnlimited
/// if there was none.
using PairCapacities = std::map<LinkPair, double>;

struct Cliques {
  std::vector<SharedPort> ports;
  /// Pairs that were not loaded, and on which the members of a port depend.
  std::vector<LinkPair> open;
};

/// A few ports that explain every slowdown: in each, every two links slow each other down to its
/// capacity, unless together they need less than that, or a smaller port slows them down more. A
/// link is only added for a slowdown with a link of the port that joins the host, if it has one:
/// two links between devices may well meet in another port. Slowdowns that a port should just have
/// may be missing for some members, not for most. The ports are final when no pair is
/// open. Only rates, sources and targets of the machine's links are used.
/// Capacities within the factor `same` are those of one port.
Cliques cliques_of(const PairCapacities& pairs, const Machine& machine, double same);

}  // namespace fleet
