// SPDX-License-Identifier: BSD-3-Clause
// loads.hpp: times copies over many links at once. It knows no capacities and no kind of backend.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "probe/session.hpp"
#include "probe/small_plans.hpp"

namespace fleet {

/// Bytes per second or seconds beyond any measurement.
inline constexpr double kUnlimited = 1e300;

/// Links that load the port per byte (takes_thread() is false).
std::vector<LinkId> links_at(const Machine& machine, PortId port);

/// Splits links into those that write to the host and the others.
struct Directions {
  std::vector<LinkId> reads, writes;
  Directions(const Machine& machine, const std::vector<LinkId>& links);
  bool both() const { return !reads.empty() && !writes.empty(); }
};

/// At most `most` of the links, spread over the list, half of them reads if possible.
std::vector<LinkId> some_of(const Machine& machine, const std::vector<LinkId>& links,
                            std::size_t most);

/// Links that are loaded together, with a name for reports.
struct Mix {
  std::string name;
  std::vector<LinkId> links;
};

struct Load {
  ProbePlan plan;
  std::vector<LinkId> links;
  /// Until the last copy over the link that takes longest: of the fastest run of each link, or the
  /// mean in a careful probe.
  double seconds = 0;
  double noticeable = 0;  ///< the least difference that is not noise, as a share
  /// Of each link, from the start of its first copy to the stop of its last; the most
  /// of any run, or the mean.
  std::vector<double> bytes_per_s;
};

/// Copies over all the links at once, of tiles of this edge; their number per link is proportional
/// to its rate, and at least `fewest`.
ProbePlan load_plan(const Machine& machine, const std::vector<LinkId>& links, std::int64_t edge,
                    int fewest);

/// Bytes per second over a link, from the start of its first copy to the stop of its last.
double rate_in(const Plan& plan, const Trace& trace, LinkId link);

/// Runs and times the load; its tiles shrink until they fit into memory.
std::optional<Load> measure_load(const Machine& machine, const Mix& mix, ProbeMemory& memory,
                                 ProbeSession& session);
/// The same of any plan over these links, given for tiles of an edge.
std::optional<Load> measure_load(const Machine& machine, const Mix& mix,
                                 const std::function<ProbePlan(std::int64_t edge)>& plan_of,
                                 ProbeMemory& memory, ProbeSession& session);

/// For each port the seconds of a load on a few of its links; empty if memory is too small.
std::vector<double> short_loads_s(const Machine& machine, const std::vector<PortId>& ports,
                                  ProbeMemory& memory);

/// Sets of links in one plan: short loads, each of which begins when the one before has ended.
class LoadsInTurn {
 public:
  LoadsInTurn(const Machine& machine, const std::vector<std::vector<LinkId>>& sets,
              std::int64_t edge);
  /// Seconds of each link of each set in a run, one set after another; empty if memory is too
  /// small.
  std::vector<double> run(ProbeMemory& memory) const;
  /// The same as simulated on this machine.
  std::vector<double> simulated_s(const Machine& machine) const;
  const ProbePlan& plan() const { return plan_; }

 private:
  std::vector<double> link_s(const Trace& trace) const;

  ProbePlan plan_;
  std::vector<std::vector<TaskId>> tasks_;  ///< by set and link
};

/// Mixes of reads by some devices and writes by the others, in the ratios 3:1 and 1:3; none for
/// fewer than four devices.
std::vector<Mix> uneven_mixes(const std::string& name, const std::vector<LinkId>& reads,
                              const std::vector<LinkId>& writes);

}  // namespace fleet
