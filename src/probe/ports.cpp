// SPDX-License-Identifier: BSD-3-Clause
// ports.cpp: loads each port with all the links that take it, and finds the capacities with which
// the simulated loads take as long as the measured ones. It must not know clocks.
#include "probe/ports.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/sizes.hpp"
#include "probe/block_search.hpp"
#include "probe/capacity.hpp"
#include "probe/groups.hpp"
#include "probe/loads.hpp"
#include "probe/pair_search.hpp"
#include "sim/simulate.hpp"

namespace fleet {
namespace {

/// A weight changes only if the difference exceeds this share, the noise of a measurement.
constexpr double kNewWeight = 0.05;
/// A load that takes longer than simulated by no more than this share is explained.
constexpr double kExplained = 0.03;

/// A quick probe of at most this many devices measures each link and each port by itself.
constexpr int kFewDevices = 8;
/// The number of pairs of links grows with the square of the devices.
constexpr int kMostSearched = 16;
/// The most links of one load in a quick probe of many devices: as many as eight GPUs have to and
/// from the host. They fill any port that all of its links fill.
constexpr std::size_t kMostLoaded = 16;
/// Short loads of similar ports differ by less than this factor.
constexpr double kAlikePorts = 1.15;

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
    const bool weighs = of_.both() && std::ranges::all_of(of_.reads, [&](LinkId id) {
                          return on_host(machine.links[index(id)].source);
                        });
    all_ = measure_load(machine, {weighs ? name + " 1:1" : name, loaded_}, memory, session);
    if (!weighs) return;
    only_reads_ = measure_load(machine, {name + " 1:0", of_.reads}, memory, session);
    only_writes_ = measure_load(machine, {name + " 0:1", of_.writes}, memory, session);
    if (!session.careful()) return;
    for (const Mix& mix : uneven_mixes(name, of_.reads, of_.writes))
      if (auto load = measure_load(machine, mix, memory, session))
        mixes_.push_back(*std::move(load));
  }

  /// Gives `port` the fitted capacity of the first port multiplied by `times`.
  void follow(PortId port, double times) { followers_.push_back({port, times}); }
  PortId port() const { return port_; }
  /// All ports that get its capacity.
  std::vector<PortId> ports() const {
    std::vector<PortId> all;
    for (const Follower& follower : followers_) all.push_back(follower.port);
    return all;
  }
  std::size_t links() const { return links_.size(); }
  /// Whether its loads take no longer than on this machine.
  bool is_explained(const Machine& machine) const;
  /// Whether one of its loads is faster than this machine allows.
  bool is_contradicted(const Machine& machine) const;
  void forget(Machine& machine) const {
    if (all_) set_capacity(machine, kUnlimited);
  }
  void fit_capacity(Machine& machine) const;
  void fit_weights(Machine& machine) const;

 private:
  double misfit(Machine& machine, double capacity) const;
  std::vector<const Load*> loads() const;
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

double expected_s(const Load& load, const Machine& machine) {
  return simulate(load.plan.plan(), machine).seconds;
}

bool is_explained(const Load& load, const Machine& machine) {
  const Trace expected = simulate(load.plan.plan(), machine);
  const double most = 1 + std::max(kExplained, load.noticeable);
  if (load.seconds > most * expected.seconds) return false;
  for (std::size_t i = 0; i < load.bytes_per_s.size(); ++i)
    if (rate_in(load.plan.plan(), expected, load.links[i]) > most * load.bytes_per_s[i])
      return false;
  return true;
}

std::vector<const Load*> PortFit::loads() const {
  std::vector<const Load*> all;
  for (const std::optional<Load>* load : {&all_, &only_reads_, &only_writes_})
    if (*load) all.push_back(&**load);
  for (const Load& mix : mixes_) all.push_back(&mix);
  return all;
}

bool PortFit::is_explained(const Machine& machine) const {
  return std::ranges::all_of(loads(),
                             [&](const Load* load) { return fleet::is_explained(*load, machine); });
}

bool PortFit::is_contradicted(const Machine& machine) const {
  return std::ranges::any_of(loads(), [&](const Load* load) {
    return expected_s(*load, machine) > load->seconds * (1 + kNewWeight + load->noticeable);
  });
}

void PortFit::fit_capacity(Machine& machine) const {
  if (!all_) return;
  std::optional<double> fitted = fitted_capacity(machine, *all_, port_);
  // Among the capacities that explain one of the loads, the one that explains all loads best.
  for (const Load& mix : mixes_)
    if (const auto other = fitted_capacity(machine, mix, port_))
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
  const auto reads = fitted_capacity(machine, *only_reads_, port_);
  const auto writes = fitted_capacity(machine, *only_writes_, port_);
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

/// The fits of all ports of a machine. Ports from `said` on were found, and go if they are not
/// needed.
class PortFits {
 public:
  PortFits(Machine& machine, std::size_t said, const std::vector<Load>& slowed_pairs)
      : machine_(machine), said_(said), slowed_pairs_(slowed_pairs) {}

  void add(const std::vector<PortId>& same, ProbeMemory& memory, ProbeSession& session);
  /// Loads a port whose links have changed, or that is new.
  void renew(PortId port, ProbeMemory& memory, ProbeSession& session) {
    std::erase_if(fits_, [&](const PortFit& fit) { return fit.port() == port; });
    fits_.emplace_back(machine_, std::vector<PortId>{port}, memory, session);
  }
  void fit();
  /// Removes the found ports without which every load is explained, and turns three ports of reads,
  /// writes and both into one with weights, if that explains them.
  void simplify();

 private:
  bool is_found(PortId port) const { return index(port) >= said_ && !is_out(port); }
  bool is_out(PortId port) const { return std::ranges::find(out_, port) != out_.end(); }
  bool is_needed(const PortFit& fit) const;
  bool take_out_needless();
  void take_out(const std::vector<PortId>& ports);
  bool weigh();
  std::optional<PortId> found_with(const std::vector<LinkId>& links) const;

  Machine& machine_;
  std::size_t said_;
  const std::vector<Load>& slowed_pairs_;
  std::vector<PortFit> fits_;
  std::vector<PortId> out_;
};

/// Groups the ports of a class by one short load of each. One port of the main group is fitted for
/// all of it, and as many of the other groups as there is time for.
void PortFits::add(const std::vector<PortId>& same, ProbeMemory& memory, ProbeSession& session) {
  if (same.size() == 1) {
    fits_.emplace_back(machine_, same, memory, session);
    return;
  }
  const std::vector<ProbeGroup> groups =
      look_at_each(same.size(), kAlikePorts, [&](const std::vector<std::size_t>& ids) {
        return short_loads_s(machine_, picked(same, ids), memory);
      });
  const std::size_t first = fits_.size();
  const std::size_t scaled = measure_groups(
      groups, session,
      [&](const ProbeGroup& group) {
        fits_.emplace_back(machine_, picked(same, group.members), memory, session);
      },
      [&](const ProbeGroup& group, double by) {
        for (const PortId port : picked(same, group.members)) fits_[first].follow(port, 1 / by);
      });
  if (scaled > 0)
    session.leave_out(std::to_string(scaled) + " ports like " +
                      machine_.ports[index(same[groups.front().members.front()])].name +
                      " have capacities from one short load each");
}

void PortFits::fit() {
  // A port with few links is less likely to be masked by other ports, so it is fitted first.
  std::ranges::stable_sort(fits_, {}, &PortFit::links);
  for (const PortFit& fit : fits_) fit.forget(machine_);
  // A slowdown that the first rounds attribute to a small port may come from a large one, and
  // weights need capacities that are known.
  for (int round = 0; round < 4; ++round)
    for (const PortFit& fit : fits_) {
      if (round >= 2) fit.fit_weights(machine_);
      fit.fit_capacity(machine_);
    }
}

/// A port of two links is needed if their long load says so, whatever their short one said.
bool PortFits::is_needed(const PortFit& fit) const {
  if (!fit.is_explained(machine_)) return true;
  const auto takes_port = [&](LinkId link) {
    return weight_at(machine_.links[index(link)], fit.port()) > 0;
  };
  return fit.links() > 2 && std::ranges::any_of(slowed_pairs_, [&](const Load& pair) {
           return std::ranges::all_of(pair.links, takes_port) && !is_explained(pair, machine_);
         });
}

/// Ports with few links come first: a large port may explain its part.
bool PortFits::take_out_needless() {
  std::vector<PortId> needless;
  for (const PortFit& fit : fits_) {
    if (!is_found(fit.port())) continue;
    double& capacity = machine_.ports[index(fit.port())].capacity;
    const double kept = std::exchange(capacity, kUnlimited);
    if (is_needed(fit)) {
      capacity = kept;
      continue;
    }
    const std::vector<PortId> ports = fit.ports();
    needless.insert(needless.end(), ports.begin(), ports.end());
  }
  take_out(needless);
  return !needless.empty();
}

void PortFits::take_out(const std::vector<PortId>& ports) {
  for (const PortId port : ports) {
    machine_.ports[index(port)].capacity = kUnlimited;
    std::erase_if(fits_, [&](const PortFit& fit) { return fit.port() == port; });
    out_.push_back(port);
  }
}

std::optional<PortId> PortFits::found_with(const std::vector<LinkId>& links) const {
  for (auto port = static_cast<PortId>(said_); index(port) < machine_.ports.size(); ++port)
    if (is_found(port) && links_at(machine_, port) == links) return port;
  return std::nullopt;
}

/// If writes weigh more than reads, a port is full of reads at one rate, of writes at another, and
/// of both at a rate between: that looks like three ports, of which the last forbids the first.
/// Without the others the fit gives it a weight. False if there are no such ports.
bool PortFits::weigh() {
  for (const PortFit& both : fits_) {
    const Directions of(machine_, links_at(machine_, both.port()));
    const auto reads = found_with(of.reads), writes = found_with(of.writes);
    if (!reads || !writes || !both.is_contradicted(machine_)) continue;
    take_out({*reads, *writes});
    return true;
  }
  return false;
}

void PortFits::simplify() {
  while (weigh()) fit();
  while (take_out_needless()) fit();
  std::vector<bool> gone(machine_.ports.size(), false);
  for (const PortId port : out_) gone[index(port)] = true;
  remove_ports(machine_, gone);
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

bool searches_all(const Machine& machine, const ProbeSession& session) {
  return measures_all(machine, session) && machine.device_count() <= kMostSearched;
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
  return loads + values_of_search(machine);
}

void fit_ports(Machine& machine, std::size_t said, ProbeMemory& memory, ProbeSession& session) {
  std::vector<bool> is_earlier(machine.ports.size(), false);
  for (std::size_t port = said; port < is_earlier.size(); ++port) is_earlier[port] = true;
  remove_ports(machine, is_earlier);
  Slowdowns slowdowns(machine, memory, session);
  const FoundByPairs by_pairs = shared_by_pairs(machine, slowdowns, session);
  for (const SharedPort& port : by_pairs.ports) add_port(machine, port);

  PortFits fits(machine, said, by_pairs.slowed);
  for (const std::vector<PortId>& same : port_classes(machine, session))
    fits.add(same, memory, session);
  fits.fit();
  std::set<PortId> changed;
  for (const auto& [link, port] : quiet_members(machine, static_cast<PortId>(said), slowdowns)) {
    machine.links[index(link)].ports.push_back({port, 1});
    changed.insert(port);
  }
  for (const SharedPort& port : shared_by_blocks(machine, slowdowns, memory, session))
    changed.insert(add_port(machine, port));
  for (const PortId port : changed) fits.renew(port, memory, session);
  fits.fit();
  fits.simplify();
}

}  // namespace fleet
