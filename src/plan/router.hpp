// SPDX-License-Identifier: BSD-3-Clause
// router.hpp: from which holder, over which links and in which order a tile travels (paper 1,
// III-D and III-E; paper 5, III-B and III-C). It plans legs; it does not emit tasks.
#pragma once
#include <span>
#include <vector>

#include "plan/detours.hpp"
#include "plan/link_clock.hpp"
#include "program/tuning.hpp"

namespace fleet {

/// A place that has (or will have, at `ready_s`) a valid copy of a tile.
struct Holder {
  DeviceId device = kHost;
  double ready_s = 0;
};

/// A way from one place to another: one link, two through host memory where no link exists
/// (pageable memory, or devices without peer access), or a detour over other workers.
struct Leg {
  LinkClock::Hop hops[kMostLinks];
  int hop_count = 0;
  double stop_s() const { return hops[hop_count - 1].stop_s; }
  const LinkClock::Hop& last() const { return hops[hop_count - 1]; }
};

/// A fetch for several users: source -> users[0] -> users[1] -> ..., legs[i] ends at users[i].
struct Chain {
  DeviceId source = kHost;
  int chunks = 1;
  std::vector<DeviceId> users;
  std::vector<Leg> legs;
};

class Router {
 public:
  /// `in_turn`: devices send in turn (Queue::in_turn).
  Router(const Machine& machine, const Tuning& tuning, bool in_turn)
      : machine_(machine),
        tuning_(tuning),
        links_(machine),
        detours_(machine, links_, tuning),
        in_turn_(in_turn),
        clock_(machine, tuning.routing, in_turn) {}

  /// The best way for one tile to all `users` (at least one). holders[0] is the tile's home. The
  /// result is valid until the next call. Throws Error(unreachable).
  const Chain& route(std::span<const Holder> holders, std::span<const DeviceId> users,
                     const Cargo& cargo);

  /// When a tile could arrive at `user` from the best of `holders`, were it asked for now.
  double arrival_s(std::span<const Holder> holders, DeviceId user, const Cargo& cargo) const;

  /// Plans the hops of a leg on the clock.
  void commit(const Leg& leg, std::int64_t bytes) {
    for (int h = 0; h < leg.hop_count; ++h) clock_.commit(leg.hops[h], bytes);
  }

 private:
  LinkId direct(DeviceId from, DeviceId to) const;
  bool has_leg(DeviceId from, DeviceId to) const;
  Leg plain_leg(DeviceId from, DeviceId to, const Cargo& cargo, double ready_s, int chunks,
                const LinkClock::Hop* upstream) const;
  Leg leg(DeviceId from, DeviceId to, const Cargo& cargo, double ready_s, int chunks,
          const LinkClock::Hop* upstream) const;
  double rate_of(DeviceId from, DeviceId to, const Cargo& cargo) const;
  const Holder& choose(std::span<const Holder> holders, DeviceId user, const Cargo& cargo) const;
  const Holder& choose_by_class(std::span<const Holder> holders, DeviceId user,
                                const Cargo& cargo) const;
  /// When a scheduler that plans nothing ahead would decide: the way from home is free.
  double decided_s(const Holder& home, DeviceId user) const;
  int chunks_for(DeviceId source, std::span<const DeviceId> users, const Cargo& cargo) const;
  void search(const Holder& source, std::span<const DeviceId> users, const Cargo& cargo);
  void search_from(std::size_t depth, double stop_s, std::span<const DeviceId> users,
                   const Cargo& cargo);
  void greedy(const Holder& source, std::span<const DeviceId> users, const Cargo& cargo);

  const Machine& machine_;
  const Tuning& tuning_;
  LinkTable links_;
  Detours detours_;
  bool in_turn_;
  LinkClock clock_;
  Chain best_, trial_;
  double best_stop_s_ = 0;
  double first_ready_s_ = 0;
  double least_hop_s_ = 0;  ///< of a piece, over any link
  std::vector<bool> taken_;
  std::vector<std::size_t> order_;  ///< of users, in which they are tried
  std::vector<double> free_s_;      ///< per user: when the first piece could be there
};

}  // namespace fleet
