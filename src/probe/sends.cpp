// SPDX-License-Identifier: BSD-3-Clause
// sends.cpp: times tiles that one device sends to the others in turn; what they take beyond their
// bytes is the latency. It must not know what kind of backend it measures.
#include "probe/sends.hpp"

#include <algorithm>
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

}  // namespace

void measure_sends(Machine& machine, ProbeMemory& memory, ProbeSession& session) {
  const std::vector<LinkId> links = links_of_a_sender(machine);
  if (links.empty()) return;
  session.part(kSendsPart, machine, [&] {
    std::vector<double> latencies_s;
    for (const std::int64_t edge : kSentEdges) {
      ProbePlan plan(machine, DataType::f64, edge);
      plan.send_in_turn();
      std::vector<TaskId> copies;
      double least_s = 0;  // without latency
      for (int round = 0; round < kRounds; ++round)
        for (const LinkId id : links) {
          copies.push_back(plan.copy(id, {}));
          least_s += static_cast<double>(plan.tile_bytes()) /
                     machine.links[static_cast<std::size_t>(id)].bytes_per_s;
        }
      least_s /= static_cast<double>(copies.size());
      const auto once = [&]() -> std::vector<double> {
        const auto trace = memory.run(plan);
        if (!trace) return {};
        return {usual(periods_s(*trace, copies))};
      };
      if (once().empty()) break;  // warm-up: touches the memory for the first time
      const std::vector<double> taken =
          session.repeated("send in turn, tile " + std::to_string(edge), "s", once);
      if (taken.empty()) break;
      latencies_s.push_back(taken.front() - least_s);
    }
    if (latencies_s.empty()) return;
    const double latency_s = mean(latencies_s);
    if (!(latency_s > 0)) return;
    const std::vector<char> in_turn = machine.sends_in_turn();
    for (Link& link : machine.links)
      if (in_turn[static_cast<std::size_t>(link.source)] != 0 && !on_host(link.target))
        link.sent_latency_s = std::min(latency_s, link.latency_s);
  });
}

void expect_sends(const Machine& machine, ProbeSession& session) {
  if (!links_of_a_sender(machine).empty()) session.expect(kSendsPart, std::size(kSentEdges));
}

}  // namespace fleet
