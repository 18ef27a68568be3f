// SPDX-License-Identifier: BSD-3-Clause
// loads.hpp: copies on many links at once, timed. It knows no capacities and no kind of
// backend.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "probe/session.hpp"
#include "probe/small_plans.hpp"

namespace fleet {

/// Links that take the port by the byte.
std::vector<LinkId> links_at(const Machine& machine, PortId port);

/// Links that write to the host, and the others.
struct Directions {
  std::vector<LinkId> reads, writes;
  Directions(const Machine& machine, const std::vector<LinkId>& links);
  bool both() const { return !reads.empty() && !writes.empty(); }
};

/// So many of the links at most, of reads and writes the same number as far as there are, from
/// everywhere in the list.
std::vector<LinkId> some_of(const Machine& machine, const std::vector<LinkId>& links,
                            std::size_t most);

/// Links that are busy together, with a name for reports.
struct Mix {
  std::string name;
  std::vector<LinkId> links;
};

struct Load {
  ProbePlan plan;
  std::vector<LinkId> links;
  double seconds = 0;     ///< of the least disturbed run; in a careful probe, the mean
  double noticeable = 0;  ///< what is more than chance, as a share
};

/// The load as the backend runs it, with smaller tiles if its memory asks for them.
std::optional<Load> measure_load(const Machine& machine, const Mix& mix, ProbeMemory& memory,
                                 ProbeSession& session);

/// Seconds of a load of a few of its links for each port; none if memory does not hold the tiles.
std::vector<double> short_loads_s(const Machine& machine, const std::vector<PortId>& ports,
                                  ProbeMemory& memory);

/// Reads by some devices beside writes by the others: 3:1 and 1:3 of them. Fewer than four make no
/// such mixes.
std::vector<Mix> uneven_mixes(const std::string& name, const std::vector<LinkId>& reads,
                              const std::vector<LinkId>& writes);

}  // namespace fleet
