// SPDX-License-Identifier: BSD-3-Clause
// slowdowns.hpp: how much longer links take together than a machine lets expect. It knows no kind
// of backend.
#pragma once
#include <vector>

#include "probe/link_sets.hpp"
#include "probe/loads.hpp"

namespace fleet {

/// A load that takes longer than expected by this factor has a port that is not known (paper 2,
/// PARALiA, which calls it sl and caps it at 2).
inline constexpr double kSlowedDown = 1.05;

/// How many times as long as expected a load takes; 1 if memory is too small to tell.
struct Slowdown {
  double of_link = 1;  ///< the most of any of its links
  double of_all = 1;   ///< of the link that takes longest
};

class Slowdowns {
 public:
  /// The most sets in one run.
  static constexpr std::size_t kSetsInTurn = 32;

  /// `machine` has the rates of the links, and outlives this. Times each wire alone, and finds out
  /// how often loads must be timed on this machine until they repeat themselves.
  Slowdowns(const Machine& machine, ProbeMemory& memory, ProbeSession& session);

  /// For each set the slowdowns in a short load of all its links, compared with the ports of
  /// `known`, a machine with the same links, and with the rates that the links have alone here.
  std::vector<Slowdown> of(const std::vector<LinkSet>& sets, const Machine& known);

  /// A load of these links that takes `slowdown` times as long as without any port.
  Load load(const LinkSet& links, double slowdown) const;

  /// A slowdown of up to this factor may be noise, and slowdowns within this factor are equal:
  /// kSlowedDown, or more where links do not repeat their times that well.
  double noise() const { return noise_; }

  /// The machine without limits: each port has all the capacity that is asked for, and each wire
  /// the rate that it has alone in loads as short as these.
  const Machine& unlimited() const { return unlimited_; }

 private:
  /// A short load of a set, by link: how many times as long as expected, and the expected seconds.
  struct Look {
    std::vector<double> times, expected_s;
  };
  void look_at_wires();
  std::vector<Look> short_look(const std::vector<LinkSet>& sets, std::int64_t edge,
                               const Machine& known);
  std::vector<double> measured_s(const std::vector<LinkSet>& sets, std::int64_t edge);
  static Slowdown slowdown_of(const Look& look);

  const Machine& machine_;
  Machine unlimited_;
  ProbeMemory& memory_;
  ProbeSession& session_;
  int looks_ = 1;  ///< at a load that seems slow
  double noise_ = kSlowedDown;
};

}  // namespace fleet
