// SPDX-License-Identifier: BSD-3-Clause
// slowdowns.hpp: how much longer links take together than a machine lets expect. It knows no kind of
// backend.
#pragma once
#include <vector>

#include "probe/loads.hpp"

namespace fleet {

using LinkSet = std::vector<LinkId>;

/// A load that takes longer than expected by this factor has a port that is not known (paper 2,
/// PARALiA, which calls it sl and caps it at 2).
inline constexpr double kSlowedDown = 1.05;

/// Links that copies by wires use: a CPU thread is a port that the machine describes.
std::vector<LinkId> wires_of(const Machine& machine);

class Slowdowns {
 public:
  /// `machine` has the rates of the links, and outlives this. Times each wire alone.
  Slowdowns(const Machine& machine, ProbeMemory& memory, ProbeSession& session);

  /// For each set the time of a short load of all its links, over the time that it takes on
  /// `known`, a machine with the same links. The latter is corrected by how far the links of the
  /// set are off alone. 1 if memory is too small.
  std::vector<double> of(const std::vector<LinkSet>& sets, const Machine& known);

  /// A load of these links whose time is `slowdown` times that without any port.
  Load load(const LinkSet& links, double slowdown) const;

  /// The machine without limits: each port has all the capacity that is asked for.
  const Machine& unlimited() const { return unlimited_; }

 private:
  std::vector<double> measured_s(const std::vector<LinkSet>& sets, std::int64_t edge);
  double correction(const LinkSet& set) const;

  const Machine& machine_;
  Machine unlimited_;
  ProbeMemory& memory_;
  ProbeSession& session_;
  std::vector<double> alone_;  ///< by link: measured over simulated time
};

}  // namespace fleet
