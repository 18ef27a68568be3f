// SPDX-License-Identifier: BSD-3-Clause
// sends.cpp: times tiles that one device sends to the others in turn; what they take beyond their
// bytes is the latency. It must not know what kind of backend it measures.
#include "probe/sends.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "probe/times.hpp"

namespace fleet {
namespace {

constexpr const char* kSendsPart = "sends";
/// Tiles of 2 and 8 MB, as plans send: of much smaller ones issuing is all, of much larger ones the
/// rate.
constexpr std::int64_t kSentEdges[] = {512, 1024};
constexpr int kRounds = 6;
/// Of copies that take no longer than their bytes; 0 would mean that it is not known.
constexpr double kLeastLatencyS = 1e-9;
/// More would only cost time: the sender is the same.
constexpr std::size_t kMostTargets = 4;

/// Some links of the first device that can send in turn; none if no device can.
std::vector<LinkId> links_of_a_sender(const Machine& machine) {
  const std::vector<char> in_turn = machine.sends_in_turn();
  const auto sender = static_cast<DeviceId>(std::ranges::find(in_turn, 1) - in_turn.begin());
  std::vector<LinkId> links;
  for (LinkId id = 0; id < std::ssize(machine.links); ++id) {
    const Link& link = machine.links[static_cast<std::size_t>(id)];
    if (link.source == sender && !on_host(link.target) && links.size() < kMostTargets)
      links.push_back(id);
  }
  return links;
}

/// Seconds that tiles of this edge take beyond their bytes when they are sent; none if memory is
/// too small.
std::optional<double> latency_s(const std::vector<LinkId>& links, std::int64_t edge,
                                const Machine& machine, ProbeMemory& memory,
                                ProbeSession& session) {
  ProbePlan plan(machine, DataType::f64, edge);
  plan.send_in_turn();
  std::vector<TaskId> copies;
  std::vector<double> bytes_s;
  for (int round = 0; round < kRounds; ++round)
    for (const LinkId id : links) {
      copies.push_back(plan.copy(id, {}));
      bytes_s.push_back(static_cast<double>(plan.tile_bytes()) /
                        machine.links[static_cast<std::size_t>(id)].bytes_per_s);
    }
  const auto once = [&]() -> std::vector<double> {
    const auto trace = memory.run(plan);
    if (!trace) return {};
    std::vector<double> beyond_s = periods_s(*trace, copies);
    for (std::size_t i = 0; i < copies.size(); ++i) beyond_s[i] -= bytes_s[i];
    return {std::max(kLeastLatencyS, usual(beyond_s))};
  };
  if (once().empty()) return {};  // warm-up: touches the memory for the first time
  const std::vector<double> taken =
      session.repeated("latency of sends, tile " + std::to_string(edge), "s", once);
  return taken.empty() ? std::nullopt : std::optional(taken.front());
}

}  // namespace

void measure_sends(Machine& machine, ProbeMemory& memory, ProbeSession& session) {
  session.part(kSendsPart, machine, [&] {
    for (Link& link : machine.links) link.sent_latency_s = 0;
    const std::vector<LinkId> links = links_of_a_sender(machine);
    if (links.empty()) return;
    double least_s = kNever;
    for (const std::int64_t edge : kSentEdges)
      if (const auto found_s = latency_s(links, edge, machine, memory, session))
        least_s = std::min(least_s, *found_s);
    if (least_s == kNever) return;
    const std::vector<char> in_turn = machine.sends_in_turn();
    for (Link& link : machine.links)
      if (in_turn[static_cast<std::size_t>(link.source)] != 0 && !on_host(link.target))
        link.sent_latency_s = std::min(least_s, std::max(kLeastLatencyS, link.latency_s));
  });
}

void expect_sends(const Machine& machine, ProbeSession& session) {
  std::vector<int> links(machine.devices.size(), 0);
  for (const Link& link : machine.links)
    if (!on_host(link.source) && !on_host(link.target))
      ++links[static_cast<std::size_t>(link.source)];
  if (std::ranges::max(links) > 0) session.expect(kSendsPart, std::size(kSentEdges));
}

}  // namespace fleet
