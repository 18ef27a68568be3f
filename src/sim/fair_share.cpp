// SPDX-License-Identifier: BSD-3-Clause
// fair_share.cpp: progressive filling of the flows that a change can affect. Everything here is
// called per event of a simulation, so nothing allocates once the work lists have grown.
#include "sim/fair_share.hpp"

#include <algorithm>

namespace fleet {
namespace {

/// Levels or times that differ by less than this are equal: sums of rounded shares differ in the
/// last bits.
constexpr double kSame = 1e-9;

/// Times closer than this, relative to the clock, are equal: a few of its last bits.
constexpr double kSameTime = 1e-15;

}  // namespace

FairShare::FairShare(const Machine& machine, int flows)
    : links_(static_cast<int>(machine.links.size())),
      flows_(static_cast<std::size_t>(flows)),
      ports_(machine.ports.size() + machine.devices.size()) {
  for (std::size_t p = 0; p < ports_.size(); ++p)
    ports_[p].capacity = p < machine.ports.size() ? machine.ports[p].capacity : 1;
  for (PortState& port : ports_) port.flows.reserve(flows_.size());
  for (const Link& link : machine.links) add_user(link.ports, -1);
  for (std::size_t d = 0; d < machine.devices.size(); ++d)
    add_user(machine.devices[d].ports, static_cast<PortId>(machine.ports.size() + d));
  set_kernel_pace(machine);
}

void FairShare::add_user(std::span<const PortShare> shares, PortId own_port) {
  const std::size_t begin = takes_.size();
  for (const PortShare& share : shares) {
    const auto known =
        std::find_if(takes_.begin() + static_cast<std::ptrdiff_t>(begin), takes_.end(),
                     [&](const Take& t) { return t.port == share.port; });
    if (known != takes_.end())
      known->weight += share.weight;
    else if (share.weight > 0)
      takes_.push_back({share.port, share.weight});
  }
  if (own_port >= 0) takes_.push_back({own_port, 1});
  take_begin_.push_back(takes_.size());
  rise_.push_back(1);
}

/// A kernel fills the first port that it shares with links at the mean pace of those links.
void FairShare::set_kernel_pace(const Machine& machine) {
  std::vector<double> weights(ports_.size(), 0.0);
  std::vector<int> sharers(ports_.size(), 0);
  for (UserId link = 0; link < links_; ++link)
    for (const Take& take : takes(link)) {
      weights[static_cast<std::size_t>(take.port)] += take.weight;
      ++sharers[static_cast<std::size_t>(take.port)];
    }
  for (std::size_t d = 0; d < machine.devices.size(); ++d) {
    const UserId kernels = user_of_kernels(static_cast<DeviceId>(d));
    for (const Take& own : takes(kernels)) {
      const auto port = static_cast<std::size_t>(own.port);
      if (sharers[port] == 0) continue;
      rise_[static_cast<std::size_t>(kernels)] = weights[port] / sharers[port] / own.weight;
      break;
    }
  }
}

void FairShare::start(FlowId id, const Demand& demand, FlowId upstream, double now_s) {
  Flow& flow = at(id);
  // The next copy of a busy queue takes over the ports of the previous one, and with them its rate.
  const bool takes_over = flow.leaving && flow.rate > 0 && upstream == kNoFlow &&
                          flow.user == demand.user && flow.cap == demand.cap;
  if (flow.leaving && !takes_over) leave(id);

  flow.left = flow.amount = demand.amount;
  flow.chunk = demand.chunk;
  flow.since_s = now_s;
  flow.finish_s = flow.chunk_s = flow.catch_s = kNever;
  flow.announced = false;
  flow.active = true;
  if (takes_over) {
    flow.leaving = false;
    schedule(flow, now_s);
    restarted_.push_back(id);
    return;
  }
  flow.user = demand.user;
  flow.cap = demand.cap;
  flow.rise = rise_[static_cast<std::size_t>(demand.user)];
  flow.rate = 0;
  flow.upstream = upstream;
  if (upstream != kNoFlow) {
    flow.sibling = at(upstream).child;
    at(upstream).child = id;
  }
  join(id);
  touched_flows_.push_back(id);
}

void FairShare::stop(FlowId id) {
  Flow& flow = at(id);
  flow.active = false;
  flow.leaving = true;
  flow.left = 0;
  leaving_.push_back(id);
  for (FlowId child = flow.child; child != kNoFlow; child = at(child).sibling) {
    at(child).upstream = kNoFlow;
    touched_flows_.push_back(child);
  }
  flow.child = kNoFlow;
  if (flow.upstream == kNoFlow) return;
  FlowId* link = &at(flow.upstream).child;
  while (*link != id) link = &at(*link).sibling;
  *link = flow.sibling;
  flow.upstream = kNoFlow;
}

void FairShare::join(FlowId id) {
  const Flow& flow = at(id);
  for (const Take& take : takes(flow.user)) {
    PortState& p = port(take);
    p.wanted += take.weight * flow.cap;
    p.flows.push_back(id);
    if (p.overbooked()) touched_ports_.push_back(&p);
  }
}

void FairShare::leave(FlowId id) {
  Flow& flow = at(id);
  flow.leaving = false;
  for (const Take& take : takes(flow.user)) {
    PortState& p = port(take);
    if (p.overbooked()) touched_ports_.push_back(&p);
    p.wanted -= take.weight * flow.cap;
    *std::find(p.flows.begin(), p.flows.end(), id) = p.flows.back();
    p.flows.pop_back();
    if (p.flows.empty()) p.wanted = 0;  // drops accumulated rounding
  }
}

void FairShare::announce(FlowId id, double now_s) {
  at(id).announced = true;
  if (at(id).rate == 0) return;  // settle() will schedule it
  schedule(at(id), now_s);
  restarted_.push_back(id);
}

bool FairShare::first_chunk_arrived(FlowId id, double now_s) const {
  const Flow& flow = at(id);
  const double missing = flow.chunk - (flow.amount - left_at(flow, now_s));
  // What arrives before the clock can show it has arrived: else that event would come for ever.
  return missing <= std::max(kSame * flow.chunk, kSameTime * now_s * flow.rate);
}

double FairShare::next_event_s(FlowId id) const {
  const Flow& flow = at(id);
  return std::min({flow.finish_s, flow.chunk_s, flow.catch_s});
}

FairShare::Event FairShare::take_event(FlowId id, double now_s) {
  Flow& flow = at(id);
  if (flow.chunk_s <= now_s) {
    flow.chunk_s = kNever;
    flow.announced = false;
    return Event::chunk_arrived;
  }
  if (flow.finish_s <= now_s) {
    flow.finish_s = flow.catch_s = kNever;
    return Event::finished;
  }
  if (flow.catch_s <= now_s) {
    flow.catch_s = kNever;
    touched_flows_.push_back(id);
  }
  return Event::none;
}

std::span<const FlowId> FairShare::settle(double now_s) {
  for (const FlowId id : leaving_)
    if (at(id).leaving) leave(id);
  leaving_.clear();
  affected_.clear();
  if (!touched_flows_.empty() || !touched_ports_.empty()) {
    collect();
    prepare_filling(now_s);
    fill();
    for (const FlowId id : affected_) schedule(at(id), now_s);
    rates_given_ += std::ssize(affected_);
  }
  affected_.insert(affected_.end(), restarted_.begin(), restarted_.end());
  restarted_.clear();
  return affected_;
}

bool FairShare::caught_up(const Flow& flow, double now_s) const {
  return left_at(flow, now_s) - left_at(at(flow.upstream), now_s) <= flow.chunk * (1 + kSame);
}

/// Collects the flows that a change affects: those that share an overbooked port with a changed
/// flow, and the flows downstream. A port whose flows can all run at their caps never binds, so a
/// change does not spread through it.
void FairShare::collect() {
  ++mark_;
  contested_.clear();
  for (PortState* port : touched_ports_) collect_port(*port);
  for (const FlowId id : touched_flows_) collect_flow(id);
  touched_ports_.clear();
  touched_flows_.clear();
  for (std::size_t i = 0; i < affected_.size(); ++i) {
    const Flow& flow = at(affected_[i]);
    for (const Take& take : takes(flow.user))
      if (port(take).overbooked()) collect_port(port(take));
    for (FlowId child = flow.child; child != kNoFlow; child = at(child).sibling)
      collect_flow(child);
  }
}

void FairShare::collect_flow(FlowId id) {
  Flow& flow = at(id);
  if (!flow.active || flow.mark == mark_) return;
  flow.mark = mark_;
  affected_.push_back(id);
}

void FairShare::collect_port(PortState& port) {
  if (port.mark == mark_) return;
  port.mark = mark_;
  port.contested = port.overbooked();
  if (port.contested) {
    port.free = port.capacity;
    port.pace = 0;
    port.rising = 0;
    contested_.push_back(&port);
  }
  for (const FlowId id : port.flows) collect_flow(id);
}

void FairShare::prepare_filling(double now_s) {
  rising_.assign(affected_.begin(), affected_.end());
  for (const FlowId id : affected_) {
    Flow& flow = at(id);
    flow.left = std::max(0.0, left_at(flow, now_s));
    flow.since_s = now_s;
    flow.limit = flow.cap / flow.rise;
    for (const Take& take : takes(flow.user)) {
      PortState& p = port(take);
      if (!p.contested || p.mark != mark_) continue;
      p.pace += take.weight * flow.rise;
      ++p.rising;
    }
  }
  for (const FlowId id : affected_)
    if (at(id).upstream != kNoFlow) limit_by_upstream(at(id), now_s);
}

void FairShare::limit_by_upstream(Flow& flow, double now_s) {
  const Flow* behind = &flow;
  while (behind->upstream != kNoFlow && caught_up(*behind, now_s)) {
    const Flow& ahead = at(behind->upstream);
    if (ahead.mark != mark_) {  // its rate does not change
      flow.limit = std::min(flow.limit, ahead.rate / flow.rise);
      return;
    }
    flow.limit = std::min(flow.limit, ahead.cap / flow.rise);
    behind = &ahead;
  }
}

void FairShare::fill() {
  double floor = 0;  // levels only rise, whatever rounding does
  while (!rising_.empty()) {
    double level = kNever;
    PortState* full = nullptr;
    for (PortState* port : contested_) {
      if (port->rising == 0 || port->free >= level * port->pace) continue;
      level = port->free / port->pace;
      full = port;
    }
    floor = level = std::max(floor, level);
    bool frozen = false;
    for (std::size_t i = rising_.size(); i-- > 0;) {
      const double limit = at(rising_[i]).limit;
      if (limit > level) continue;
      freeze(i, limit);
      frozen = true;
    }
    if (!frozen) freeze_full_port(*full, level);
  }
}

void FairShare::freeze(std::size_t index, double level) {
  Flow& flow = at(rising_[index]);
  rising_[index] = rising_.back();
  rising_.pop_back();
  flow.rate = level * flow.rise;
  for (const Take& take : takes(flow.user)) {
    PortState& p = port(take);
    if (!p.contested || p.mark != mark_) continue;
    p.free -= take.weight * flow.rate;
    p.pace -= take.weight * flow.rise;
    --p.rising;
  }
  hold_back(flow, level);
}

/// Caps the flows that have caught up with `ahead`, and those downstream of them, at its level.
void FairShare::hold_back(const Flow& ahead, double level) {
  for (FlowId id = ahead.child; id != kNoFlow; id = at(id).sibling) {
    Flow& child = at(id);
    if (child.limit <= level || !caught_up(child, ahead.since_s)) continue;
    child.limit = level;
    hold_back(child, level);
  }
}

void FairShare::freeze_full_port(PortState& full, double level) {
  const auto takes_it = [&](const Flow& flow) {
    return std::ranges::any_of(takes(flow.user),
                               [&](const Take& take) { return &port(take) == &full; });
  };
  for (std::size_t i = rising_.size(); i-- > 0;)
    if (takes_it(at(rising_[i]))) freeze(i, level);
}

void FairShare::schedule(Flow& flow, double now_s) {
  flow.left = std::max(0.0, left_at(flow, now_s));
  flow.since_s = now_s;
  flow.finish_s = flow.left > 0 ? now_s + flow.left / flow.rate : now_s;
  if (flow.announced) {
    const double until_chunk = flow.chunk - (flow.amount - flow.left);
    flow.chunk_s =
        until_chunk > 0 ? std::min(flow.finish_s, now_s + until_chunk / flow.rate) : now_s;
  }
  flow.catch_s = kNever;
  if (flow.upstream == kNoFlow) return;
  const Flow& ahead = at(flow.upstream);
  if (flow.rate <= ahead.rate * (1 + kSame)) return;
  const double lead = flow.left - left_at(ahead, now_s) - flow.chunk;
  // At least 1e-6 of a chunk, which exceeds rounding, so that the clock advances.
  flow.catch_s = now_s + std::max(1e-6 * flow.chunk, lead) / (flow.rate - ahead.rate);
}

}  // namespace fleet
