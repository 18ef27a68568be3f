// SPDX-License-Identifier: BSD-3-Clause
// staging.cpp: a run in which tiles go through the pinned ring, and the simulated one that takes as
// long. It must not know clocks.
#include "probe/staging.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "base/sizes.hpp"
#include "probe/capacity.hpp"
#include "probe/loads.hpp"
#include "probe/ports.hpp"
#include "sim/simulate.hpp"

namespace fleet {
namespace {

/// Three operands come in for one that goes home.
constexpr std::size_t kInForOneOut = 3;
/// Operands of a run, of which what fills and drains the ring is a small part.
constexpr std::size_t kTiles = 24;
/// A longer edge would take more pinned memory than a probe should.
constexpr std::int64_t kLongestEdge = 2048;
/// Streaming stores take two; more where the memory serves others too.
constexpr double kMostUnits = 4;
constexpr double kSettled = 0.01;

/// The port of all copies between devices and pinned memory of the host, in both directions; -1:
/// there is none.
PortId host_memory_of(const Machine& machine) {
  std::optional<std::set<PortId>> common;
  for (const Link& link : machine.links) {
    if ((link.source == kHost) == (link.target == kHost)) continue;
    if (link.source == kPageable || link.target == kPageable) continue;
    std::set<PortId> ports;
    for (const PortShare& share : link.ports)
      if (!common || common->contains(share.port)) ports.insert(share.port);
    common = std::move(ports);
  }
  return common && !common->empty() ? *common->begin() : -1;
}

/// The links of the ring, and those between its memory and devices.
struct Ring {
  LinkId in = -1, out = -1;
  std::vector<LinkId> to, from;  ///< by device
};

std::optional<Ring> ring_of(const Machine& machine) {
  Ring ring{.in = machine.find_link(kPageable, kHost), .out = machine.find_link(kHost, kPageable)};
  if (ring.in < 0 || ring.out < 0 || !is_staging(machine, ring.in) || host_memory_of(machine) < 0)
    return {};
  for (DeviceId d = kFirstDevice; d < std::ssize(machine.devices); ++d) {
    const LinkId to = machine.find_link(kHost, d), from = machine.find_link(d, kHost);
    if (to < 0 || from < 0) continue;
    ring.to.push_back(to);
    ring.from.push_back(from);
  }
  if (ring.to.empty()) return {};
  return ring;
}

/// Each tile is read once, so that all that the load reads has left the caches when it is run
/// again.
ProbePlan staged_plan(const Machine& machine, const Ring& ring, std::int64_t edge) {
  edge = std::min(edge, kLongestEdge);
  const auto plan_of = [&](std::size_t reads) {
    return ProbePlan(machine, DataType::f64, edge, ProbePlan::Footprint::large,
                     static_cast<int>(reads));
  };
  const std::size_t devices = ring.to.size();
  const std::size_t tiles =
      std::max({index(plan_of(0).copies_beyond_caches()), kTiles, kInForOneOut * devices});
  ProbePlan plan = plan_of(tiles);
  std::size_t results = 0;
  for (std::size_t tile = 0; tile < tiles; ++tile) {
    const TaskId there = plan.copy_through(ring.in, ring.to[tile % devices], {});
    if (tile % kInForOneOut == kInForOneOut - 1)
      plan.copy_through(ring.from[results++ % devices], ring.out, {there});
  }
  return plan;
}

}  // namespace

void charge_staging(Machine& machine, double units) {
  const PortId memory = host_memory_of(machine);
  if (memory < 0) return;
  for (LinkId id = 0; id < std::ssize(machine.links); ++id) {
    if (!is_staging(machine, id)) continue;
    Link& link = machine.links[index(id)];
    std::erase_if(link.ports, [&](const PortShare& share) { return share.port == memory; });
    if (units <= 0) continue;
    const double alone = machine.ports[index(memory)].capacity / link.bytes_per_s;
    link.ports.push_back({memory, std::min(units, alone)});
  }
}

void fit_staging(Machine& machine, double said, ProbeMemory& memory, ProbeSession& session) {
  const std::optional<Ring> ring = ring_of(machine);
  if (!ring) return;
  Mix mix{"staging", {ring->in, ring->out}};
  mix.links.insert(mix.links.end(), ring->to.begin(), ring->to.end());
  mix.links.insert(mix.links.end(), ring->from.begin(), ring->from.end());
  const auto plan_of = [&](std::int64_t edge) { return staged_plan(machine, *ring, edge); };
  const std::optional<Load> load = measure_load(machine, mix, plan_of, memory, session);
  if (!load) return charge_staging(machine, said);
  const auto seconds_with = [&](double units) {
    charge_staging(machine, units);
    return simulate(load->plan.plan(), machine).seconds;
  };
  const double noise = 1 + load->noticeable;
  if (const double s = seconds_with(said); load->seconds <= s * noise && s <= load->seconds * noise)
    return;
  double low = 0, high = kMostUnits;
  if (load->seconds <= seconds_with(low) * noise) return;
  while (high - low > kSettled) {
    const double middle = (low + high) / 2;
    (seconds_with(middle) > load->seconds ? high : low) = middle;
  }
  charge_staging(machine, low);
}

double staging_units(const Machine& machine) {
  const std::optional<Ring> ring = ring_of(machine);
  return ring ? weight_at(machine.links[index(ring->in)], host_memory_of(machine)) : 0;
}

std::size_t loads_of_staging(const Machine& machine) { return ring_of(machine) ? 1 : 0; }

}  // namespace fleet
