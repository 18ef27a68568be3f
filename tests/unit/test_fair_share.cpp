// SPDX-License-Identifier: BSD-3-Clause
// test_fair_share.cpp: rates of flows that start and stop are max-min fair, whatever their history.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include "sim/fair_share.hpp"

namespace fleet::test {
namespace {

using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t end) { return random() % end; }
double between(Random& random, double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(random);
}

Machine random_machine(Random& random) {
  Machine machine;
  machine.devices.resize(4);
  for (std::size_t p = 0; p < 6; ++p) machine.ports.push_back({"port", between(random, 1, 20)});
  for (int l = 0; l < 12; ++l) {
    Link link{.source = 0, .target = 2, .bytes_per_s = between(random, 1, 10), .ports = {}};
    for (std::size_t shares = below(random, 4); shares > 0; --shares)
      link.ports.push_back(
          {static_cast<PortId>(below(random, machine.ports.size())), between(random, 0.5, 2)});
    machine.links.push_back(link);
  }
  return machine;
}

double weight_at(const Link& link, PortId port) {
  double weight = 0;
  for (const PortShare& share : link.ports)
    if (share.port == port) weight += share.weight;
  return weight;
}

/// "" if `rates` (flow -> rate on its link) are max-min fair: no flow exceeds its cap, no port its
/// capacity, and every flow below its cap takes a full port on which no flow is faster.
std::string unfairness(const Machine& machine, const std::map<FlowId, LinkId>& flows,
                       const FairShare& share) {
  constexpr double kClose = 1e-6;
  std::vector<double> load(machine.ports.size(), 0.0), fastest(machine.ports.size(), 0.0);
  for (const auto& [flow, link] : flows)
    for (std::size_t p = 0; p < load.size(); ++p) {
      const double weight =
          weight_at(machine.links[static_cast<std::size_t>(link)], static_cast<PortId>(p));
      load[p] += weight * share.rate(flow);
      if (weight > 0) fastest[p] = std::max(fastest[p], share.rate(flow));
    }
  for (std::size_t p = 0; p < load.size(); ++p)
    if (load[p] > machine.ports[p].capacity * (1 + kClose)) return "a port carries too much";
  for (const auto& [flow, id] : flows) {
    const Link& link = machine.links[static_cast<std::size_t>(id)];
    if (share.rate(flow) > link.bytes_per_s * (1 + kClose)) return "a flow is above its cap";
    if (share.rate(flow) > link.bytes_per_s * (1 - kClose)) continue;
    const bool bound = std::ranges::any_of(link.ports, [&](const PortShare& taken) {
      const auto p = static_cast<std::size_t>(taken.port);
      return load[p] > machine.ports[p].capacity * (1 - kClose) &&
             share.rate(flow) > fastest[p] * (1 - kClose);
    });
    if (!bound) return "a flow could be faster";
  }
  return "";
}

TEST(FairShare, StaysMaxMinFairWhileFlowsComeAndGo) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const Machine machine = random_machine(random);
    FairShare share(machine, 10);
    std::map<FlowId, LinkId> flows;
    double now_s = 0;
    for (int step = 0; step < 60; ++step, now_s += 0.001) {
      for (std::size_t changes = 1 + below(random, 3); changes > 0; --changes) {
        const auto flow = static_cast<FlowId>(below(random, 10));
        if (flows.contains(flow)) share.stop(flow);
        flows.erase(flow);
        if (below(random, 3) == 0) continue;
        const auto link = static_cast<LinkId>(below(random, machine.links.size()));
        share.start(flow,
                    {.user = share.user_of_link(link),
                     .amount = 1e6,
                     .cap = machine.links[static_cast<std::size_t>(link)].bytes_per_s},
                    kNoFlow, now_s);
        flows[flow] = link;
      }
      share.settle(now_s);
      ASSERT_EQ(unfairness(machine, flows, share), "") << "seed " << seed << " step " << step;
    }
  }
}

TEST(FairShare, TheSameLinkNamedTwiceAtAPortWeighsTwice) {
  Machine machine;
  machine.devices.resize(2);
  machine.ports = {{"port", 6}};
  machine.links = {{.source = 0, .target = 1, .bytes_per_s = 10, .ports = {{0, 1}, {0, 2}}}};
  FairShare share(machine, 1);

  share.start(0, {.user = 0, .amount = 1, .cap = 10}, kNoFlow, 0);
  share.settle(0);

  EXPECT_DOUBLE_EQ(share.rate(0), 2);
}

TEST(FairShare, TheNextCopyOfABusyLinkKeepsTheRate) {
  Machine machine;
  machine.devices.resize(2);
  machine.ports = {{"port", 6}};
  machine.links = {{.source = 0, .target = 1, .bytes_per_s = 5, .ports = {{0, 1}}},
                   {.source = 1, .target = 0, .bytes_per_s = 5, .ports = {{0, 1}}}};
  FairShare share(machine, 2);
  share.start(0, {.user = 0, .amount = 3, .cap = 5}, kNoFlow, 0);
  share.start(1, {.user = 1, .amount = 30, .cap = 5}, kNoFlow, 0);
  share.settle(0);

  share.stop(0);
  share.start(0, {.user = 0, .amount = 6, .cap = 5}, kNoFlow, 1);
  share.settle(1);

  EXPECT_DOUBLE_EQ(share.rate(0), 3);
  EXPECT_DOUBLE_EQ(share.rate(1), 3);
  EXPECT_DOUBLE_EQ(share.next_event_s(0), 1 + 2);
}

TEST(FairShare, ChunksArriveWhateverTheLastBitOfTheClockIs) {
  // After a quarter of a minute a bit of the clock is more than the billionth part of a chunk.
  const Machine machine{.devices = {{}, {}},
                        .links = {{.source = 0, .target = 1, .bytes_per_s = 1e10}}};
  for (int i = 0; i < 2000; ++i) {
    FairShare share(machine, 1);
    double now_s = 19.3 + 1.37e-7 * i;
    share.start(0, {.user = 0, .amount = 65536, .cap = 1e10 * (1 - 1e-5 * i), .chunk = 16384},
                kNoFlow, now_s);
    share.settle(now_s);
    int events = 0;
    for (; !share.first_chunk_arrived(0, now_s) && events < 10; ++events) {
      share.announce(0, now_s);
      share.settle(now_s);
      now_s = std::max(now_s, share.next_event_s(0));
      share.take_event(0, now_s * (1 + 1e-12));
    }
    ASSERT_LT(events, 10) << i;
  }
}

TEST(FairShare, AFlowTakenAwayGivesItsShareBack) {
  Machine machine;
  machine.devices.resize(2);
  machine.ports = {{"port", 6}};
  machine.links = {{.source = 0, .target = 1, .bytes_per_s = 5, .ports = {{0, 1}}}};
  FairShare share(machine, 2);
  for (FlowId flow = 0; flow < 2; ++flow)
    share.start(flow, {.user = 0, .amount = 30, .cap = 5}, kNoFlow, 0);
  share.settle(0);
  EXPECT_DOUBLE_EQ(share.rate(1), 3);

  share.stop(0);
  share.settle(2);

  EXPECT_DOUBLE_EQ(share.rate(1), 5);
  EXPECT_DOUBLE_EQ(share.next_event_s(1), 2 + 24.0 / 5);  // 6 of 30 had moved
}

}  // namespace
}  // namespace fleet::test
