// SPDX-License-Identifier: BSD-3-Clause
// block_search.cpp: loads blocks of links that may share a port, and compares the rate of each link
// with a simulation. It must not know how loads are measured.
#include "probe/block_search.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>

#include "base/sizes.hpp"
#include "probe/capacity.hpp"
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

/// The links that begin (or end) at a device, but those to devices that are so fast that they
/// cannot cross the wire to the host.
LinkSet links_of_end(const Machine& machine, DeviceId device, DeviceId Link::*end,
                     DeviceId Link::*other) {
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
    LinkSet reads = links_that(
        machine, [&](const Link& link) { return on_host(link.source) && in_block(link.target); });
    LinkSet writes = links_that(
        machine, [&](const Link& link) { return in_block(link.source) && on_host(link.target); });
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

/// Slowdowns of up to `noise` do not count.
Slowed slowed_in(const Load& load, const Machine& machine, double noise) {
  Slowed found;
  const Trace expected = simulate(load.plan.plan(), machine);
  const double slow = std::max(noise, 1 + load.noticeable);
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
        load.bytes_per_s[i] < noise * least)
      found.quiet.push_back(load.links[i]);
  return found;
}

/// The port that slows down links of this mix by more than noise, if it is not as on `known`.
std::optional<SharedPort> port_behind(const Mix& mix, const Machine& machine, const Machine& known,
                                      double noise, ProbeMemory& memory, ProbeSession& session) {
  const auto load = measure_load(machine, mix, memory, session);
  if (!load) return std::nullopt;
  const Slowed links = slowed_in(*load, known, noise);
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
    if (slowed_in(*without, supposed, noise).faster.empty()) return port;
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
    if (joins_host(link))
      (on_host(link.source) ? targets : sources).insert(std::max(link.source, link.target));
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
  return std::ranges::max(load.simulated_s(supposed)) / std::ranges::max(load.simulated_s(machine));
}

}  // namespace

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
  if (!searches_all(machine, session)) return {};
  Machine known = machine;
  std::vector<SharedPort> found;
  for (const Mix& mix : blocks_of(machine)) {
    if (has_port(known, mix.links)) continue;
    if (slowdowns.of({mix.links}, known).front().of_link <= slowdowns.noise()) continue;
    auto port = port_behind(mix, machine, known, slowdowns.noise(), memory, session);
    if (!port || has_port(known, port->links)) continue;
    add_port(known, *port);
    found.push_back(*std::move(port));
  }
  return found;
}

}  // namespace fleet
