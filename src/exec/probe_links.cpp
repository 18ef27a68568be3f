// SPDX-License-Identifier: BSD-3-Clause
// probe_links.cpp: copies of several sizes over one link at a time, and the line through them. It
// must not know what kind of backend it measures.
#include "exec/probe_links.hpp"

#include <iterator>
#include <string>

#include "exec/probe_ports.hpp"
#include "exec/probe_times.hpp"

namespace fleet {
namespace {

/// Copies from small ones, which are all latency, to those of large tiles.
constexpr std::int64_t kCopyEdges[] = {16, 128, 256, 512, 2048};
/// Larger tiles than this only tell more of links that move such a one in less time than it takes.
constexpr std::int64_t kLargeEdge = 512;
constexpr double kShortCopyS = 4e-4;
constexpr double kCarefulShortCopyS = 1e-2;
constexpr std::int64_t kCarefulCopyEdges[] = {16, 128, 256, 512, 1024, 2048, 4096};
constexpr int kCopyRepeats = 4;
/// The CPU's own copies of anything smaller tell how fast its caches are, but for the latency.
constexpr std::int64_t kStagedEdges[] = {16, 2048};
/// Links and devices that are alike are measured on a few of them.
constexpr std::size_t kRepresentatives = 4;

struct Sample {
  double bytes = 0;
  double seconds = 0;
};

/// seconds = latency_s + bytes / bytes_per_s with the least sum of squared relative errors.
void fit_link(const std::vector<Sample>& samples, double& latency_s, double& bytes_per_s) {
  // With each equation divided by its seconds: 1 = L * u + S * v.
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
  if (!(latency >= 0)) {  // also when there is but one size
    latency = 0;
    seconds_per_byte = v1 / vv;
  }
  if (!(seconds_per_byte > 0)) return;
  latency_s = latency;
  bytes_per_s = 1 / seconds_per_byte;
}

std::vector<std::vector<LinkId>> links_by_kind(const Machine& machine) {
  std::vector<std::vector<LinkId>> kinds;
  std::vector<bool> known(machine.links.size(), false);
  for (LinkId first = 0; first < static_cast<LinkId>(machine.links.size()); ++first) {
    if (known[static_cast<std::size_t>(first)]) continue;
    std::vector<LinkId>& same = kinds.emplace_back();
    for (LinkId other = first; other < static_cast<LinkId>(machine.links.size()); ++other)
      if (other == first || links_alike(machine, first, other)) same.push_back(other);
    for (const LinkId id : same) known[static_cast<std::size_t>(id)] = true;
  }
  return kinds;
}

std::vector<std::int64_t> copy_edges(const ProbeSession& session, bool staged) {
  if (staged) return {std::begin(kStagedEdges), std::end(kStagedEdges)};
  if (session.careful()) return {std::begin(kCarefulCopyEdges), std::end(kCarefulCopyEdges)};
  return {std::begin(kCopyEdges), std::end(kCopyEdges)};
}

std::string part_of(const Machine& machine, const std::vector<LinkId>& same) {
  return "link " + link_name(machine, same.front());
}

void measure_alike(const std::vector<LinkId>& same, Machine& machine, ProbeMemory& memory,
                   ProbeSession& session) {
  std::vector<Sample> samples;
  const bool staged = is_staging(machine, same.front());
  const double short_s = session.careful() ? kCarefulShortCopyS : kShortCopyS;
  for (const std::int64_t edge : copy_edges(session, staged)) {
    if (edge > kLargeEdge && (samples.empty() || samples.back().seconds > short_s)) break;
    const bool large = staged && edge > kLargeEdge;
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
    const auto once = [&]() -> std::vector<double> {
      const auto trace = memory.run(plan);
      if (!trace) return {};
      std::vector<double> taken;
      for (const std::vector<TaskId>& of_link : copies)
        std::ranges::copy(periods_s(*trace, of_link), std::back_inserter(taken));
      return {usual(taken)};
    };
    if (once().empty()) break;  // it touches the memory for the first time
    const std::vector<double> taken = session.repeated(
        "copy " + link_name(machine, same.front()) + " tile " + std::to_string(edge), "s", once);
    if (taken.empty()) break;
    samples.push_back({static_cast<double>(plan.tile_bytes()), taken.front()});
  }
  if (samples.empty()) return;  // not even the smallest tile fits: the link keeps what was said
  Link measured = machine.links[static_cast<std::size_t>(same.front())];
  fit_link(samples, measured.latency_s, measured.bytes_per_s);
  for (const LinkId id : same) set_rate(machine, id, measured.latency_s, measured.bytes_per_s);
}

}  // namespace

void measure_links(Machine& machine, ProbeMemory& memory, ProbeSession& session) {
  for (const std::vector<LinkId>& same : links_by_kind(machine))
    session.part(part_of(machine, same), machine,
                 [&] { measure_alike(same, machine, memory, session); });
}

void expect_links(const Machine& machine, ProbeSession& session) {
  for (const std::vector<LinkId>& same : links_by_kind(machine))
    session.expect(part_of(machine, same),
                   copy_edges(session, is_staging(machine, same.front())).size());
}

}  // namespace fleet
