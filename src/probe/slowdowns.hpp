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

  /// `machine` has the rates of the links, and outlives this. Times each wire alone.
  Slowdowns(const Machine& machine, ProbeMemory& memory, ProbeSession& session);

  /// For each set the slowdowns in a short load of all its links, compared with `known`, a machine
  /// with the same links. Corrected by how far the links of the set are off alone.
  std::vector<Slowdown> of(const std::vector<LinkSet>& sets, const Machine& known);

  /// A load of these links that takes `slowdown` times as long as without any port.
  Load load(const LinkSet& links, double slowdown) const;

  /// The machine without limits: each port has all the capacity that is asked for.
  const Machine& unlimited() const { return unlimited_; }

 private:
  std::vector<Slowdown> short_look(const std::vector<LinkSet>& sets, std::int64_t edge,
                                   const Machine& known);
  std::vector<double> measured_s(const std::vector<LinkSet>& sets, std::int64_t edge);
  double correction(const LinkSet& set) const;

  const Machine& machine_;
  Machine unlimited_;
  ProbeMemory& memory_;
  ProbeSession& session_;
  std::vector<double> alone_;  ///< by link: measured over simulated time
};

}  // namespace fleet
