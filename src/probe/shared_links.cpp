// SPDX-License-Identifier: BSD-3-Clause
// shared_links.cpp: chooses the sets of links to load, and follows slowdowns that known ports do not
// explain down to ports. It must not know how loads are measured.
#include "probe/shared_links.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/sizes.hpp"
#include "probe/capacity.hpp"
#include "probe/groups.hpp"
#include "probe/ports.hpp"
#include "sim/simulate.hpp"

namespace fleet {
namespace {

/// Links between devices over PCIe are hardly faster than those to the host.
constexpr double kMayCross = 1.5;
/// Links fill a port, however they share others, if they need this many times its capacity.
constexpr double kFills = 1.25;
/// Tile edge of loads that are only simulated.
constexpr std::int64_t kToldEdge = 2048;
/// The least gain of time that tells whether a link takes a port.
constexpr double kTells = 1.1;

bool joins_devices(const Link& link) { return !on_host(link.source) && !on_host(link.target); }
bool joins_host(const Link& link) { return on_host(link.source) != on_host(link.target); }

template <typename Condition>
LinkSet links_that(const Machine& machine, const Condition& condition) {
  LinkSet found;
  for (const LinkId id : wires_of(machine))
    if (condition(machine.links[index(id)])) found.push_back(id);
  return found;
}

/// Whether a port of the machine has exactly these links.
bool has_port(const Machine& machine, const LinkSet& links) {
  for (PortId port = 0; port < static_cast<PortId>(machine.ports.size()); ++port)
    if (links_at(machine, port) == links) return true;
  return false;
}

void add_pairs(const LinkSet& links, std::vector<LinkPair>& pairs) {
  for (std::size_t i = 0; i < links.size(); ++i)
    for (std::size_t j = i + 1; j < links.size(); ++j) pairs.push_back(pair_of(links[i], links[j]));
}

class PairSearch {
 public:
  PairSearch(const Machine& machine, Slowdowns& slowdowns)
      : machine_(machine), slowdowns_(slowdowns), one_port_(slowdowns.unlimited()) {
    for (Link& link : one_port_.links) link.ports.clear();
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
    if (found[i].of_link <= kSlowedDown) continue;
    Load slowed = slowdowns_.load(sets[i], found[i].of_all);
    capacity = capacity_of(slowed);
    slowed_.push_back(std::move(slowed));
  }
}

/// Finds the ports of the pairs so far, and loads the pairs on which they depend.
void PairSearch::explain() {
  cliques_ = cliques_of(pairs_, machine_);
  while (!cliques_.open.empty()) {
    load(cliques_.open);
    cliques_ = cliques_of(pairs_, machine_);
  }
}

/// The sets that are slower than the ports found so far explain.
std::vector<std::size_t> PairSearch::unexplained(const std::vector<LinkSet>& sets) {
  Machine known = slowdowns_.unlimited();
  for (const SharedPort& port : cliques_.ports) add_port(known, port);
  const std::vector<Slowdown> times = slowdowns_.of(sets, known);
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < sets.size(); ++i)
    if (times[i].of_link > kSlowedDown) found.push_back(i);
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
  cliques_ = cliques_of(pairs_, machine_);
  // Ports of one capacity are fitted together.
  std::vector<double> capacities;
  for (const SharedPort& port : cliques_.ports) capacities.push_back(port.capacity);
  for (const ProbeGroup& group : groups_by_time(capacities, kSlowedDown))
    for (const std::size_t i : group.members) cliques_.ports[i].capacity = group.seconds;
  return result();
}

FoundByPairs PairSearch::result() {
  FoundByPairs found{.ports = {}, .slowed = std::move(slowed_)};
  for (SharedPort& port : cliques_.ports)
    if (!has_port(machine_, port.links)) found.ports.push_back(std::move(port));
  return found;
}

std::string range_of(const Machine& machine, DeviceId first, DeviceId last) {
  const std::string& name = machine.devices[index(first)].name;
  return first == last ? name : name + "-" + machine.devices[index(last)].name;
}

/// The links that begin (or end) at a device, but those to devices that are so fast that they
/// cannot cross the wire to the host.
LinkSet links_of_end(const Machine& machine, DeviceId device, DeviceId Link::* end,
                     DeviceId Link::* other) {
  double fastest = 0;
  LinkSet found;
  for (const bool with_host : {true, false})
    for (const LinkId wire : wires_of(machine)) {
      const Link& link = machine.links[index(wire)];
      if (link.*end != device || on_host(link.*other) != with_host) continue;
      if (with_host) fastest = std::max(fastest, link.bytes_per_s);
      if (link.bytes_per_s <= kMayCross * fastest) found.push_back(wire);
    }
  std::ranges::sort(found);
  return found;
}

/// Reads, writes, and both, by blocks of devices; then links of one device, and all links between
/// devices.
std::vector<Mix> blocks_of(const Machine& machine) {
  const auto end = static_cast<DeviceId>(machine.devices.size());
  std::vector<Mix> mixes;
  const auto add = [&](DeviceId first, DeviceId last) {
    const auto in_block = [&](DeviceId device) { return first <= device && device <= last; };
    LinkSet reads = links_that(machine, [&](const Link& link) {
      return on_host(link.source) && in_block(link.target);
    });
    LinkSet writes = links_that(machine, [&](const Link& link) {
      return in_block(link.source) && on_host(link.target);
    });
    LinkSet both = reads;
    both.insert(both.end(), writes.begin(), writes.end());
    std::ranges::sort(both);
    const std::string range = range_of(machine, first, last);
    mixes.push_back({"reads by " + range, std::move(reads)});
    mixes.push_back({"writes by " + range, std::move(writes)});
    mixes.push_back({"reads and writes by " + range, std::move(both)});
  };
  for (int size = 2; size < machine.device_count(); size *= 2)
    for (DeviceId first = kFirstDevice; first + size <= end; first += size)
      add(first, first + size - 1);
  if (machine.device_count() > 1) add(kFirstDevice, end - 1);
  for (DeviceId d = kFirstDevice; d < end; ++d) {
    mixes.push_back({"out of " + range_of(machine, d, d),
                     links_of_end(machine, d, &Link::source, &Link::target)});
    mixes.push_back({"into " + range_of(machine, d, d),
                     links_of_end(machine, d, &Link::target, &Link::source)});
  }
  mixes.push_back({"links between devices", links_that(machine, joins_devices)});
  // Every pair has been loaded.
  std::erase_if(mixes, [](const Mix& mix) { return mix.links.size() <= 2; });
  return mixes;
}

/// The port of these links with which `slower`, some of them, are as slow as in the load.
std::optional<SharedPort> port_of(LinkSet links, const LinkSet& slower, const Load& load,
                                  Machine machine) {
  if (links.size() < 2) return std::nullopt;
  std::ranges::sort(links);
  SharedPort port{.links = std::move(links)};
  port.capacity = capacity_for_rates(machine, load, slower, add_port(machine, port));
  return port;
}

/// Links of a load that is slower than on a machine.
struct Slowed {
  LinkSet slower;  ///< than on that machine
  LinkSet faster;  ///< than on that machine
  LinkSet quiet;   ///< as fast, and no faster than the slower ones are now: they may take the port
};

Slowed slowed_in(const Load& load, const Machine& machine) {
  Slowed found;
  const Trace expected = simulate(load.plan.plan(), machine);
  const double slow = std::max(kSlowedDown, 1 + load.noticeable);
  double least = kUnlimited;
  for (std::size_t i = 0; i < load.links.size(); ++i) {
    const double rate = rate_in(load.plan.plan(), expected, load.links[i]);
    if (load.bytes_per_s[i] > slow * rate) found.faster.push_back(load.links[i]);
    if (rate <= slow * load.bytes_per_s[i]) continue;
    found.slower.push_back(load.links[i]);
    least = std::min(least, load.bytes_per_s[i]);
  }
  for (std::size_t i = 0; i < load.links.size(); ++i)
    if (std::ranges::find(found.slower, load.links[i]) == found.slower.end() &&
        load.bytes_per_s[i] < kSlowedDown * least)
      found.quiet.push_back(load.links[i]);
  return found;
}

/// The port that slows down links of this mix, if it is not as on `known`.
std::optional<SharedPort> port_behind(const Mix& mix, const Machine& machine, const Machine& known,
                                      ProbeMemory& memory, ProbeSession& session) {
  const auto load = measure_load(machine, mix, memory, session);
  if (!load) return std::nullopt;
  const Slowed links = slowed_in(*load, known);
  if (links.slower.empty()) return std::nullopt;
  auto port = port_of(links.slower, links.slower, *load, known);
  if (port && links.quiet.empty()) return port;
  if (port) {
    // If quiet links take the port too, the others are faster without them.
    const auto without =
        measure_load(machine, {mix.name + ", without some", port->links}, memory, session);
    if (!without) return port;
    Machine supposed = known;
    add_port(supposed, *port);
    if (slowed_in(*without, supposed).faster.empty()) return port;
  }
  LinkSet all = links.slower;
  all.insert(all.end(), links.quiet.begin(), links.quiet.end());
  return port_of(std::move(all), links.slower, *load, known);
}

/// As many links as fill the port if it has so many, those with the host first.
LinkSet filling_links(const Machine& machine, PortId port) {
  LinkSet links = links_at(machine, port), found;
  std::ranges::stable_partition(links,
                                [&](LinkId id) { return joins_host(machine.links[index(id)]); });
  double left = kFills * machine.ports[index(port)].capacity;
  for (const LinkId link : links) {
    if (left <= 0) break;
    found.push_back(link);
    left -= demand(machine, {link}, port);
  }
  return found;
}

/// Links between devices that may cross the port, since a link of the same end with the host does.
LinkSet may_cross(const Machine& machine, PortId port) {
  std::set<DeviceId> sources, targets;
  for (const LinkId id : links_at(machine, port)) {
    const Link& link = machine.links[index(id)];
    if (joins_host(link)) (on_host(link.source) ? targets : sources).insert(std::max(link.source, link.target));
  }
  return links_that(machine, [&](const Link& link) {
    return joins_devices(link) && weight_at(link, port) == 0 &&
           link.bytes_per_s <= kSlowedDown * machine.ports[index(port)].capacity &&
           (sources.contains(link.source) || targets.contains(link.target));
  });
}

/// How many times as long a load of these links takes if the last of them takes the port too.
double longer_with(const Machine& machine, const LinkSet& set, PortId port) {
  Machine supposed = machine;
  supposed.links[index(set.back())].ports.push_back({port, 1});
  const LoadsInTurn load(machine, {set}, kToldEdge);
  return std::ranges::max(load.simulated_s(supposed)) /
         std::ranges::max(load.simulated_s(machine));
}

/// The devices at the ends of the links, "0-1" or "0,2".
std::string devices_of(const Machine& machine, const LinkSet& links) {
  std::set<DeviceId> devices;
  for (const LinkId id : links)
    for (const DeviceId end : {machine.links[index(id)].source, machine.links[index(id)].target})
      if (!on_host(end)) devices.insert(end);
  if (devices.empty()) return "host";
  if (*devices.rbegin() - *devices.begin() + 1 == std::ssize(devices))
    return range_of(machine, *devices.begin(), *devices.rbegin());
  std::string names;
  for (const DeviceId device : devices)
    names += (names.empty() ? "" : ",") + machine.devices[index(device)].name;
  return names;
}

std::string name_of(const Machine& machine, const LinkSet& links) {
  LinkSet with_host;
  bool reads = false, writes = false, one_source = true, one_target = true;
  for (const LinkId id : links) {
    const Link& link = machine.links[index(id)];
    const Link& first = machine.links[index(links.front())];
    one_source = one_source && link.source == first.source;
    one_target = one_target && link.target == first.target;
    if (!joins_host(link)) continue;
    with_host.push_back(id);
    (on_host(link.source) ? reads : writes) = true;
  }
  const auto device_name = [&](DeviceId device) { return machine.devices[index(device)].name; };
  const Link& first = machine.links[index(links.front())];
  if (!reads && !writes && joins_devices(first)) {
    if (one_source) return "out of " + device_name(first.source);
    if (one_target) return "into " + device_name(first.target);
    return "between " + devices_of(machine, links);
  }
  if (!reads && !writes) return "copy threads";
  const bool all = with_host.size() == links_that(machine, joins_host).size();
  const std::string devices = devices_of(machine, with_host);
  if (reads && writes) return all ? "host memory" : "to and from " + devices;
  return (reads ? "to " : "from ") + devices;
}

}  // namespace

FoundByPairs shared_by_pairs(const Machine& machine, Slowdowns& slowdowns, ProbeSession& session) {
  if (wires_of(machine).empty()) return {};
  PairSearch search(machine, slowdowns);
  if (measures_all(machine, session)) return search.search_all();
  session.leave_out("ports that links of several devices share were not looked for");
  return search.search_directions();
}

std::vector<std::pair<LinkId, PortId>> quiet_members(const Machine& machine, PortId first,
                                                     Slowdowns& slowdowns) {
  struct Question {
    LinkId link;
    PortId port;
    double longer;
  };
  std::vector<Question> asked;
  std::vector<LinkSet> sets;
  for (PortId port = first; port < static_cast<PortId>(machine.ports.size()); ++port) {
    const LinkSet filling = filling_links(machine, port);
    for (const LinkId link : may_cross(machine, port)) {
      LinkSet set = filling;
      set.push_back(link);
      const double longer = longer_with(machine, set, port);
      if (longer < kTells) continue;
      asked.push_back({.link = link, .port = port, .longer = longer});
      sets.push_back(std::move(set));
    }
  }
  const std::vector<Slowdown> times = slowdowns.of(sets, machine);
  std::vector<std::pair<LinkId, PortId>> found;
  for (std::size_t i = 0; i < asked.size(); ++i)
    if (times[i].of_all > std::sqrt(asked[i].longer))
      found.push_back({asked[i].link, asked[i].port});
  return found;
}

std::vector<SharedPort> shared_by_blocks(const Machine& machine, Slowdowns& slowdowns,
                                         ProbeMemory& memory, ProbeSession& session) {
  if (!measures_all(machine, session)) return {};
  Machine known = machine;
  std::vector<SharedPort> found;
  for (const Mix& mix : blocks_of(machine)) {
    if (has_port(known, mix.links)) continue;
    if (slowdowns.of({mix.links}, known).front().of_link <= kSlowedDown) continue;
    auto port = port_behind(mix, machine, known, memory, session);
    if (!port || has_port(known, port->links)) continue;
    add_port(known, *port);
    found.push_back(*std::move(port));
  }
  return found;
}

PortId add_port(Machine& machine, const SharedPort& port) {
  const std::string wanted = name_of(machine, port.links);
  std::string name = wanted;
  for (int number = 2; std::ranges::count(machine.ports, name, &Port::name) > 0; ++number)
    name = wanted + " (" + std::to_string(number) + ")";
  const auto id = static_cast<PortId>(machine.ports.size());
  machine.ports.push_back({name, port.capacity});
  for (const LinkId link : port.links) machine.links[index(link)].ports.push_back({id, 1});
  return id;
}

void remove_ports(Machine& machine, const std::vector<bool>& is_out) {
  std::vector<PortId> now;
  std::vector<Port> kept;
  for (std::size_t port = 0; port < is_out.size(); ++port) {
    now.push_back(is_out[port] ? -1 : static_cast<PortId>(kept.size()));
    if (!is_out[port]) kept.push_back(std::move(machine.ports[port]));
  }
  machine.ports = std::move(kept);
  const auto renumber = [&](std::vector<PortShare>& shares) {
    for (PortShare& share : shares) share.port = now[index(share.port)];
    std::erase_if(shares, [](const PortShare& share) { return share.port < 0; });
  };
  for (Link& link : machine.links) renumber(link.ports);
  for (Device& device : machine.devices) renumber(device.ports);
}

std::size_t values_of_search(const Machine& machine) {
  const std::size_t wires = wires_of(machine).size();
  return wires * wires / 64 + blocks_of(machine).size();
}

}  // namespace fleet
