// SPDX-License-Identifier: BSD-3-Clause
// loads.cpp: builds, runs and times loads. It must not know their purpose, nor clocks.
#include "probe/loads.hpp"

#include <algorithm>
#include <cmath>

#include "base/sizes.hpp"
#include "probe/confidence.hpp"
#include "probe/ports.hpp"
#include "probe/times.hpp"
#include "sim/simulate.hpp"

namespace fleet {
namespace {

/// A load shows that its port is full if it takes longer than without the port by this share plus
/// the spread of repeated runs.
constexpr double kNoticed = 0.02;
/// A quick probe runs a load so often, and more often where the times of links differ between runs
/// by more than kSteadyLoad, or one link takes kStandsOut times as long as every other: a copy over
/// it may have been delayed in each run.
constexpr int kRuns = 3, kMostRuns = 6;
constexpr double kSteadyLoad = 0.01;
constexpr double kStandsOut = 1.1;
/// Tile edges of loads: the smallest is used whose copies over the slowest link spend at most
/// kHardlyAny of their time on latency.
constexpr std::int64_t kLoadEdges[] = {512, 1024, 2048, 4096};
constexpr double kHardlyAny = 0.015;
/// Copies over the slowest and over the fastest link of a load.
constexpr int kFewest = 3;
constexpr double kMost = 60;
/// The most copies over one link in a load that is one of many in turn.
constexpr double kMostInTurn = 20;
/// The number of links and the tile edge of a short load.
constexpr std::size_t kShortLoaded = 8;
constexpr std::int64_t kShortLoadEdge = 1024;

/// How often a link is used in a load whose slowest link is used `fewest` times.
int copies_over(const Machine& machine, LinkId id, double slowest, int fewest) {
  const double times = machine.links[index(id)].bytes_per_s / slowest;
  return static_cast<int>(fewest * std::min(kMost / kFewest, times));
}

double slowest_of(const Machine& machine, const std::vector<LinkId>& links) {
  double slowest = kUnlimited;
  for (const LinkId id : links) slowest = std::min(slowest, machine.links[index(id)].bytes_per_s);
  return slowest;
}

/// Adds these copies over each of the links, one over each in turn. The first over each link is
/// after `before`. Returns the copies of each link.
std::vector<std::vector<TaskId>> add_copies(ProbePlan& plan, const std::vector<LinkId>& links,
                                            std::vector<int> left,
                                            const std::vector<TaskId>& before) {
  std::vector<std::vector<TaskId>> added(links.size());
  for (bool first = true, more = true; more; first = false) {
    more = false;
    for (std::size_t i = 0; i < links.size(); ++i) {
      if (left[i]-- <= 0) continue;
      added[i].push_back(plan.copy(links[i], first ? before : std::vector<TaskId>{}));
      more = true;
    }
  }
  return added;
}

double start_s(const Trace& trace) {
  double least = kUnlimited;
  for (const Span& span : trace.spans) least = std::min(least, span.start_s);
  return least;
}

double makespan_s(const Trace& trace) {
  double stop_s = 0;
  for (const Span& span : trace.spans) stop_s = std::max(stop_s, span.stop_s);
  return stop_s - start_s(trace);
}

/// The copies of a run over one link.
struct LinkSpan {
  double start_s = kUnlimited, stop_s = 0, bytes = 0;
  double rate() const { return stop_s > start_s ? bytes / (stop_s - start_s) : 0; }
};

LinkSpan span_of(const Plan& plan, const Trace& trace, LinkId link) {
  LinkSpan span;
  for (std::size_t t = 0; t < plan.tasks.size(); ++t) {
    if (plan.tasks[t].link != link || plan.tasks[t].kind == TaskKind::compute) continue;
    span.start_s = std::min(span.start_s, trace.spans[t].start_s);
    span.stop_s = std::max(span.stop_s, trace.spans[t].stop_s);
    span.bytes += static_cast<double>(plan.program->bytes_of(plan.tasks[t].tile));
  }
  return span;
}

std::int64_t load_edge(const Machine& machine, const std::vector<LinkId>& links) {
  const LinkId slowest = *std::ranges::min_element(
      links, {}, [&](LinkId id) { return machine.links[index(id)].bytes_per_s; });
  const Link& link = machine.links[index(slowest)];
  for (const std::int64_t edge : kLoadEdges) {
    const auto bytes = static_cast<double>(edge * edge * bytes_of(Storage::f64));
    if (link.latency_s <= kHardlyAny * bytes / link.bytes_per_s) return edge;
  }
  return std::ranges::max(kLoadEdges);
}

/// Whether the best run of one link is longer than those of the others, by kStandsOut.
bool one_stands_out(const std::vector<std::vector<double>>& seconds) {
  double longest = 0, second = 0;
  for (const std::vector<double>& of_link : seconds) {
    if (of_link.empty()) return false;
    const double best = std::ranges::min(of_link);
    second = std::max(second, std::min(longest, best));
    longest = std::max(longest, best);
  }
  return seconds.size() > 1 && longest > kStandsOut * second;
}

/// Times a load; false if its tiles do not fit into memory. Each link counts by its own best run: a
/// copy that is delayed in one is not in another, but in each run of many links some copy is.
bool run_quickly(Load& load, ProbeMemory& memory) {
  std::vector<std::vector<double>> seconds(load.links.size());  // from the start of the run
  load.bytes_per_s.assign(load.links.size(), 0);
  const auto spread = [&] {
    double sum = 0;
    for (const std::vector<double>& of_link : seconds) sum += spread_of(of_link);
    return sum / static_cast<double>(seconds.size());
  };
  const auto again = [&] { return spread() > kSteadyLoad || one_stands_out(seconds); };
  for (int run = 0; run < kRuns || (run < kMostRuns && again()); ++run) {
    const auto trace = memory.run(load.plan);
    if (!trace) continue;
    for (std::size_t i = 0; i < load.links.size(); ++i) {
      const LinkSpan span = span_of(load.plan.plan(), *trace, load.links[i]);
      seconds[i].push_back(span.stop_s - start_s(*trace));
      load.bytes_per_s[i] = std::max(load.bytes_per_s[i], span.rate());
    }
  }
  if (seconds.front().empty()) return false;
  for (const std::vector<double>& of_link : seconds)
    load.seconds = std::max(load.seconds, std::ranges::min(of_link));
  load.noticeable = kNoticed + 2 * spread();
  return true;
}

bool run_carefully(Load& load, const std::string& name, ProbeMemory& memory,
                   ProbeSession& session) {
  std::vector<Confidence> rates(load.links.size()), seconds(load.links.size());
  const std::vector<double> makespan =
      session.repeated("load " + name, "s", [&]() -> std::vector<double> {
        const auto trace = memory.run(load.plan);
        if (!trace) return {};
        for (std::size_t i = 0; i < rates.size(); ++i) {
          const LinkSpan span = span_of(load.plan.plan(), *trace, load.links[i]);
          rates[i].add(span.rate());
          seconds[i].add(span.stop_s - start_s(*trace));
        }
        return {makespan_s(*trace)};
      });
  if (makespan.empty()) return false;
  for (const Confidence& of_link : seconds) load.seconds = std::max(load.seconds, of_link.mean());
  load.noticeable = kNoticed + session.last_interval();
  for (const Confidence& rate : rates) load.bytes_per_s.push_back(rate.mean());
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

}  // namespace

double rate_in(const Plan& plan, const Trace& trace, LinkId link) {
  return span_of(plan, trace, link).rate();
}

ProbePlan load_plan(const Machine& machine, const std::vector<LinkId>& links, std::int64_t edge,
                    int fewest) {
  ProbePlan plan(machine, DataType::f64, edge, ProbePlan::Footprint::large);
  if (std::ranges::any_of(links, [&](LinkId id) { return is_staging(machine, id); }))
    fewest = std::max(fewest, plan.copies_beyond_caches());
  const double slowest = slowest_of(machine, links);
  std::vector<int> copies;
  for (const LinkId id : links) copies.push_back(copies_over(machine, id, slowest, fewest));
  add_copies(plan, links, copies, {});
  return plan;
}

LoadsInTurn::LoadsInTurn(const Machine& machine, const std::vector<std::vector<LinkId>>& sets,
                         std::int64_t edge)
    : plan_(machine, DataType::f64, edge) {
  std::vector<TaskId> before;
  for (const std::vector<LinkId>& set : sets) {
    const double slowest = slowest_of(machine, set);
    std::vector<int> copies;
    for (const LinkId id : set) {
      const double times = machine.links[index(id)].bytes_per_s / slowest;
      copies.push_back(static_cast<int>(std::ceil(std::min(kMostInTurn, times) - 0.1)));
    }
    const std::vector<std::vector<TaskId>> added = add_copies(plan_, set, copies, before);
    before.clear();
    for (const std::vector<TaskId>& of_link : added) before.push_back(of_link.back());
    tasks_.insert(tasks_.end(), added.begin(), added.end());
  }
}

std::vector<double> LoadsInTurn::run(ProbeMemory& memory) const {
  const auto trace = memory.run(plan_);
  return trace ? link_s(*trace) : std::vector<double>{};
}

std::vector<double> LoadsInTurn::simulated_s(const Machine& machine) const {
  return link_s(simulate(plan_.plan(), machine));
}

std::vector<double> LoadsInTurn::link_s(const Trace& trace) const {
  std::vector<double> seconds;
  for (const std::vector<TaskId>& of_link : tasks_)
    seconds.push_back(trace.spans[index(of_link.back())].stop_s -
                      trace.spans[index(of_link.front())].start_s);
  return seconds;
}

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

Directions::Directions(const Machine& machine, const std::vector<LinkId>& links) {
  for (const LinkId id : links)
    (machine.links[index(id)].target == kHost ? writes : reads).push_back(id);
}

std::vector<LinkId> some_of(const Machine& machine, const std::vector<LinkId>& links,
                            std::size_t most) {
  if (links.size() <= most) return links;
  const Directions of(machine, links);
  const std::size_t writes =
      std::min(of.writes.size(), std::max(most / 2, most - std::min(most, of.reads.size())));
  std::vector<LinkId> some;
  const auto take = [&](const std::vector<LinkId>& from, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) some.push_back(from[i * from.size() / count]);
  };
  take(of.reads, most - writes);
  take(of.writes, writes);
  std::ranges::sort(some);
  return some;
}

std::optional<Load> measure_load(const Machine& machine, const Mix& mix,
                                 const std::function<ProbePlan(std::int64_t edge)>& plan_of,
                                 ProbeMemory& memory, ProbeSession& session) {
  for (std::int64_t edge = load_edge(machine, mix.links); edge >= 32; edge /= 2) {
    Load load{.plan = plan_of(edge), .links = mix.links, .bytes_per_s = {}};
    if (!memory.run(load.plan)) continue;  // it touches the memory for the first time
    if (session.careful() ? run_carefully(load, mix.name, memory, session)
                          : run_quickly(load, memory))
      return load;
  }
  return std::nullopt;
}

std::optional<Load> measure_load(const Machine& machine, const Mix& mix, ProbeMemory& memory,
                                 ProbeSession& session) {
  const auto plan_of = [&](std::int64_t edge) {
    return load_plan(machine, mix.links, edge, kFewest);
  };
  return measure_load(machine, mix, plan_of, memory, session);
}

std::vector<double> short_loads_s(const Machine& machine, const std::vector<PortId>& ports,
                                  ProbeMemory& memory) {
  std::vector<double> seconds;
  for (const PortId port : ports) {
    const std::vector<LinkId> links = some_of(machine, links_at(machine, port), kShortLoaded);
    const ProbePlan plan = load_plan(machine, links, kShortLoadEdge, kFewest);
    if (!memory.run(plan)) return {};  // it touches the memory for the first time
    const auto trace = memory.run(plan);
    if (!trace) return {};
    seconds.push_back(makespan_s(*trace));
  }
  return seconds;
}

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

}  // namespace fleet
