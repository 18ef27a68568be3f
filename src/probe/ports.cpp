// SPDX-License-Identifier: BSD-3-Clause
// ports.cpp: loads each port with all the links that take it, and finds the capacity with which the
// simulated load takes as long as the measured one. It must not know clocks.
#include "probe/ports.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "base/sizes.hpp"
#include "probe/groups.hpp"
#include "probe/loads.hpp"
#include "sim/simulate.hpp"

namespace fleet {
namespace {

/// A weight changes only if the difference exceeds this share, the noise of a measurement.
constexpr double kNewWeight = 0.05;

/// A quick probe of at most this many devices measures each link and each port by itself.
constexpr int kFewDevices = 8;
/// The most links of one load in a quick probe of many devices: as many as eight GPUs have to and
/// from the host. They fill any port that all of its links fill.
constexpr std::size_t kMostLoaded = 16;
/// Short loads of similar ports differ by less than this factor.
constexpr double kAlikePorts = 1.15;

/// 0: pinned host, 1: pageable host, 2: any device.
int place_kind(DeviceId device) { return std::min(device, kFirstDevice); }

double weight_at(const Link& link, PortId port) {
  double weight = 0;
  for (const PortShare& share : link.ports)
    if (share.port == port) weight += share.weight;
  return weight;
}

double simulated_s(Machine& machine, const Load& load, PortId port, double capacity) {
  const double kept = std::exchange(machine.ports[index(port)].capacity, capacity);
  const double seconds = simulate(load.plan.plan(), machine).seconds;
  machine.ports[index(port)].capacity = kept;
  return seconds;
}

/// The capacity that the port needs for all its links at full speed.
double demand(const Machine& machine, const std::vector<LinkId>& links, PortId port) {
  double units = 0;
  for (const LinkId id : links) {
    const Link& link = machine.links[index(id)];
    units += weight_at(link, port) * link.bytes_per_s;
  }
  return units;
}

/// The capacity that explains the seconds of the load; nullopt if the port does not slow it down.
std::optional<double> fitted_capacity(Machine& machine, const Load& load,
                                      const std::vector<LinkId>& links, PortId port) {
  if (load.seconds <= simulated_s(machine, load, port, kUnlimited) * (1 + load.noticeable))
    return std::nullopt;
  double high = demand(machine, links, port), low = high / 1e6;
  while (high > low * (1 + 1e-6)) {
    const double middle = std::sqrt(low * high);
    (simulated_s(machine, load, port, middle) > load.seconds ? low : high) = middle;
  }
  return high;
}

/// All the links, or as many as also fill the port: sixteen links served by CPU threads keep the
/// threads of eight devices busy in both directions.
std::vector<LinkId> to_load(const Machine& machine, const std::vector<LinkId>& links,
                            const ProbeSession& session) {
  const bool by_threads = !session.careful() && std::ranges::any_of(links, [&](LinkId id) {
    return kind_of(machine, id).by_thread;
  });
  if (measures_all(machine, session) && !by_threads) return links;
  return some_of(machine, links, kMostLoaded);
}

/// Fits the capacity of similar ports on the first of them, with other ports as known so far.
class PortFit {
 public:
  PortFit(const Machine& machine, const std::vector<PortId>& alike, ProbeMemory& memory,
          ProbeSession& session)
      : port_(alike.front()),
        said_(machine.ports[index(port_)].capacity),
        links_(links_at(machine, port_)),
        loaded_(to_load(machine, links_, session)),
        of_(machine, loaded_) {
    for (const PortId port : alike) followers_.push_back({port, 1});
    if (links_.empty()) return;
    const std::string& name = machine.ports[index(port_)].name;
    if (loaded_.size() < links_.size() && !measures_all(machine, session))
      session.leave_out("no port was loaded by more than " + std::to_string(kMostLoaded) +
                        " links");
    all_ = measure_load(machine, {of_.both() ? name + " 1:1" : name, loaded_}, memory, session);
    if (!of_.both()) return;
    only_reads_ = measure_load(machine, {name + " 1:0", of_.reads}, memory, session);
    only_writes_ = measure_load(machine, {name + " 0:1", of_.writes}, memory, session);
    if (!session.careful()) return;
    for (const Mix& mix : uneven_mixes(name, of_.reads, of_.writes))
      if (auto load = measure_load(machine, mix, memory, session))
        mixes_.push_back(*std::move(load));
  }

  /// Gives `port` the fitted capacity of the first port multiplied by `times`.
  void follow(PortId port, double times) { followers_.push_back({port, times}); }
  std::size_t links() const { return links_.size(); }
  void forget(Machine& machine) const {
    if (all_) set_capacity(machine, kUnlimited);
  }
  void fit_capacity(Machine& machine) const;
  void fit_weights(Machine& machine) const;

 private:
  double misfit(Machine& machine, double capacity) const;
  void set_capacity(Machine& machine, double capacity) const {
    for (const auto& [port, times] : followers_)
      machine.ports[index(port)].capacity = times * capacity;
  }

  struct Follower {
    PortId port;
    double times;
  };
  std::vector<Follower> followers_;  ///< the port itself is the first
  PortId port_;                      ///< the port that is loaded
  double said_;
  std::vector<LinkId> links_, loaded_;
  Directions of_;
  std::optional<Load> all_, only_reads_, only_writes_;
  std::vector<Load> mixes_;
};

/// The sum of squared logarithmic errors of the simulated loads.
double PortFit::misfit(Machine& machine, double capacity) const {
  double sum = 0;
  const auto add = [&](const Load& load) {
    const double off = std::log(simulated_s(machine, load, port_, capacity) / load.seconds);
    sum += off * off;
  };
  add(*all_);
  for (const Load& mix : mixes_) add(mix);
  return sum;
}

void PortFit::fit_capacity(Machine& machine) const {
  if (!all_) return;
  std::optional<double> fitted = fitted_capacity(machine, *all_, loaded_, port_);
  // Among the capacities that explain one of the loads, the one that explains all loads best.
  for (const Load& mix : mixes_)
    if (const auto other = fitted_capacity(machine, mix, mix.links, port_))
      if (!fitted || misfit(machine, *other) < misfit(machine, *fitted)) fitted = other;
  if (fitted)
    set_capacity(machine, *fitted);
  else if (simulated_s(machine, *all_, port_, said_) <= all_->seconds * (1 + all_->noticeable))
    set_capacity(machine, said_);
  else
    set_capacity(machine, demand(machine, links_, port_));
}

/// Sets the weight of writes to the host relative to reads, from loads of only reads and only
/// writes, each of which fills the port.
void PortFit::fit_weights(Machine& machine) const {
  if (!only_reads_ || !only_writes_) return;
  const auto reads = fitted_capacity(machine, *only_reads_, of_.reads, port_);
  const auto writes = fitted_capacity(machine, *only_writes_, of_.writes, port_);
  if (!reads || !writes || std::abs(*writes / *reads - 1) < kNewWeight) return;
  for (const auto& [port, times] : followers_)
    for (const LinkId id : Directions(machine, links_at(machine, port)).writes)
      for (PortShare& share : machine.links[index(id)].ports)
        if (share.port == port) share.weight *= *reads / *writes;
}

/// Ports that a machine describes alike: equal capacity, equal numbers of reads and writes, and
/// equally with or without one common source or target.
struct PortKind {
  double capacity = 0;
  std::size_t reads = 0, writes = 0;
  bool one_source = false, one_target = false;
  friend auto operator<=>(const PortKind&, const PortKind&) = default;
};

PortKind kind_of(const Machine& machine, PortId port, const std::vector<LinkId>& links) {
  const Directions of(machine, links);
  const Link& first = machine.links[index(links.front())];
  return {.capacity = machine.ports[index(port)].capacity,
          .reads = of.reads.size(),
          .writes = of.writes.size(),
          .one_source = std::ranges::all_of(
              links, [&](LinkId id) { return machine.links[index(id)].source == first.source; }),
          .one_target = std::ranges::all_of(
              links, [&](LinkId id) { return machine.links[index(id)].target == first.target; })};
}

/// Classes of ports that are fitted together: each port by itself, or in a quick probe of many
/// devices all ports of one kind.
std::vector<std::vector<PortId>> port_classes(const Machine& machine, const ProbeSession& session) {
  const bool one_by_one = measures_all(machine, session);
  std::vector<std::vector<PortId>> classes;
  std::map<PortKind, std::size_t> known;
  for (PortId port = 0; port < static_cast<PortId>(machine.ports.size()); ++port) {
    const std::vector<LinkId> links = links_at(machine, port);
    if (links.empty()) continue;
    const PortKind kind = kind_of(machine, port, links);
    if (one_by_one || known.emplace(kind, classes.size()).second)
      classes.push_back({port});
    else
      classes[known.at(kind)].push_back(port);
  }
  return classes;
}

/// Groups the ports of a class by one short load of each. One port of the main group is fitted for
/// all of it, and as many of the other groups as there is time for.
void add_fits(const Machine& machine, const std::vector<PortId>& same, ProbeMemory& memory,
              ProbeSession& session, std::vector<PortFit>& fits) {
  if (same.size() == 1) {
    fits.emplace_back(machine, same, memory, session);
    return;
  }
  const std::vector<ProbeGroup> groups =
      look_at_each(same.size(), kAlikePorts, [&](const std::vector<std::size_t>& ids) {
        return short_loads_s(machine, picked(same, ids), memory);
      });
  const std::size_t first = fits.size();
  const std::size_t scaled = measure_groups(
      groups, session,
      [&](const ProbeGroup& group) {
        fits.emplace_back(machine, picked(same, group.members), memory, session);
      },
      [&](const ProbeGroup& group, double by) {
        for (const PortId port : picked(same, group.members)) fits[first].follow(port, 1 / by);
      });
  if (scaled > 0)
    session.leave_out(std::to_string(scaled) + " ports like " +
                      machine.ports[index(same[groups.front().members.front()])].name +
                      " have capacities from one short load each");
}

}  // namespace

bool takes_thread(const Link& link, const PortShare& share) {
  return std::abs(share.weight * link.bytes_per_s - 1) < 1e-6;
}

bool is_staging(const Machine& machine, LinkId id) {
  const Link& link = machine.links[index(id)];
  return on_host(link.source) && on_host(link.target) &&
         std::ranges::none_of(link.ports,
                              [&](const PortShare& share) { return takes_thread(link, share); });
}

bool measures_all(const Machine& machine, const ProbeSession& session) {
  return session.careful() || machine.device_count() <= kFewDevices;
}

LinkKind kind_of(const Machine& machine, LinkId id) {
  const Link& link = machine.links[index(id)];
  return {.by_thread = std::ranges::any_of(
              link.ports, [&](const PortShare& share) { return takes_thread(link, share); }),
          .source = place_kind(link.source),
          .target = place_kind(link.target),
          .ports = link.ports.size()};
}

bool devices_alike(const Machine& machine, DeviceId one, DeviceId other) {
  const auto by_thread = [&](const Device& device) {
    return std::ranges::any_of(device.ports, [&](const PortShare& own) {
      return std::ranges::any_of(machine.links, [&](const Link& link) {
        return std::ranges::any_of(link.ports, [&](const PortShare& share) {
          return share.port == own.port && takes_thread(link, share);
        });
      });
    });
  };
  const Device &a = machine.devices[index(one)], &b = machine.devices[index(other)];
  return by_thread(a) && by_thread(b) && a.kernels == b.kernels && a.lanes == b.lanes &&
         a.ports.size() == b.ports.size();
}

void set_rate(Machine& machine, LinkId id, double latency_s, double bytes_per_s) {
  Link& link = machine.links[index(id)];
  for (PortShare& share : link.ports)
    if (takes_thread(link, share)) share.weight = 1 / bytes_per_s;
  link.latency_s = latency_s;
  link.bytes_per_s = bytes_per_s;
}

std::size_t loads_of(const Machine& machine) {
  std::size_t loads = 0;
  for (PortId port = 0; port < static_cast<PortId>(machine.ports.size()); ++port) {
    const std::vector<LinkId> links = links_at(machine, port);
    const Directions of(machine, links);
    loads += links.empty() ? 0 : of.both() ? 3 + uneven_mixes("", of.reads, of.writes).size() : 1;
  }
  return loads;
}

void fit_ports(Machine& machine, ProbeMemory& memory, ProbeSession& session) {
  std::vector<PortFit> fits;
  for (const std::vector<PortId>& same : port_classes(machine, session))
    add_fits(machine, same, memory, session, fits);
  // A port with few links is less likely to be masked by other ports, so it is fitted first.
  std::ranges::stable_sort(fits, {}, &PortFit::links);
  for (const PortFit& fit : fits) fit.forget(machine);
  // A slowdown that the first rounds attribute to a small port may come from a large one, and
  // weights need capacities that are known.
  for (int round = 0; round < 4; ++round)
    for (const PortFit& fit : fits) {
      if (round >= 2) fit.fit_weights(machine);
      fit.fit_capacity(machine);
    }
}

}  // namespace fleet
