// SPDX-License-Identifier: BSD-3-Clause
// test_machine.cpp: look-ups in machines, and machines of fewer devices.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "machine/machine.hpp"
#include "support/random_plans.hpp"
#include "support/refusal.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using test::between;
using test::chance;
using test::refusal;
using Random = test::Generator;

// --- look-ups -----------------------------------------------------------------------------------

/// One GPU with a table: 1, 3 and 5 TFLOPS at 256, 1024 and 2048, FP64 only.
Machine with_table() {
  Machine m = test::node(1);
  m.devices[kHost].kernels.clear();
  m.devices[kFirstDevice].launch_s = 1e-5;
  m.devices[kFirstDevice].memory_bytes_per_s = 1e12;
  m.devices[kFirstDevice].kernels = {
      {DataType::f64, 256, 1e12}, {DataType::f64, 1024, 3e12}, {DataType::f64, 2048, 5e12}};
  return m;
}

double rate_of_cube(const Machine& m, double edge) {
  return m.rate(kFirstDevice, DataType::f64, edge, edge, edge);
}

TEST(Rate, IsTheTablesAtItsEdges) {
  const Machine m = with_table();
  EXPECT_DOUBLE_EQ(rate_of_cube(m, 256), 1e12);
  EXPECT_DOUBLE_EQ(rate_of_cube(m, 1024), 3e12);
  EXPECT_DOUBLE_EQ(rate_of_cube(m, 2048), 5e12);
}

TEST(Rate, IsLinearInTheLogarithmOfTheEdge) {
  const Machine m = with_table();
  EXPECT_DOUBLE_EQ(rate_of_cube(m, 512), 2e12);  // one of two doublings from 1 to 3
  EXPECT_NEAR(rate_of_cube(m, 1024 * std::sqrt(2.0)), 4e12, 1e3);
}

TEST(Rate, IsConstantBeyondTheTable) {
  const Machine m = with_table();
  EXPECT_EQ(rate_of_cube(m, 1), 1e12);
  EXPECT_EQ(rate_of_cube(m, 1e6), 5e12);
}

TEST(Rate, DependsOnTheVolumeOfTheProductOnly) {
  const Machine m = with_table();
  EXPECT_DOUBLE_EQ(m.rate(kFirstDevice, DataType::f64, 4096, 2048, 128), 3e12);  // 1024 cubed
}

TEST(Rate, IsZeroForATypeThatTheDeviceCannotCompute) {
  const Machine m = with_table();
  EXPECT_EQ(m.rate(kFirstDevice, DataType::f32, 64, 64, 64), 0);
  EXPECT_EQ(m.best_rate(kFirstDevice, DataType::f32), 0);
  EXPECT_FALSE(m.can_compute(kFirstDevice, DataType::f32));
  EXPECT_FALSE(m.can_compute(kHost, DataType::f64));
  EXPECT_TRUE(m.can_compute(kFirstDevice, DataType::f64));
  EXPECT_EQ(m.best_rate(kFirstDevice, DataType::f64), 5e12);
}

TEST(Rate, OfTf32IsThatOfF32WhereTheTableHasNone) {
  Machine m = with_table();
  EXPECT_FALSE(m.can_compute(kFirstDevice, DataType::tf32));
  m.devices[kFirstDevice].kernels.push_back({DataType::f32, 512, 7e12});
  EXPECT_EQ(m.rate(kFirstDevice, DataType::tf32, 64, 64, 64), 7e12);
  EXPECT_EQ(m.best_rate(kFirstDevice, DataType::tf32), 7e12);

  m.devices[kFirstDevice].kernels.push_back({DataType::tf32, 512, 9e12});
  EXPECT_EQ(m.rate(kFirstDevice, DataType::tf32, 64, 64, 64), 9e12);
  EXPECT_EQ(m.best_rate(kFirstDevice, DataType::f32), 7e12);
}

TEST(Rate, OfHalfTypesIsThatOfF32OnTheHostOnly) {
  Machine m = with_table();
  m.devices[kFirstDevice].kernels.push_back({DataType::f32, 512, 7e12});
  m.devices[kHost].kernels.push_back({DataType::f32, 512, 1e12});
  for (const DataType type : {DataType::f16, DataType::bf16}) {
    EXPECT_EQ(m.best_rate(kHost, type), 1e12);
    EXPECT_FALSE(m.can_compute(kFirstDevice, type));
  }
}

TEST(KernelSeconds, AreLaunchAndArithmetic) {
  Machine m = with_table();
  const double products = 1024.0 * 1024 * 1024;
  EXPECT_DOUBLE_EQ(m.multiply_s(kFirstDevice, DataType::f64, 1024, 1024, 1024),
                   1e-5 + 2 * products / 3e12);
  EXPECT_EQ(m.multiply_s(kFirstDevice, DataType::f64, 1024, 1024, 0), 1e-5);

  for (KernelRate& kernel : m.devices[kFirstDevice].kernels) kernel.type = DataType::c64;
  EXPECT_DOUBLE_EQ(m.multiply_s(kFirstDevice, DataType::c64, 1024, 1024, 1024),
                   1e-5 + 8 * products / 3e12);
}

TEST(KernelSeconds, AreLaunchAndMemoryWhereOnlyBytesStream) {
  Machine m = with_table();
  EXPECT_DOUBLE_EQ(m.stream_s(kFirstDevice, 1'000'000), 1.1e-5);
  m.devices[kFirstDevice].memory_bytes_per_s = 0;  // unknown
  EXPECT_EQ(m.stream_s(kFirstDevice, 1'000'000), 1e-5);
}

TEST(CopySeconds, AreLatencyAndBytes) {
  const Machine m = test::node(2);
  EXPECT_DOUBLE_EQ(m.copy_s(m.find_link(kHost, kFirstDevice), 50'000'000), 1e-5 + 1e-3);
}

TEST(LinkTable, AgreesWithFindLinkForEveryPair) {
  Random random(1);
  for (int trial = 0; trial < test::scaled(200); ++trial) {
    Machine m = test::uneven_node(random, static_cast<int>(between(random, 1, 8)));
    std::shuffle(m.links.begin(), m.links.end(), random);
    if (chance(random, 50)) m.links.push_back(m.links.front());  // the lower id counts
    const LinkTable table(m);
    for (DeviceId a = 0; a < std::ssize(m.devices); ++a)
      for (DeviceId b = 0; b < std::ssize(m.devices); ++b)
        ASSERT_EQ(table.at(a, b), m.find_link(a, b));
    const Link& last = m.links.back();
    ASSERT_GE(table.at(last.source, last.target), 0);
  }
}

/// Three GPUs; a link takes `share` of the port that all links out of its source pass.
Machine with_ways_out(double share) {
  Machine m = test::node(3);
  m.links.clear();
  m.ports.clear();
  for (DeviceId from = kFirstDevice; from < std::ssize(m.devices); ++from) {
    m.ports.push_back({.name = "out of " + std::to_string(from), .capacity = 100e9});
    for (DeviceId to = kFirstDevice; to < std::ssize(m.devices); ++to)
      if (from != to)
        m.links.push_back({.source = from,
                           .target = to,
                           .bytes_per_s = 100e9 * share,
                           .ports = {{static_cast<PortId>(from - kFirstDevice), 1}}});
  }
  return m;
}

TEST(SendsInTurn, WhereOneCopyTakesMostOfThePortOfAll) {
  const std::vector<char> all = {0, 0, 1, 1, 1}, none(5, 0);
  EXPECT_EQ(with_ways_out(1).sends_in_turn(), all);
  EXPECT_EQ(with_ways_out(0.7).sends_in_turn(), all);
  EXPECT_EQ(with_ways_out(0.5).sends_in_turn(), none);
}

TEST(SendsInTurn, NotWhereALinkHasAPortOfItsOwn) {
  Machine m = with_ways_out(1);
  m.ports.push_back({.name = "another", .capacity = 100e9});
  m.links.front().ports = {{static_cast<PortId>(m.ports.size() - 1), 1}};
  EXPECT_EQ(m.sends_in_turn(), (std::vector<char>{0, 0, 0, 1, 1}));
}

TEST(SendsInTurn, WhateverRunsHaveTaught) {
  Machine m = with_ways_out(1);
  const std::vector<char> before = m.sends_in_turn();
  for (Link& link : m.links) {
    link.measured = link.bytes_per_s;
    link.bytes_per_s /= 4;
  }
  EXPECT_EQ(m.sends_in_turn(), before);
}

TEST(SendsInTurn, ToASingleDeviceToo) {
  Machine m = with_ways_out(1);
  std::erase_if(m.links, [](const Link& link) { return link.target == kFirstDevice + 2; });
  EXPECT_EQ(m.sends_in_turn(), (std::vector<char>{0, 0, 1, 1, 1}));
  for (Link& link : m.links)
    if (link.source == kFirstDevice) link.ports.clear();
  EXPECT_EQ(m.sends_in_turn(), (std::vector<char>{0, 0, 0, 1, 1}));
}

// A device that copies with a thread, or on a core that all share, sends as this has time.
TEST(SendsInTurn, NotWhereCopiesShareACore) {
  Machine m = with_ways_out(1);
  for (Port& port : m.ports) port.capacity = 1;
  for (Link& link : m.links) link.ports.front().weight = 1 / link.bytes_per_s;
  EXPECT_EQ(m.sends_in_turn(), std::vector<char>(5, 0));
}

// --- machines of fewer devices ------------------------------------------------------------------

TEST(SubMachine, RenumbersDevicesInTheGivenOrder) {
  Machine whole = test::node(4);
  whole.devices[kFirstDevice + 3].launch_s = 9e-6;
  const Machine part = sub_machine(whole, {3, 1});

  ASSERT_EQ(part.device_count(), 2);
  EXPECT_EQ(part.devices[kFirstDevice].name, "3");
  EXPECT_EQ(part.devices[kFirstDevice].launch_s, 9e-6);
  EXPECT_EQ(part.devices[kFirstDevice + 1].name, "1");
  EXPECT_EQ(part.ports, whole.ports);
  EXPECT_EQ(part.issue_s, whole.issue_s);
  EXPECT_EQ(part.name, whole.name);
  EXPECT_EQ(part.source, whole.source);
  EXPECT_EQ(part.links.size(), 2u + 2 * 2 + 2);  // pageable, host, the one pair
  const LinkId link = part.find_link(kFirstDevice, kFirstDevice + 1);
  ASSERT_GE(link, 0);
  EXPECT_EQ(
      part.ports[static_cast<std::size_t>(part.links[static_cast<std::size_t>(link)].ports[0].port)]
          .name,
      "out of 3");
}

TEST(SubMachine, OfAllDevicesIsTheMachine) {
  const Machine whole = test::node(3);
  EXPECT_EQ(sub_machine(whole, {0, 1, 2}), whole);
}

TEST(SubMachine, MayHaveNoDevice) {
  const Machine part = sub_machine(test::node(3), {});
  EXPECT_EQ(part.device_count(), 0);
  EXPECT_EQ(part.links.size(), 2u);
}

TEST(SubMachine, RefusesDevicesThatAreNotThereOrTwice) {
  const Machine m = test::node(2);
  const auto of = [&](std::vector<int> ids) {
    return refusal(Status::bad_argument, [&] { sub_machine(m, ids); });
  };
  EXPECT_EQ(of({2}), "device 2 does not exist: the machine has 2 devices, counted from 0");
  EXPECT_EQ(of({-1}), "device -1 does not exist: the machine has 2 devices, counted from 0");
  EXPECT_EQ(of({1, 0, 1}), "device 1 is named twice");
}

}  // namespace
}  // namespace fleet
