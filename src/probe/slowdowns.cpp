// SPDX-License-Identifier: BSD-3-Clause
// slowdowns.cpp: times short loads of sets of links, many in one run. It must not know what the
// slowdowns are for.
#include "probe/slowdowns.hpp"

#include <algorithm>
#include <map>

#include "base/sizes.hpp"
#include "probe/groups.hpp"
#include "probe/ports.hpp"

namespace fleet {
namespace {

/// Tile edges of short loads: the smallest is used whose copies over the slowest link of a set
/// spend at most kLatencyShare of their time on latency, which hides slowdowns of that size.
constexpr std::int64_t kEdges[] = {256, 512, 724, 1024, 1448, 2048, 2896, 4096};
constexpr double kLatencyShare = 0.02;
constexpr std::int64_t kSmallestEdge = 32;
/// A quick probe repeats a load that seems slow: other load on the machine slows loads down too.
constexpr int kMoreLooks = 2;

std::int64_t edge_for(const Machine& machine, const LinkSet& set) {
  const LinkId slowest = *std::ranges::min_element(
      set, {}, [&](LinkId id) { return machine.links[index(id)].bytes_per_s; });
  const Link& link = machine.links[index(slowest)];
  for (const std::int64_t edge : kEdges) {
    const auto bytes = static_cast<double>(edge * edge * bytes_of(Storage::f64));
    if (link.latency_s <= kLatencyShare * bytes / link.bytes_per_s) return edge;
  }
  return std::ranges::max(kEdges);
}

}  // namespace

Slowdowns::Slowdowns(const Machine& machine, ProbeMemory& memory, ProbeSession& session)
    : machine_(machine),
      unlimited_(machine),
      memory_(memory),
      session_(session),
      alone_(machine.links.size(), 1.0) {
  for (Port& port : unlimited_.ports) port.capacity = kUnlimited;
  std::vector<LinkSet> sets;
  for (const LinkId wire : wires_of(machine)) sets.push_back({wire});
  const std::vector<Slowdown> found = of(sets, unlimited_);
  for (std::size_t i = 0; i < sets.size(); ++i) alone_[index(sets[i].front())] = found[i].of_all;
}

double Slowdowns::correction(const LinkSet& set) const {
  double most = 0;
  for (const LinkId id : set) most = std::max(most, alone_[index(id)]);
  return most;
}

/// Empty if not even small tiles fit into memory.
std::vector<double> Slowdowns::measured_s(const std::vector<LinkSet>& sets, std::int64_t edge) {
  const LoadsInTurn loads(machine_, sets, edge);
  const std::string name = "loads of " + std::to_string(sets.size()) +
                           " sets of links, the first " +
                           link_name(machine_, sets.front().front()) + " and " +
                           std::to_string(sets.front().size() - 1) + " more";
  return session_.repeated(name, "s", [&] { return loads.run(memory_); });
}

std::vector<Slowdown> Slowdowns::short_look(const std::vector<LinkSet>& sets, std::int64_t edge,
                                            const Machine& known) {
  std::vector<Slowdown> found(sets.size());
  for (; edge >= kSmallestEdge; edge /= 2) {
    const std::vector<double> taken_s = measured_s(sets, edge);
    if (taken_s.empty()) continue;
    const std::vector<double> expected_s = LoadsInTurn(machine_, sets, edge).simulated_s(known);
    for (std::size_t set = 0, at = 0; set < sets.size(); ++set) {
      double most = 0, longest_s = 0, expected_longest_s = 0;
      for (std::size_t link = 0; link < sets[set].size(); ++link, ++at) {
        most = std::max(most, taken_s[at] / expected_s[at]);
        longest_s = std::max(longest_s, taken_s[at]);
        expected_longest_s = std::max(expected_longest_s, expected_s[at]);
      }
      const double alone = correction(sets[set]);
      found[set] = {.of_link = most / alone, .of_all = longest_s / expected_longest_s / alone};
    }
    break;
  }
  return found;
}

std::vector<Slowdown> Slowdowns::of(const std::vector<LinkSet>& sets, const Machine& known) {
  std::vector<Slowdown> found(sets.size());
  std::map<std::int64_t, std::vector<std::size_t>> by_edge;
  for (std::size_t i = 0; i < sets.size(); ++i) by_edge[edge_for(machine_, sets[i])].push_back(i);
  for (const auto& [edge, all] : by_edge)
    for (std::size_t begin = 0; begin < all.size(); begin += kSetsInTurn) {
      std::vector<std::size_t> ids(
          all.begin() + static_cast<std::ptrdiff_t>(begin),
          all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), begin + kSetsInTurn)));
      const std::vector<Slowdown> first = short_look(picked(sets, ids), edge, known);
      for (std::size_t i = 0; i < ids.size(); ++i) found[ids[i]] = first[i];
      for (int again = 0; again < kMoreLooks && !session_.careful(); ++again) {
        std::erase_if(ids, [&](std::size_t i) { return found[i].of_link <= kSlowedDown; });
        if (ids.empty()) break;
        const std::vector<Slowdown> retaken = short_look(picked(sets, ids), edge, known);
        for (std::size_t i = 0; i < ids.size(); ++i)
          if (retaken[i].of_link < found[ids[i]].of_link) found[ids[i]] = retaken[i];
      }
    }
  return found;
}

Load Slowdowns::load(const LinkSet& links, double slowdown) const {
  const LoadsInTurn one(machine_, {links}, edge_for(machine_, links));
  return {.plan = one.plan(),
          .links = links,
          .seconds = slowdown * std::ranges::max(one.simulated_s(unlimited_)),
          .noticeable = 0,
          .bytes_per_s = {}};
}

}  // namespace fleet
