// SPDX-License-Identifier: BSD-3-Clause
// test_probe_many.cpp: a quick probe of many devices measures a few links and ports of each kind,
// times each of the others once, and finds those that differ.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "backend/host/machine.hpp"
#include "probe/groups.hpp"
#include "probe/link_sets.hpp"
#include "probe/loads.hpp"
#include "probe/probe.hpp"
#include "support/probe_nodes.hpp"

namespace fleet::test {
namespace {

constexpr double kBudgetS = 60;  // simulated runs take no time; machines under test may be busy

using Members = std::vector<std::size_t>;

TEST(GroupsByTime, ArePutAroundMediansAndKeepTheOrderOfTheirMembers) {
  const auto groups = groups_by_time({1.0, 9.0, 1.1, 0.95, 8.5, 1.0}, 1.2);

  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].members, (Members{0, 2, 3, 5}));
  EXPECT_EQ(groups[1].members, (Members{1, 4}));
}

TEST(LooksAtEach, LookAgainAtWhatDiffersAndKeepTheShortest) {
  std::vector<Members> looks;

  const auto groups = look_at_each(5, 1.2, [&](const Members& ids) {
    looks.push_back(ids);
    std::vector<double> seconds(ids.size(), 1.0);
    if (looks.size() == 1) seconds[2] = 40;  // another process had the CPU
    return seconds;
  });

  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].members, (Members{0, 1, 2, 3, 4}));
  EXPECT_EQ(looks, (std::vector<Members>{{0, 1, 2, 3, 4}, {2}}));
}

TEST(LooksAtEach, TakeAllForAlikeWhereNothingCanBeSeen) {
  const auto groups = look_at_each(3, 1.2, [](const Members&) { return std::vector<double>(); });

  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].members, (Members{0, 1, 2}));
}

TEST(MeasuredGroups, AreTheFirstOneAndOthersWhileThereIsTime) {
  const std::vector<ProbeGroup> groups = {{{0, 1}, 2.0}, {{2, 3, 4}, 6.0}};
  for (const double budget_s : {1e-9, 1e3}) {
    ProbeRequest request;
    request.budget_s = budget_s;
    const ProbeSession session(request);
    Members measured, scaled;

    const std::size_t only_scaled = measure_groups(
        groups, session, [&](const ProbeGroup& group) { measured.push_back(group.members[0]); },
        [&](const ProbeGroup& group, double by) {
          scaled.push_back(group.members[0]);
          EXPECT_DOUBLE_EQ(by, 3);
        });

    EXPECT_EQ(measured, budget_s > 1 ? (Members{0, 2}) : (Members{0}));
    EXPECT_EQ(scaled, budget_s > 1 ? Members{} : (Members{2}));
    EXPECT_EQ(only_scaled, budget_s > 1 ? 0u : 3u);
  }
}

/// Counts the copies, and the most memory that one of the devices needed for them.
class Counting final : public Disguise {
 public:
  explicit Counting(const Machine& real) : Disguise(real, forgotten(real)) {}
  std::unique_ptr<Execution> begin(const Plan& plan, const Binding& binding,
                                   std::uint64_t serial) override {
    for (std::size_t d = kFirstDevice; d < plan.arena_bytes.size(); ++d)
      most_bytes = std::max(most_bytes, plan.arena_bytes[d]);
    copies += std::ranges::count_if(
        plan.tasks, [](const Task& task) { return task.kind != TaskKind::compute; });
    return Disguise::begin(plan, binding, serial);
  }
  std::int64_t copies = 0;
  std::int64_t most_bytes = 0;
};

/// A node of GPUs on PCIe and on one switch: all links of a kind are equal, and every port is full
/// when all its links are busy.
Machine switched_node(int gpus) {
  Machine machine;
  machine.issue_s = 0.5e-6;
  for (int d = 0; d < kFirstDevice + gpus; ++d) {
    Device device;
    device.name = d == kHost       ? "host"
                  : d == kPageable ? "pageable"
                                   : std::to_string(d - kFirstDevice);
    device.memory_bytes = std::int64_t{1} << 37;
    device.launch_s = 3e-6;
    device.memory_bytes_per_s = 3e12;
    if (d >= kFirstDevice)
      for (const std::int64_t edge : {256, 1024, 4096})
        device.kernels.push_back({DataType::f64, edge, 5e13});
    machine.devices.push_back(device);
  }
  const auto port = [&](const std::string& name, double capacity) {
    machine.ports.push_back({name, capacity});
    return static_cast<PortId>(machine.ports.size() - 1);
  };
  const PortId memory = port("host memory", 160e9);
  std::vector<PortId> out, in;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    const PortId pcie = port("pcie " + std::to_string(gpu), 70e9);
    out.push_back(port("out of " + std::to_string(gpu), 395e9));
    in.push_back(port("into " + std::to_string(gpu), 380e9));
    const DeviceId d = kFirstDevice + gpu;
    machine.links.push_back({kHost, d, 6e-6, 50e9, {{memory, 1}, {pcie, 1}}});
    machine.links.push_back({d, kHost, 7e-6, 45e9, {{memory, 1.3}, {pcie, 1}}});
  }
  for (int from = 0; from < gpus; ++from)
    for (int to = 0; to < gpus; ++to)
      if (from != to)
        machine.links.push_back(
            {kFirstDevice + from,
             kFirstDevice + to,
             11e-6,
             350e9,
             {{out[static_cast<std::size_t>(from)], 1}, {in[static_cast<std::size_t>(to)], 1}}});
  return machine;
}

/// Virtual devices with rates that differ from the placeholders.
Machine virtual_node(int devices) {
  Machine machine = host_machine(devices, 2, std::int64_t{1} << 30);
  for (Link& link : machine.links) {
    link.latency_s = 2e-6;
    for (PortShare& share : link.ports)
      if (share.weight != 1) share.weight /= 2;
    link.bytes_per_s *= 2;
  }
  machine.ports[1].capacity = 12e9;
  for (std::size_t d = kFirstDevice; d < machine.devices.size(); ++d)
    for (KernelRate& rate : machine.devices[d].kernels)
      rate.flops_per_s = 1e9 * static_cast<double>(rate.edge);
  return machine;
}

Link& link_between(Machine& machine, int from, int to) {
  return machine
      .links[static_cast<std::size_t>(machine.find_link(kFirstDevice + from, kFirstDevice + to))];
}

/// Divides the rate of a link; shares of CPU threads follow the rate.
void slow_down(Link& link, double times) {
  for (PortShare& share : link.ports)
    if (std::abs(share.weight * link.bytes_per_s - 1) < 1e-9) share.weight *= times;
  link.bytes_per_s /= times;
}

TEST(QuickProbeOfMany, FindsEachMachineWithAFewCopiesForEachLink) {
  for (const int gpus : {8, 32, 72}) {
    for (const Machine& real : {switched_node(gpus), virtual_node(gpus)}) {
      Counting backend(real);

      const Machine found = probe(backend, kBudgetS);

      const auto links = static_cast<std::int64_t>(real.links.size());
      EXPECT_EQ(difference(real, found, 0.01), "") << gpus;
      EXPECT_EQ(backend.conflict, "") << gpus;
      EXPECT_LE(backend.copies, 10000 + 3 * links) << gpus;
      EXPECT_LE(backend.most_bytes, std::int64_t{3} << 30) << gpus;
    }
  }
}

TEST(QuickProbeOfMany, FindsOneBadLinkAmongThoseThatAreAlike) {
  for (const bool first : {true, false})
    for (Machine real : {switched_node(16), virtual_node(16)}) {
      slow_down(link_between(real, first ? 0 : 3, first ? 1 : 11), 4);
      Counting backend(real);

      EXPECT_EQ(difference(real, probe(backend, kBudgetS), 0.01), "") << first;
    }
}

TEST(QuickProbeOfMany, FindsOneBadPortAmongThoseThatAreAlike) {
  Machine real = switched_node(16);
  for (Link& link : real.links)
    if (!on_host(link.source) && !on_host(link.target)) link.bytes_per_s = 100e9;
  // More than any link needs alone, and less than the capacity of the other ports.
  std::ranges::find(real.ports, "into 5", &Port::name)->capacity = 250e9;
  Counting backend(real);

  EXPECT_EQ(difference(real, probe(backend, kBudgetS), 0.01), "");
}

TEST(QuickProbeOfMany, FindsThePortsOfTheTwoDirectionsToEachDevice) {
  const Machine real = switched_node(16);
  Machine said = forgotten(real);
  std::vector<bool> is_pcie;
  for (const Port& port : said.ports) is_pcie.push_back(port.name.starts_with("pcie"));
  remove_ports(said, is_pcie);
  Disguise backend(real, said);

  const Machine found = probe(backend, kBudgetS);

  EXPECT_EQ(found.ports.size(), real.ports.size());
  for (int gpu = 0; gpu < 16; ++gpu) {
    const auto port =
        std::ranges::find(found.ports, "to and from " + std::to_string(gpu), &Port::name);
    ASSERT_NE(port, found.ports.end()) << gpu;
    EXPECT_NEAR(port->capacity, 70e9, 1e9) << gpu;
    const LinkId to = found.find_link(kHost, kFirstDevice + gpu);
    EXPECT_EQ(links_at(found, static_cast<PortId>(port - found.ports.begin())),
              (std::vector<LinkId>{to, to + 1}));
  }
}

TEST(QuickProbeOfMany, SaysWhatItHadNoTimeFor) {
  class Slow final : public Disguise {
   public:
    using Disguise::Disguise;
    std::unique_ptr<Execution> begin(const Plan& plan, const Binding& binding,
                                     std::uint64_t serial) override {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return Disguise::begin(plan, binding, serial);
    }
  };
  Machine real = switched_node(16);
  for (Link& link : real.links)
    if (link.source == kFirstDevice + 3 && link.target != kHost) slow_down(link, 4);
  Slow slow(real, forgotten(real));
  Counting quick(real);

  Machine rough = probe(slow, 0.2);  // the first 20 runs spend half of it
  const Machine found = probe(quick, kBudgetS);

  EXPECT_NE(rough.source.find("15 links like 0->1 have rates from one short copy each"),
            std::string::npos)
      << rough.source;
  EXPECT_EQ(found.source,
            "measured by probe; ports that links of several devices share were not looked for; "
            "no port was loaded by more than 16 links");
  // A copy at a quarter of the others' rate but with equal latency takes less than four times as
  // long.
  EXPECT_GT(link_between(rough, 3, 4).bytes_per_s, 350e9 / 4);
  EXPECT_LT(link_between(rough, 3, 4).bytes_per_s, 350e9 / 2);
}

}  // namespace
}  // namespace fleet::test
