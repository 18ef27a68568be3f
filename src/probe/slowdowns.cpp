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
/// A quick probe looks so often at a load that seems slow, and more often where two halves of the
/// looks at a wire differ: other load on the machine slows loads down too.
constexpr int kLooks = 3, kMostLooks = 16;
/// Two halves of the looks agree if they differ by no more than this share for nine of ten wires.
constexpr double kSteady = 0.02;
constexpr double kOfWires = 0.9;
/// A difference is not noise if it is this many times the spread.
constexpr double kBeyondSpread = 2;

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

/// How far apart these times of the same wires are: as a share, exceeded by one wire in ten.
double difference_of(const std::vector<double>& one, const std::vector<double>& other) {
  std::vector<double> apart;
  for (std::size_t i = 0; i < one.size(); ++i)
    apart.push_back(std::max(one[i], other[i]) / std::min(one[i], other[i]) - 1);
  if (apart.empty()) return 0;
  const auto most =
      apart.begin() + static_cast<std::ptrdiff_t>(kOfWires * static_cast<double>(apart.size() - 1));
  std::ranges::nth_element(apart, most);
  return *most;
}

}  // namespace

Slowdowns::Slowdowns(const Machine& machine, ProbeMemory& memory, ProbeSession& session)
    : machine_(machine), unlimited_(machine), memory_(memory), session_(session) {
  for (Port& port : unlimited_.ports) port.capacity = kUnlimited;
  look_at_wires();
}

/// Looks at each wire twice, and again until the shortest of every other look and of the rest
/// agree. What wires take alone here corrects their rates: two links of one port differ in their
/// rates, as they were measured, by more than in the time that they take together.
void Slowdowns::look_at_wires() {
  std::vector<LinkSet> sets;
  for (const LinkId wire : wires_of(machine_)) sets.push_back({wire});
  // Many devices have so many wires that there is no time for a second look.
  const int most = !searches_all(machine_, session_) ? 1 : session_.careful() ? 2 : kMostLooks;
  std::vector<double> halves[2];
  for (std::vector<double>& half : halves) half.resize(sets.size(), kUnlimited);
  double spread = 0;
  int looks = 0;
  while (looks < most && (looks < 2 || looks % 2 == 1 || spread > kSteady)) {
    std::vector<double>& half = halves[looks++ % 2];
    const std::vector<Slowdown> found = of(sets, unlimited_);
    for (std::size_t i = 0; i < sets.size(); ++i) half[i] = std::min(half[i], found[i].of_all);
    if (looks % 2 == 0) spread = difference_of(halves[0], halves[1]);
  }

  noise_ = std::max(kSlowedDown, 1 + kBeyondSpread * spread);
  if (!session_.careful()) looks_ = std::max(kLooks, looks);
  for (std::size_t i = 0; i < sets.size(); ++i)
    unlimited_.links[index(sets[i].front())].bytes_per_s /= std::min(halves[0][i], halves[1][i]);
  if (looks >= looks_) return;
  // A wire that seems slow is looked at again, as any load is.
  std::erase_if(sets, [&](const LinkSet& set) {
    const std::size_t id = index(set.front());
    return unlimited_.links[id].bytes_per_s * kSlowedDown > machine_.links[id].bytes_per_s;
  });
  const std::vector<Slowdown> again = of(sets, unlimited_);
  for (std::size_t i = 0; i < sets.size(); ++i)
    unlimited_.links[index(sets[i].front())].bytes_per_s /= std::min(1.0, again[i].of_all);
}

Slowdown Slowdowns::slowdown_of(const Look& look) {
  if (look.times.empty()) return {};
  double most = 0, longest_s = 0, expected_s = 0;
  for (std::size_t i = 0; i < look.times.size(); ++i) {
    most = std::max(most, look.times[i]);
    longest_s = std::max(longest_s, look.times[i] * look.expected_s[i]);
    expected_s = std::max(expected_s, look.expected_s[i]);
  }
  return {.of_link = most, .of_all = longest_s / expected_s};
}

/// The shortest time of each link. Empty if not even small tiles fit into memory.
std::vector<double> Slowdowns::measured_s(const std::vector<LinkSet>& sets, std::int64_t edge) {
  const LoadsInTurn loads(machine_, sets, edge);
  const std::string name = "loads of " + std::to_string(sets.size()) +
                           " sets of links, the first " +
                           link_name(machine_, sets.front().front()) + " and " +
                           std::to_string(sets.front().size() - 1) + " more";
  std::vector<double> least;
  const std::vector<double> usual = session_.repeated(name, "s", [&] {
    const std::vector<double> taken = loads.run(memory_);
    if (least.empty()) least = taken;
    for (std::size_t i = 0; i < taken.size(); ++i) least[i] = std::min(least[i], taken[i]);
    return taken;
  });
  return usual.empty() ? usual : least;
}

std::vector<Slowdowns::Look> Slowdowns::short_look(const std::vector<LinkSet>& sets,
                                                   std::int64_t edge, const Machine& known) {
  std::vector<Look> found(sets.size());
  for (; edge >= kSmallestEdge; edge /= 2) {
    const std::vector<double> taken_s = measured_s(sets, edge);
    if (taken_s.empty()) continue;
    const std::vector<double> expected_s = LoadsInTurn(machine_, sets, edge).simulated_s(known);
    for (std::size_t set = 0, at = 0; set < sets.size(); ++set)
      for (std::size_t link = 0; link < sets[set].size(); ++link, ++at) {
        found[set].times.push_back(taken_s[at] / expected_s[at]);
        found[set].expected_s.push_back(expected_s[at]);
      }
    break;
  }
  return found;
}

std::vector<Slowdown> Slowdowns::of(const std::vector<LinkSet>& sets, const Machine& known) {
  std::vector<Slowdown> found(sets.size());
  std::map<std::int64_t, std::vector<std::size_t>> by_edge;
  for (std::size_t i = 0; i < sets.size(); ++i) by_edge[edge_for(machine_, sets[i])].push_back(i);
  std::vector<Look> best(sets.size());
  Machine expected = known;
  for (std::size_t id = 0; id < expected.links.size(); ++id)
    expected.links[id].bytes_per_s = unlimited_.links[id].bytes_per_s;
  for (const auto& [edge, all] : by_edge)
    for (std::size_t begin = 0; begin < all.size(); begin += kSetsInTurn) {
      std::vector<std::size_t> ids(
          all.begin() + static_cast<std::ptrdiff_t>(begin),
          all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), begin + kSetsInTurn)));
      for (int look = 0; look < looks_ && !ids.empty(); ++look) {
        const std::vector<Look> taken = short_look(picked(sets, ids), edge, expected);
        for (std::size_t i = 0; i < ids.size(); ++i) {
          Look& known_best = best[ids[i]];
          if (known_best.times.empty()) known_best = taken[i];
          // A copy may be delayed in any look, and then spare the others of its set.
          for (std::size_t link = 0; link < taken[i].times.size(); ++link)
            known_best.times[link] = std::min(known_best.times[link], taken[i].times[link]);
          found[ids[i]] = slowdown_of(known_best);
        }
        std::erase_if(ids, [&](std::size_t i) { return found[i].of_link <= noise_; });
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
