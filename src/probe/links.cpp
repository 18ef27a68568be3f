// SPDX-License-Identifier: BSD-3-Clause
// links.cpp: times copies of several sizes over one link at a time, and fits latency and rate to
// them. It must not know what kind of backend it measures.
#include "probe/links.hpp"

#include <iterator>
#include <map>
#include <set>
#include <string>

#include "probe/groups.hpp"
#include "probe/ports.hpp"
#include "probe/times.hpp"

namespace fleet {
namespace {

/// Tile edges of the copies, from small ones, which are all latency, to large tiles.
constexpr std::int64_t kCopyEdges[] = {16, 128, 256, 512, 2048};
/// Larger tiles than this are copied only if a tile of this edge took less than kShortCopyS.
constexpr std::int64_t kLargeCopyEdge = 512;
constexpr double kShortCopyS = 4e-4;
constexpr double kCarefulShortCopyS = 1e-2;
constexpr std::int64_t kCarefulCopyEdges[] = {16, 128, 256, 512, 1024, 2048, 4096};
constexpr int kCopyRepeats = 4;
/// The CPU copies small tiles within its caches, so the smallest one only gives the latency.
constexpr std::int64_t kStagedEdges[] = {16, 2048};
/// The number of links measured for a group of links that are alike.
constexpr std::size_t kRepresentatives = 4;
/// Each link of a class gets a short copy, kShortCopies in a run, with the largest of these tiles
/// that fits into kShortShare of the budget, since a small tile tells little about the rate of a
/// fast link. CPU threads copy any of these tiles from their caches, so for them larger tiles would
/// only cost time.
constexpr std::int64_t kShortEdges[] = {16, 64, 256, 1024};
constexpr std::int64_t kLargestByThread = 256;
constexpr double kShortShare = 0.1;
constexpr std::size_t kShortCopies = 32;
/// Wires of one kind agree within a few percent, and a broken one has half the rate. Copies by CPU
/// threads depend on the contents of the caches and on other load.
constexpr double kAlikeWires = 1.15, kAlikeThreads = 3;

struct Sample {
  double bytes = 0;
  double seconds = 0;
};

/// seconds = latency_s + bytes / bytes_per_s with the least sum of squared relative errors.
void fit_link(const std::vector<Sample>& samples, double& latency_s, double& bytes_per_s) {
  // Each equation divided by its seconds reads 1 = L * u + S * v.
  double uu = 0, uv = 0, vv = 0, u1 = 0, v1 = 0;
  for (const Sample& sample : samples) {
    const double u = 1 / sample.seconds, v = sample.bytes / sample.seconds;
    uu += u * u;
    uv += u * v;
    vv += v * v;
    u1 += u;
    v1 += v;
  }
  const double determinant = uu * vv - uv * uv;
  double latency = (u1 * vv - v1 * uv) / determinant;
  double seconds_per_byte = (v1 * uu - u1 * uv) / determinant;
  if (!(latency >= 0)) {  // also with only one size
    latency = 0;
    seconds_per_byte = v1 / vv;
  }
  if (!(seconds_per_byte > 0)) return;
  latency_s = latency;
  bytes_per_s = 1 / seconds_per_byte;
}

/// Classes of links that are measured on a few of their members: links of one kind served by CPU
/// threads, and in quick probes of many devices all links of one kind. Every other link is a class
/// of its own.
std::vector<std::vector<LinkId>> link_classes(const Machine& machine, const ProbeSession& session) {
  const bool one_by_one = measures_all(machine, session);
  std::vector<std::vector<LinkId>> classes;
  std::map<LinkKind, std::size_t> known;
  for (LinkId id = 0; id < static_cast<LinkId>(machine.links.size()); ++id) {
    const LinkKind kind = kind_of(machine, id);
    const bool alone = !kind.by_thread && one_by_one;
    if (alone || known.emplace(kind, classes.size()).second)
      classes.push_back({id});
    else
      classes[known.at(kind)].push_back(id);
  }
  return classes;
}

std::vector<std::int64_t> copy_edges(const ProbeSession& session, bool staged) {
  if (staged) return {std::begin(kStagedEdges), std::end(kStagedEdges)};
  if (session.careful()) return {std::begin(kCarefulCopyEdges), std::end(kCarefulCopyEdges)};
  return {std::begin(kCopyEdges), std::end(kCopyEdges)};
}

std::string part_of(const Machine& machine, const std::vector<LinkId>& same) {
  return "link " + link_name(machine, same.front());
}

/// Measures a few of these links and gives the result to all.
void measure_alike(const std::vector<LinkId>& same, Machine& machine, ProbeMemory& memory,
                   ProbeSession& session) {
  std::vector<Sample> samples;
  const bool staged = is_staging(machine, same.front());
  const double short_s = session.careful() ? kCarefulShortCopyS : kShortCopyS;
  for (const std::int64_t edge : copy_edges(session, staged)) {
    if (edge > kLargeCopyEdge && (samples.empty() || samples.back().seconds > short_s)) break;
    const bool large = staged && edge > kLargeCopyEdge;
    ProbePlan plan(machine, DataType::f64, edge,
                   large ? ProbePlan::Footprint::large : ProbePlan::Footprint::small);
    const int repeats = large ? plan.copies_beyond_caches() : kCopyRepeats;
    std::vector<std::vector<TaskId>> copies;
    std::vector<TaskId> last;
    for (std::size_t i = 0; i < std::min(same.size(), kRepresentatives); ++i) {
      copies.emplace_back();
      for (int repeat = 0; repeat < repeats; ++repeat) {
        last = {plan.copy(same[i], last)};
        copies.back().push_back(last.front());
      }
    }
    double spread = 0;
    const auto once = [&]() -> std::vector<double> {
      const auto trace = memory.run(plan);
      if (!trace) return {};
      std::vector<double> taken;
      for (const std::vector<TaskId>& of_link : copies)
        std::ranges::copy(periods_s(*trace, of_link), std::back_inserter(taken));
      spread = spread_of(taken);
      return {usual(taken)};
    };
    if (once().empty()) break;  // warm-up: touches the memory for the first time
    const std::string name =
        "copy " + link_name(machine, same.front()) + " tile " + std::to_string(edge);
    const std::vector<double> taken = session.repeated(name, "s", once);
    if (taken.empty()) break;
    if (!session.careful()) session.note_quick(name, taken.front(), repeats, spread);
    samples.push_back({static_cast<double>(plan.tile_bytes()), taken.front()});
  }
  if (samples.empty()) return;  // not even the smallest tile fits: the link keeps its rate
  Link measured = machine.links[static_cast<std::size_t>(same.front())];
  fit_link(samples, measured.latency_s, measured.bytes_per_s);
  for (const LinkId id : same) set_rate(machine, id, measured.latency_s, measured.bytes_per_s);
}

/// Writes the tiles that copies of this edge read on the devices at the ends of the links, because
/// memory that was never written may be one shared page of zeros. False if the tiles do not fit.
bool prime_ends(const std::vector<LinkId>& links, std::int64_t edge, const Machine& machine,
                ProbeMemory& memory) {
  std::set<DeviceId> ends;
  for (const LinkId id : links) {
    const Link& link = machine.links[static_cast<std::size_t>(id)];
    for (const DeviceId end : {link.source, link.target})
      if (!on_host(end)) ends.insert(end);
  }
  ProbePlan plan(machine, DataType::f64, edge);
  for (const DeviceId end : ends) plan.prime(end);
  return memory.run(plan).has_value();
}

/// Seconds of one copy over each of the links, one by one; empty if memory is too small.
std::vector<double> short_copies_s(const std::vector<LinkId>& links, std::int64_t edge,
                                   const Machine& machine, ProbeMemory& memory) {
  std::vector<double> seconds;
  for (std::size_t begin = 0; begin < links.size(); begin += kShortCopies) {
    ProbePlan plan(machine, DataType::f64, edge);
    std::vector<TaskId> copies;
    for (std::size_t i = begin; i < std::min(links.size(), begin + kShortCopies); ++i)
      copies.push_back(plan.copy_in_turn(links[i]));
    const auto trace = memory.run(plan);
    if (!trace) return {};
    // Spans, not periods: between two copies another thread may have to wake up.
    std::ranges::copy(spans_s(*trace, copies), std::back_inserter(seconds));
  }
  return seconds;
}

/// The edge of the largest tile that there is time to copy once over each of the links; 0 if no
/// tile fits into memory. The source tiles of that edge are written on return.
std::int64_t short_edge(const std::vector<LinkId>& links, const Machine& machine,
                        ProbeMemory& memory, const ProbeSession& session) {
  const double time_s = kShortShare * session.request().budget_s;
  const bool by_thread = kind_of(machine, links.front()).by_thread;
  const std::vector<LinkId> first{links.front()};
  std::int64_t found = 0;
  for (const std::int64_t edge : kShortEdges) {
    if ((by_thread && edge > kLargestByThread) || !prime_ends(first, edge, machine, memory)) break;
    const std::vector<double> one_s = short_copies_s(first, edge, machine, memory);
    if (one_s.empty()) break;
    if (found > 0 && one_s.front() * static_cast<double>(links.size()) > time_s) break;
    found = edge;
  }
  return found > 0 && prime_ends(links, found, machine, memory) ? found : 0;
}

/// Groups the links of a class by one short copy over each. A few links of the main group are
/// measured for all of it, and as many of the other groups as there is time for.
void measure_class(const std::vector<LinkId>& same, Machine& machine, ProbeMemory& memory,
                   ProbeSession& session) {
  const std::int64_t edge = short_edge(same, machine, memory, session);
  const double tolerance = kind_of(machine, same.front()).by_thread ? kAlikeThreads : kAlikeWires;
  const std::vector<ProbeGroup> groups =
      look_at_each(same.size(), tolerance, [&](const std::vector<std::size_t>& ids) {
        return edge > 0 ? short_copies_s(picked(same, ids), edge, machine, memory)
                        : std::vector<double>();
      });
  const auto measure = [&](const ProbeGroup& group) {
    measure_alike(picked(same, group.members), machine, memory, session);
  };
  const LinkId usual_one = same[groups.front().members.front()];
  const auto scale = [&](const ProbeGroup& group, double by) {
    const Link usual = machine.links[static_cast<std::size_t>(usual_one)];
    for (const LinkId id : picked(same, group.members))
      set_rate(machine, id, usual.latency_s * by, usual.bytes_per_s / by);
  };
  if (const std::size_t scaled = measure_groups(groups, session, measure, scale); scaled > 0)
    session.leave_out(std::to_string(scaled) + " links like " + link_name(machine, usual_one) +
                      " have rates from one short copy each");
}

}  // namespace

void measure_links(Machine& machine, ProbeMemory& memory, ProbeSession& session) {
  for (const std::vector<LinkId>& same : link_classes(machine, session))
    session.part(part_of(machine, same), machine, [&] {
      if (same.size() == 1 || session.careful())
        measure_alike(same, machine, memory, session);
      else
        measure_class(same, machine, memory, session);
    });
}

void expect_links(const Machine& machine, ProbeSession& session) {
  for (const std::vector<LinkId>& same : link_classes(machine, session))
    session.expect(part_of(machine, same),
                   copy_edges(session, is_staging(machine, same.front())).size());
}

}  // namespace fleet
