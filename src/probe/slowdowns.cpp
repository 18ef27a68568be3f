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
constexpr std::size_t kSetsInTurn = 32;
/// A quick probe repeats a load that seems slow: other load on the machine slows loads down too.
constexpr int kMoreLooks = 1;

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

std::vector<LinkId> wires_of(const Machine& machine) {
  std::vector<LinkId> wires;
  for (LinkId id = 0; id < static_cast<LinkId>(machine.links.size()); ++id)
    if (!kind_of(machine, id).by_thread) wires.push_back(id);
  return wires;
}

Slowdowns::Slowdowns(const Machine& machine, ProbeMemory& memory, ProbeSession& session)
    : machine_(machine),
      unlimited_(machine),
      memory_(memory),
      session_(session),
      alone_(machine.links.size(), 1.0) {
  for (Port& port : unlimited_.ports) port.capacity = kUnlimited;
  std::vector<LinkSet> sets;
  for (const LinkId wire : wires_of(machine)) sets.push_back({wire});
  const std::vector<double> found = of(sets, unlimited_);
  for (std::size_t i = 0; i < sets.size(); ++i) alone_[index(sets[i].front())] = found[i];
}

double Slowdowns::correction(const LinkSet& set) const {
  double most = 0;
  for (const LinkId id : set) most = std::max(most, alone_[index(id)]);
  return most;
}

/// Empty if not even small tiles fit into memory.
std::vector<double> Slowdowns::measured_s(const std::vector<LinkSet>& sets, std::int64_t edge) {
  const LoadsInTurn loads(machine_, sets, edge);
  const std::string name = "loads of " + std::to_string(sets.size()) + " sets of links, the first " +
                           link_name(machine_, sets.front().front()) + " and " +
                           std::to_string(sets.front().size() - 1) + " more";
  return session_.repeated(name, "s", [&] { return loads.run(memory_); });
}

std::vector<double> Slowdowns::of(const std::vector<LinkSet>& sets, const Machine& known) {
  std::vector<double> found(sets.size(), 1.0);
  std::map<std::int64_t, std::vector<std::size_t>> by_edge;
  for (std::size_t i = 0; i < sets.size(); ++i)
    by_edge[edge_for(machine_, sets[i])].push_back(i);

  const auto measure = [&](const std::vector<std::size_t>& ids, std::int64_t edge) {
    for (; edge >= kSmallestEdge; edge /= 2) {
      const std::vector<LinkSet> some = picked(sets, ids);
      const std::vector<double> taken = measured_s(some, edge);
      if (taken.empty()) continue;
      const std::vector<double> expected = LoadsInTurn(machine_, some, edge).simulated_s(known);
      std::vector<double> times;
      for (std::size_t i = 0; i < ids.size(); ++i)
        times.push_back(taken[i] / (expected[i] * correction(some[i])));
      return times;
    }
    return std::vector<double>(ids.size(), 1.0);
  };

  for (const auto& [edge, all] : by_edge)
    for (std::size_t begin = 0; begin < all.size(); begin += kSetsInTurn) {
      std::vector<std::size_t> ids(
          all.begin() + static_cast<std::ptrdiff_t>(begin),
          all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), begin + kSetsInTurn)));
      const std::vector<double> first = measure(ids, edge);
      for (std::size_t i = 0; i < ids.size(); ++i) found[ids[i]] = first[i];
      for (int again = 0; again < kMoreLooks && !session_.careful(); ++again) {
        std::erase_if(ids, [&](std::size_t i) { return found[i] <= kSlowedDown; });
        if (ids.empty()) break;
        const std::vector<double> retaken = measure(ids, edge);
        for (std::size_t i = 0; i < ids.size(); ++i)
          found[ids[i]] = std::min(found[ids[i]], retaken[i]);
      }
    }
  return found;
}

Load Slowdowns::load(const LinkSet& links, double slowdown) const {
  const LoadsInTurn one(machine_, {links}, edge_for(machine_, links));
  return {.plan = one.plan(),
          .links = links,
          .seconds = slowdown * one.simulated_s(unlimited_).front(),
          .noticeable = 0,
          .bytes_per_s = {}};
}

}  // namespace fleet
