// SPDX-License-Identifier: BSD-3-Clause
// pair_search.cpp: chooses the pairs of links to load, and follows slowdowns that known ports do
// not explain down to ports. It must not know how loads are measured.
#include "probe/pair_search.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "base/sizes.hpp"
#include "probe/capacity.hpp"
#include "probe/cliques.hpp"
#include "probe/groups.hpp"
#include "probe/ports.hpp"

namespace fleet {
namespace {

void add_pairs(const LinkSet& links, std::vector<LinkPair>& pairs) {
  for (std::size_t i = 0; i < links.size(); ++i)
    for (std::size_t j = i + 1; j < links.size(); ++j) pairs.push_back(pair_of(links[i], links[j]));
}

class PairSearch {
 public:
  PairSearch(const Machine& machine, Slowdowns& slowdowns)
      : machine_(machine), slowdowns_(slowdowns), one_port_(slowdowns.unlimited()) {
    for (Link& link : one_port_.links) link.ports.clear();
    for (Device& device : one_port_.devices) device.ports.clear();
    one_port_.ports = {{"pair", kUnlimited}};
  }

  FoundByPairs search_all();
  FoundByPairs search_directions();

 private:
  void load(const std::vector<LinkPair>& pairs);
  void explain();
  std::vector<std::size_t> unexplained(const std::vector<LinkSet>& sets);
  double capacity_of(const Load& load);
  void look_at_ends();
  void look_at_stars();
  FoundByPairs result();

  const Machine& machine_;
  Slowdowns& slowdowns_;
  Machine one_port_;  ///< for pairs by themselves
  PairCapacities pairs_;
  Cliques cliques_;
  std::vector<Load> slowed_;
};

double PairSearch::capacity_of(const Load& load) {
  for (const LinkId id : load.links) one_port_.links[index(id)].ports = {{0, 1}};
  const auto capacity = fitted_capacity(one_port_, load, 0);
  for (const LinkId id : load.links) one_port_.links[index(id)].ports.clear();
  return capacity.value_or(kUnlimited);
}

/// Loads the pairs that were not loaded before.
void PairSearch::load(const std::vector<LinkPair>& pairs) {
  std::vector<LinkSet> sets;
  std::set<LinkPair> added;
  for (const LinkPair& pair : pairs)
    if (!pairs_.contains(pair) && added.insert(pair).second)
      sets.push_back({pair.first, pair.second});
  const std::vector<Slowdown> found = slowdowns_.of(sets, slowdowns_.unlimited());
  for (std::size_t i = 0; i < sets.size(); ++i) {
    double& capacity = pairs_[pair_of(sets[i][0], sets[i][1])];
    capacity = kUnlimited;
    if (found[i].of_link <= slowdowns_.noise()) continue;
    Load slowed = slowdowns_.load(sets[i], found[i].of_all);
    capacity = capacity_of(slowed);
    slowed_.push_back(std::move(slowed));
  }
}

/// Finds the ports of the pairs so far, and loads the pairs on which they depend.
void PairSearch::explain() {
  cliques_ = cliques_of(pairs_, slowdowns_.unlimited(), slowdowns_.noise());
  while (!cliques_.open.empty()) {
    load(cliques_.open);
    cliques_ = cliques_of(pairs_, slowdowns_.unlimited(), slowdowns_.noise());
  }
}

/// The sets that are slower than the ports found so far explain.
std::vector<std::size_t> PairSearch::unexplained(const std::vector<LinkSet>& sets) {
  Machine known = slowdowns_.unlimited();
  for (const SharedPort& port : cliques_.ports) add_port(known, port);
  const std::vector<Slowdown> times = slowdowns_.of(sets, known);
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < sets.size(); ++i)
    if (times[i].of_link > slowdowns_.noise()) found.push_back(i);
  return found;
}

/// Links between devices that cross the wires of their ends to the host.
void PairSearch::look_at_ends() {
  std::vector<LinkSet> sets;
  for (const LinkId wire : links_that(machine_, joins_devices)) {
    const Link& link = machine_.links[index(wire)];
    sets.push_back({wire});
    for (const LinkId other : links_that(machine_, joins_host))
      for (const DeviceId end : {link.source, link.target})
        if (machine_.links[index(other)].source == end ||
            machine_.links[index(other)].target == end)
          sets.back().push_back(other);
  }
  std::vector<LinkPair> pairs;
  for (const std::size_t i : unexplained(sets))
    for (const LinkId other : sets[i])
      if (other != sets[i].front()) pairs.push_back(pair_of(sets[i].front(), other));
  load(pairs);
  explain();
}

/// Links between devices that begin, or end, at one device.
void PairSearch::look_at_stars() {
  std::vector<LinkSet> stars;
  for (DeviceId d = kFirstDevice; d < static_cast<DeviceId>(machine_.devices.size()); ++d)
    for (const auto end : {&Link::source, &Link::target}) {
      LinkSet star = links_that(
          machine_, [&](const Link& link) { return joins_devices(link) && link.*end == d; });
      if (star.size() > 1 && !has_port(machine_, star)) stars.push_back(std::move(star));
    }
  std::vector<LinkPair> pairs;
  for (const std::size_t i : unexplained(stars)) add_pairs(stars[i], pairs);
  load(pairs);
  explain();
}

FoundByPairs PairSearch::search_all() {
  std::vector<LinkPair> pairs;
  add_pairs(links_that(machine_, joins_host), pairs);
  const LinkSet ring = links_that(
      machine_, [](const Link& link) { return on_host(link.source) && on_host(link.target); });
  if (!has_port(machine_, ring)) add_pairs(ring, pairs);
  for (const LinkId wire : links_that(machine_, joins_devices)) {
    const Link& link = machine_.links[index(wire)];
    const LinkId back = machine_.find_link(link.target, link.source);
    if (back > wire) pairs.push_back({wire, back});
  }
  load(pairs);
  explain();
  look_at_ends();
  look_at_stars();
  return result();
}

FoundByPairs PairSearch::search_directions() {
  std::vector<LinkPair> pairs;
  for (const LinkId wire : links_that(machine_, joins_host)) {
    const Link& link = machine_.links[index(wire)];
    const LinkId back = machine_.find_link(link.target, link.source);
    if (back > wire && !has_port(machine_, {wire, back})) pairs.push_back({wire, back});
  }
  load(pairs);
  cliques_ = cliques_of(pairs_, slowdowns_.unlimited(), slowdowns_.noise());
  // Ports of one capacity are fitted together.
  std::vector<double> capacities;
  for (const SharedPort& port : cliques_.ports) capacities.push_back(port.capacity);
  for (const ProbeGroup& group : groups_by_time(capacities, slowdowns_.noise()))
    for (const std::size_t i : group.members) cliques_.ports[i].capacity = group.seconds;
  return result();
}

FoundByPairs PairSearch::result() {
  FoundByPairs found{.ports = {}, .slowed = std::move(slowed_)};
  for (SharedPort& port : cliques_.ports)
    if (!has_port(machine_, port.links)) found.ports.push_back(std::move(port));
  return found;
}

}  // namespace

FoundByPairs shared_by_pairs(const Machine& machine, Slowdowns& slowdowns, ProbeSession& session) {
  if (wires_of(machine).empty()) return {};
  PairSearch search(machine, slowdowns);
  if (searches_all(machine, session)) return search.search_all();
  session.leave_out("ports that links of several devices share were not looked for");
  return search.search_directions();
}

std::size_t values_of_search(const Machine& machine) {
  const std::size_t wires = wires_of(machine).size();
  const std::size_t host = links_that(machine, joins_host).size();
  // Each link alone, twice; pairs of links with the host, and two sets for each link between
  // devices.
  return (2 * wires + host * host / 2 + 2 * (wires - host)) / Slowdowns::kSetsInTurn + 1;
}

}  // namespace fleet
