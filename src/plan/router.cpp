// SPDX-License-Identifier: BSD-3-Clause
// router.cpp: the choice of source, chain order and chunk count.
#include "plan/router.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "base/sizes.hpp"

namespace fleet {
namespace {

// Up to this many users every order of a chain is tried (paper 1 tries all; 5! = 120). With its
// routing, up to as many as its nodes have: 8! orders, most of which are cut off early.
constexpr std::size_t kExhaustiveUsers = 5, kAllUsers = 8;

}  // namespace

/// The link that goes there without a stop, or -1.
LinkId Router::direct(DeviceId from, DeviceId to) const {
  const bool avoids = tuning_.routing == Routing::over_host && !on_host(from) && !on_host(to);
  return avoids ? -1 : links_.at(from, to);
}

bool Router::has_leg(DeviceId from, DeviceId to) const {
  return direct(from, to) >= 0 || (links_.at(from, kHost) >= 0 && links_.at(kHost, to) >= 0);
}

Leg Router::leg(DeviceId from, DeviceId to, const Cargo& cargo, double ready_s, int chunks,
                const LinkClock::Hop* upstream) const {
  Leg best = plain_leg(from, to, cargo, ready_s, chunks, upstream);
  for (const Detour& way : detours_.between(from, to)) {
    Leg leg;
    leg.hop_count = way.count;
    leg.hops[0] = clock_.hop(way.links[0], cargo, ready_s, chunks, upstream);
    for (int h = 1; h < way.count; ++h)
      leg.hops[h] = clock_.hop(way.links[h], cargo, 0, chunks, &leg.hops[h - 1]);
    if (leg.stop_s() < best.stop_s()) best = leg;
  }
  return best;
}

Leg Router::plain_leg(DeviceId from, DeviceId to, const Cargo& cargo, double ready_s, int chunks,
                      const LinkClock::Hop* upstream) const {
  Leg leg;
  if (const LinkId link = direct(from, to); link >= 0) {
    leg.hops[0] = clock_.hop(link, cargo, ready_s, chunks, upstream);
    leg.hop_count = 1;
    return leg;
  }
  leg.hops[0] = clock_.hop(links_.at(from, kHost), cargo, ready_s, chunks, upstream);
  leg.hops[1] = clock_.hop(links_.at(kHost, to), cargo, 0, chunks, &leg.hops[0]);
  leg.hop_count = 2;
  return leg;
}

double Router::rate_of(DeviceId from, DeviceId to, const Cargo& cargo) const {
  const auto rate = [&](LinkId l) {
    return machine_.links[static_cast<std::size_t>(l)].rate(cargo);
  };
  if (const LinkId link = direct(from, to); link >= 0) return rate(link);
  return std::min(rate(links_.at(from, kHost)), rate(links_.at(kHost, to)));
}

double Router::decided_s(const Holder& home, DeviceId user) const {
  const LinkId from_home = direct(home.device, user);
  return from_home >= 0 ? clock_.free_s(from_home) : 0;
}

// The best source of the first class that has any: complete copies on devices, copies under way,
// the host (paper 5, III-C). Of one class the fastest link is best.
const Holder& Router::choose_by_class(std::span<const Holder> holders, DeviceId user,
                                      const Cargo& cargo) const {
  enum Class { complete, under_way, host, none };
  const double now_s = decided_s(holders[0], user);
  Class best_class = none;
  const Holder* best = &holders[0];
  double best_rate = 0;
  for (const Holder& holder : holders) {
    if (!has_leg(holder.device, user)) continue;
    // The first is never a copy under way: it is the home, or where a result waits to leave.
    const bool is_complete = &holder == &holders[0] || holder.ready_s <= now_s;
    const Class of = on_host(holder.device) ? host : is_complete ? complete : under_way;
    if (of > best_class || (of == under_way && !tuning_.rules.has(Rule::forwarding))) continue;
    const double rate = rate_of(holder.device, user, cargo);
    if (of == best_class && rate <= best_rate) continue;
    best_class = of;
    best = &holder;
    best_rate = rate;
  }
  return *best;
}

const Holder& Router::choose(std::span<const Holder> holders, DeviceId user,
                             const Cargo& cargo) const {
  if (holders.size() == 1 && has_leg(holders[0].device, user)) return holders[0];
  if (tuning_.routing == Routing::devices_first && tuning_.rules.has(Rule::bandwidth))
    return choose_by_class(holders, user, cargo);
  const Holder* best = nullptr;
  double best_value = kNever;
  const bool eta = tuning_.rules.has(Rule::eta);
  const bool bandwidth = tuning_.rules.has(Rule::bandwidth);
  const bool under_way_counts = tuning_.rules.has(Rule::forwarding);
  for (const Holder& holder : holders) {
    if (!has_leg(holder.device, user)) continue;
    double value = 0;  // home: the first that is reachable
    if (eta) {
      value = leg(holder.device, user, cargo, holder.ready_s, 1, nullptr).stop_s();
    } else if (bandwidth) {
      // What arrives later than it decides is unknown to a reactive scheduler.
      const double now_s = decided_s(holders[0], user);
      // The first is never a copy under way: it is the home, or where a result waits to leave.
      if (!under_way_counts && &holder != &holders[0] && holder.ready_s > now_s) continue;
      value = -rate_of(holder.device, user, cargo);
    }
    if (value < best_value) {
      best_value = value;
      best = &holder;
    }
  }
  if (!best)
    throw Error(Status::unreachable,
                "no route from " +
                    machine_.devices[static_cast<std::size_t>(holders[0].device)].name + " to " +
                    machine_.devices[static_cast<std::size_t>(user)].name);
  return *best;
}

double Router::arrival_s(std::span<const Holder> holders, DeviceId user, const Cargo& cargo) const {
  const Holder& source = choose(holders, user, cargo);
  return leg(source.device, user, cargo, source.ready_s, 1, nullptr).stop_s();
}

// As many pieces as balance the cost of each (latency and issuing at every hop) and the wait for
// the first piece of each hop: d/dp (p*(latency + hops*issue) + (hops-1)*bytes/(rate*p)) = 0. At
// most the tuning's (the paper's 8): more than that never paid in the chains measured on H200 nodes
// below 512 MB.
int Router::chunks_for(DeviceId source, std::span<const DeviceId> users, const Cargo& cargo) const {
  const LinkId first = direct(source, users[0]);
  const bool passes = first < 0 || !detours_.between(source, users[0]).empty();
  const double hops = static_cast<double>(users.size()) + (passes ? 1 : 0);
  if (hops < 2) return 1;
  const auto most = std::min<std::int64_t>(std::min(tuning_.chunks, 255),
                                           std::max<std::int64_t>(cargo.columns, 1));
  if (tuning_.routing == Routing::pairs) return static_cast<int>(most);
  const Link& l = machine_.links[static_cast<std::size_t>(
      users.size() > 1 && links_.at(users[0], users[1]) >= 0 ? links_.at(users[0], users[1])
      : first >= 0                                           ? first
                                                             : links_.at(kHost, users[0]))];
  const double bytes_s = static_cast<double>(cargo.bytes) / l.rate(cargo);
  const double best = std::sqrt((hops - 1) * bytes_s /
                                std::max(l.latency(in_turn_) + hops * machine_.issue_s, 1e-9));
  return static_cast<int>(std::clamp<double>(std::round(best), 1.0, static_cast<double>(most)));
}

void Router::search_from(std::size_t depth, double stop_s, std::span<const DeviceId> users,
                         const Cargo& cargo) {
  if (depth == users.size()) {
    best_ = trial_;
    best_stop_s_ = stop_s;
    return;
  }
  const DeviceId from = depth == 0 ? trial_.source : trial_.users[depth - 1];
  const LinkClock::Hop* upstream = depth == 0 ? nullptr : &trial_.legs[depth - 1].last();
  for (const std::size_t u : order_) {
    if (taken_[u] || !has_leg(from, users[u])) continue;
    const Leg next = leg(from, users[u], cargo, first_ready_s_, trial_.chunks, upstream);
    const double so_far_s = std::max(stop_s, next.stop_s());
    // Each further hop ends at least one piece later.
    double least_s = so_far_s;
    for (std::size_t left = depth + 1; left < users.size(); ++left) least_s += least_hop_s_;
    if (least_s >= best_stop_s_) continue;
    taken_[u] = true;
    trial_.users[depth] = users[u];
    trial_.legs[depth] = next;
    search_from(depth + 1, so_far_s, users, cargo);
    taken_[u] = false;
  }
}

void Router::search(const Holder& source, std::span<const DeviceId> users, const Cargo& cargo) {
  trial_.source = source.device;
  trial_.users.resize(users.size());
  trial_.legs.resize(users.size());
  taken_.assign(users.size(), false);
  first_ready_s_ = source.ready_s;
  least_hop_s_ = clock_.least_hop_s(cargo, trial_.chunks);
  // Where a chain waits for a port that several links share, all orders take equally long and the
  // first one tried is kept. So users whose own link is free first are tried first.
  free_s_.resize(users.size());
  for (std::size_t u = 0; u < users.size(); ++u)
    free_s_[u] = has_leg(source.device, users[u])
                     ? leg(source.device, users[u], cargo, source.ready_s, trial_.chunks, nullptr)
                           .hops[0]
                           .first_s
                     : kNever;
  order_.resize(users.size());
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::ranges::sort(order_, {}, [this](std::size_t u) { return std::pair(free_s_[u], u); });
  search_from(0, 0.0, users, cargo);
}

// Each next user is the one reached first; for chains too long to try every order.
void Router::greedy(const Holder& source, std::span<const DeviceId> users, const Cargo& cargo) {
  trial_.source = source.device;
  trial_.users.assign(users.begin(), users.end());
  trial_.legs.resize(users.size());
  for (std::size_t depth = 0; depth < users.size(); ++depth) {
    const DeviceId from = depth == 0 ? source.device : trial_.users[depth - 1];
    const LinkClock::Hop* upstream = depth == 0 ? nullptr : &trial_.legs[depth - 1].last();
    std::size_t best = users.size();
    for (std::size_t u = depth; u < users.size(); ++u) {
      if (!has_leg(from, trial_.users[u])) continue;
      const Leg next = leg(from, trial_.users[u], cargo, source.ready_s, trial_.chunks, upstream);
      const auto soon = [](const Leg& l) { return std::pair(l.stop_s(), l.hops[0].first_s); };
      if (best == users.size() || soon(next) < soon(trial_.legs[depth])) {
        best = u;
        trial_.legs[depth] = next;
      }
    }
    if (best == users.size()) return;
    std::swap(trial_.users[depth], trial_.users[best]);
  }
  const double stop_s = trial_.legs.back().stop_s();
  if (stop_s < best_stop_s_) {
    best_ = trial_;
    best_stop_s_ = stop_s;
  }
}

const Chain& Router::route(std::span<const Holder> holders, std::span<const DeviceId> users,
                           const Cargo& cargo) {
  const bool eta = tuning_.rules.has(Rule::eta);
  const Holder& first = choose(holders, users[0], cargo);
  trial_.chunks = chunks_for(first.device, users, cargo);
  best_stop_s_ = kNever;
  for (const Holder& source : holders) {
    if (!eta && source.device != first.device) continue;
    if (users.size() <= (tuning_.routing == Routing::pairs ? kAllUsers : kExhaustiveUsers)) {
      search(source, users, cargo);
    } else {
      greedy(source, users, cargo);
    }
  }
  if (best_stop_s_ == kNever)
    throw Error(Status::unreachable,
                "no chain of links from " +
                    machine_.devices[static_cast<std::size_t>(holders[0].device)].name +
                    " through the devices that need one tile");
  return best_;
}

}  // namespace fleet
