// SPDX-License-Identifier: BSD-3-Clause
// probe_ports.cpp: loads each port with all the links that take it, and finds the capacity with
// which a simulation takes as long as the backend took. It must not know clocks.
#include "exec/probe_ports.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "exec/confidence.hpp"
#include "exec/simulate.hpp"

namespace fleet {
namespace {

/// A load that takes this much longer than without the port, and more than repeated runs differ,
/// shows that the port is full.
constexpr double kNoticed = 0.02;
constexpr int kRuns = 3;
constexpr double kUnlimited = 1e300;
/// Tiles of a load: the smallest whose copies are all data and hardly any latency.
constexpr std::int64_t kLoadEdges[] = {512, 1024, 2048, 4096};
constexpr double kHardlyAny = 0.015;
/// Copies of the slowest and the fastest link of a load.
constexpr int kFewest = 3;
constexpr double kMost = 60;
/// Weights are only changed by what is beyond the noise of a measurement.
constexpr double kNewWeight = 0.05;

std::size_t index(int id) { return static_cast<std::size_t>(id); }

/// 0: pinned host, 1: pageable host, 2: any device.
int kind_of(DeviceId device) { return std::min(device, kFirstDevice); }

double weight_at(const Link& link, PortId port) {
  double weight = 0;
  for (const PortShare& share : link.ports)
    if (share.port == port) weight += share.weight;
  return weight;
}

/// Links that take the port by the byte.
std::vector<LinkId> links_at(const Machine& machine, PortId port) {
  std::vector<LinkId> found;
  for (LinkId id = 0; id < static_cast<LinkId>(machine.links.size()); ++id) {
    const Link& link = machine.links[index(id)];
    if (std::ranges::any_of(link.ports, [&](const PortShare& share) {
          return share.port == port && !takes_thread(link, share);
        }))
      found.push_back(id);
  }
  return found;
}

/// Links that are busy together, with a name for reports.
struct Mix {
  std::string name;
  std::vector<LinkId> links;
};

/// Bytes per second of a link in this run, from its first copy's start to its last one's stop.
double rate_in(const Plan& plan, const Trace& trace, LinkId link) {
  double start_s = kUnlimited, stop_s = 0, bytes = 0;
  for (std::size_t t = 0; t < plan.tasks.size(); ++t) {
    if (plan.tasks[t].link != link || plan.tasks[t].kind == TaskKind::compute) continue;
    start_s = std::min(start_s, trace.spans[t].start_s);
    stop_s = std::max(stop_s, trace.spans[t].stop_s);
    bytes += static_cast<double>(plan.program->bytes_of(plan.tasks[t].tile));
  }
  return stop_s > start_s ? bytes / (stop_s - start_s) : 0;
}

/// Copies on all the links at once, as many on each as it can do in about the same time alone.
ProbePlan load_plan(const Machine& machine, const std::vector<LinkId>& links, std::int64_t edge) {
  double slowest = kUnlimited;
  for (const LinkId id : links) slowest = std::min(slowest, machine.links[index(id)].bytes_per_s);
  ProbePlan plan(machine, DataType::f64, edge, ProbePlan::Footprint::large);
  const bool staged =
      std::ranges::any_of(links, [&](LinkId id) { return is_staging(machine, id); });
  const int fewest = staged ? std::max(kFewest, plan.copies_beyond_caches()) : kFewest;
  std::vector<int> left;
  for (const LinkId id : links)
    left.push_back(static_cast<int>(
        fewest * std::min(kMost / kFewest, machine.links[index(id)].bytes_per_s / slowest)));
  for (bool more = true; more;) {
    more = false;
    for (std::size_t i = 0; i < links.size(); ++i) {
      if (left[i]-- <= 0) continue;
      plan.copy(links[i], {});
      more = true;
    }
  }
  return plan;
}

double makespan_s(const Trace& trace) {
  double start_s = kUnlimited, stop_s = 0;
  for (const Span& span : trace.spans) {
    start_s = std::min(start_s, span.start_s);
    stop_s = std::max(stop_s, span.stop_s);
  }
  return stop_s - start_s;
}

struct Load {
  ProbePlan plan;
  std::vector<LinkId> links;
  double seconds = 0;     ///< of the least disturbed run; in a careful probe, the mean
  double noticeable = 0;  ///< what is more than chance, as a share
};

std::int64_t load_edge(const Machine& machine, const std::vector<LinkId>& links) {
  for (const std::int64_t edge : kLoadEdges) {
    const auto bytes = static_cast<double>(edge * edge * bytes_of(DataType::f64));
    if (std::ranges::all_of(links, [&](LinkId id) {
          const Link& link = machine.links[index(id)];
          return link.latency_s <= kHardlyAny * bytes / link.bytes_per_s;
        }))
      return edge;
  }
  return std::ranges::max(kLoadEdges);
}

/// Times a load; false if it did not run.
bool run_quickly(Load& load, ProbeMemory& memory) {
  std::vector<double> seconds;
  for (int run = 0; run < kRuns; ++run)
    if (const auto trace = memory.run(load.plan)) seconds.push_back(makespan_s(*trace));
  if (seconds.empty()) return false;
  std::ranges::sort(seconds);
  load.seconds = seconds.front();
  load.noticeable = kNoticed + 2 * (seconds[seconds.size() / 2] / load.seconds - 1);
  return true;
}

bool run_carefully(Load& load, const std::string& name, ProbeMemory& memory,
                   ProbeSession& session) {
  std::vector<Confidence> rates(load.links.size());
  const std::vector<double> seconds =
      session.repeated("load " + name, "s", [&]() -> std::vector<double> {
        const auto trace = memory.run(load.plan);
        if (!trace) return {};
        for (std::size_t i = 0; i < rates.size(); ++i)
          rates[i].add(rate_in(load.plan.plan(), *trace, load.links[i]));
        return {makespan_s(*trace)};
      });
  if (seconds.empty()) return false;
  load.seconds = seconds.front();
  load.noticeable = kNoticed + session.last_interval();
  for (std::size_t i = 0; i < rates.size(); ++i)
    session.note(
        {.name = "copy " + link_name(load.plan.machine(), load.links[i]) + " in load " + name,
         .unit = "B/s",
         .mean = rates[i].mean(),
         .interval = rates[i].share(),
         .repeats = rates[i].count(),
         .settled = rates[i].share() <= session.request().precision});
  return true;
}

/// The load as the backend runs it, with smaller tiles if its memory asks for them.
std::optional<Load> measure(const Machine& machine, const Mix& mix, ProbeMemory& memory,
                            ProbeSession& session) {
  for (std::int64_t edge = load_edge(machine, mix.links); edge >= 32; edge /= 2) {
    Load load{load_plan(machine, mix.links, edge), mix.links};
    if (!memory.run(load.plan)) continue;  // it touches the memory for the first time
    if (session.careful() ? run_carefully(load, mix.name, memory, session)
                          : run_quickly(load, memory))
      return load;
  }
  return std::nullopt;
}

double simulated_s(Machine& machine, const Load& load, PortId port, double capacity) {
  const double kept = std::exchange(machine.ports[index(port)].capacity, capacity);
  const double seconds = simulate(load.plan.plan(), machine).seconds;
  machine.ports[index(port)].capacity = kept;
  return seconds;
}

/// What the port has to be able to do for all its links at full speed.
double demand(const Machine& machine, const std::vector<LinkId>& links, PortId port) {
  double units = 0;
  for (const LinkId id : links) {
    const Link& link = machine.links[index(id)];
    units += weight_at(link, port) * link.bytes_per_s;
  }
  return units;
}

/// The capacity that explains the seconds of the load, or nothing if it is not the port's doing.
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

/// Reads by some devices beside writes by the others: 3:1 and 1:3 of them. Fewer than four make no
/// such mixes.
std::vector<Mix> uneven_mixes(const std::string& name, const std::vector<LinkId>& reads,
                              const std::vector<LinkId>& writes) {
  const std::size_t most = std::min(reads.size(), writes.size());
  std::vector<Mix> mixes;
  if (most < 4) return mixes;
  for (const std::size_t quarters : {3U, 1U}) {
    Mix mix{name + " " + std::to_string(quarters) + ":" + std::to_string(4 - quarters), {}};
    for (std::size_t i = 0; i < most; ++i)
      mix.links.push_back(4 * i < quarters * most ? reads[i] : writes[i]);
    mixes.push_back(std::move(mix));
  }
  return mixes;
}

/// Links that write to the host, and the others.
struct Directions {
  std::vector<LinkId> reads, writes;
  Directions(const Machine& machine, const std::vector<LinkId>& links) {
    for (const LinkId id : links)
      (machine.links[index(id)].target == kHost ? writes : reads).push_back(id);
  }
  bool both() const { return !reads.empty() && !writes.empty(); }
};

/// One port, with the others as they are known so far.
class PortFit {
 public:
  PortFit(const Machine& machine, PortId port, ProbeMemory& memory, ProbeSession& session)
      : port_(port),
        said_(machine.ports[index(port)].capacity),
        links_(links_at(machine, port)),
        of_(machine, links_) {
    if (links_.empty()) return;
    const std::string& name = machine.ports[index(port)].name;
    all_ = measure(machine, {of_.both() ? name + " 1:1" : name, links_}, memory, session);
    if (!of_.both()) return;
    only_reads_ = measure(machine, {name + " 1:0", of_.reads}, memory, session);
    only_writes_ = measure(machine, {name + " 0:1", of_.writes}, memory, session);
    if (!session.careful()) return;
    for (const Mix& mix : uneven_mixes(name, of_.reads, of_.writes))
      if (auto load = measure(machine, mix, memory, session)) mixes_.push_back(*std::move(load));
  }

  std::size_t links() const { return links_.size(); }
  void forget(Machine& machine) const {
    if (all_) machine.ports[index(port_)].capacity = kUnlimited;
  }
  void fit_capacity(Machine& machine) const;
  void fit_weights(Machine& machine) const;

 private:
  double misfit(Machine& machine, double capacity) const;

  PortId port_;
  double said_;
  std::vector<LinkId> links_;
  Directions of_;
  std::optional<Load> all_, only_reads_, only_writes_;
  std::vector<Load> mixes_;
};

/// How far the simulated loads are from the measured ones.
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
  Port& port = machine.ports[index(port_)];
  std::optional<double> fitted = fitted_capacity(machine, *all_, links_, port_);
  // Of what explains one of the loads, that which explains all of them best.
  for (const Load& mix : mixes_)
    if (const auto other = fitted_capacity(machine, mix, mix.links, port_))
      if (!fitted || misfit(machine, *other) < misfit(machine, *fitted)) fitted = other;
  if (fitted)
    port.capacity = *fitted;
  else if (simulated_s(machine, *all_, port_, said_) <= all_->seconds * (1 + all_->noticeable))
    port.capacity = said_;
  else
    port.capacity = demand(machine, links_, port_);
}

/// Writes to the host weigh what they take of the port in terms of reads: both alone fill it.
void PortFit::fit_weights(Machine& machine) const {
  if (!only_reads_ || !only_writes_) return;
  const auto reads = fitted_capacity(machine, *only_reads_, of_.reads, port_);
  const auto writes = fitted_capacity(machine, *only_writes_, of_.writes, port_);
  if (!reads || !writes || std::abs(*writes / *reads - 1) < kNewWeight) return;
  for (const LinkId id : of_.writes)
    for (PortShare& share : machine.links[index(id)].ports)
      if (share.port == port_) share.weight *= *reads / *writes;
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

bool links_alike(const Machine& machine, LinkId one, LinkId other) {
  const auto by_thread = [](const Link& link) {
    return std::ranges::any_of(link.ports,
                               [&](const PortShare& share) { return takes_thread(link, share); });
  };
  const Link &a = machine.links[index(one)], &b = machine.links[index(other)];
  return by_thread(a) && by_thread(b) && kind_of(a.source) == kind_of(b.source) &&
         kind_of(a.target) == kind_of(b.target) && a.ports.size() == b.ports.size();
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
  for (PortId port = 0; port < static_cast<PortId>(machine.ports.size()); ++port)
    fits.emplace_back(machine, port, memory, session);
  // A port with few links is less likely to be hidden by the others than one with many.
  std::ranges::stable_sort(fits, {}, &PortFit::links);
  for (const PortFit& fit : fits) fit.forget(machine);
  // What the first rounds give a small port may turn out to be the doing of a large one, and
  // weights are not to be guessed before the others are known.
  for (int round = 0; round < 4; ++round)
    for (const PortFit& fit : fits) {
      if (round >= 2) fit.fit_weights(machine);
      fit.fit_capacity(machine);
    }
}

}  // namespace fleet
