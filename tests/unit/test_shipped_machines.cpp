// SPDX-License-Identifier: BSD-3-Clause
// test_shipped_machines.cpp: the files in machines/ load, and their links and ports give the
// measured or published rates. It knows no plan.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "machine/machine.hpp"
#include "sim/fair_share.hpp"

namespace fleet {
namespace {

const std::string kFolder = FLEETBLAS_SOURCE_DIR "/machines";

enum class Way { into_gpus, out_of_gpus, both };

/// The rates of copies that run over these links at once.
std::vector<double> rates_together(const Machine& m, const std::vector<LinkId>& links) {
  FairShare share(m, static_cast<int>(links.size()));
  for (std::size_t f = 0; f < links.size(); ++f)
    share.start(static_cast<FlowId>(f),
                {.user = share.user_of_link(links[f]),
                 .amount = 1e9,
                 .cap = m.links[static_cast<std::size_t>(links[f])].bytes_per_s,
                 .chunk = 1e9},
                kNoFlow, 0);
  share.settle(0);
  std::vector<double> rates;
  for (std::size_t f = 0; f < links.size(); ++f)
    rates.push_back(share.rate(static_cast<FlowId>(f)));
  return rates;
}

std::vector<LinkId> host_links(const Machine& m, const std::vector<int>& gpus, Way way) {
  std::vector<LinkId> links;
  for (const int gpu : gpus) {
    if (way != Way::out_of_gpus) links.push_back(m.find_link(kHost, kFirstDevice + gpu));
    if (way != Way::into_gpus) links.push_back(m.find_link(kFirstDevice + gpu, kHost));
  }
  return links;
}

double gb_per_s(const std::vector<double>& rates) {
  return std::accumulate(rates.begin(), rates.end(), 0.0) / 1e9;
}

double host_sum(const Machine& m, const std::vector<int>& gpus, Way way) {
  return gb_per_s(rates_together(m, host_links(m, gpus, way)));
}

double peer_sum(const Machine& m, const std::vector<std::pair<int, int>>& pairs) {
  std::vector<LinkId> links;
  for (const auto& [from, to] : pairs)
    links.push_back(m.find_link(kFirstDevice + from, kFirstDevice + to));
  return gb_per_s(rates_together(m, links));
}

/// GB/s of one copy of a `tile` x `tile` tile of doubles on an idle machine.
double tile_gb_per_s(const Machine& m, DeviceId from, DeviceId to, std::int64_t tile) {
  const std::int64_t bytes = 8 * tile * tile;
  return static_cast<double>(bytes) / m.copy_s(m.find_link(from, to), bytes) / 1e9;
}

const std::vector<int> kAll8 = {0, 1, 2, 3, 4, 5, 6, 7};
const std::vector<int> kAll4 = {0, 1, 2, 3};

class Shipped : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Machines, Shipped,
                         testing::Values("h200x8", "h200x4", "karolina", "clx-ai", "dgx1"));

TEST_P(Shipped, LoadsByItsNameAndSurvivesItsOwnJson) {
  const Machine m = load_machine(GetParam(), kFolder);
  EXPECT_EQ(m.name, GetParam());
  EXPECT_NE(m.source, "");
  EXPECT_EQ(parse_machine(to_json(m)), m);
}

TEST_P(Shipped, LinksEveryPlaceAndRatesEveryType) {
  const Machine m = load_machine(GetParam(), kFolder);
  EXPECT_GE(m.find_link(kHost, kPageable), 0);
  EXPECT_GE(m.find_link(kPageable, kHost), 0);
  EXPECT_GT(m.issue_s, 0);
  for (DeviceId a = kFirstDevice; a < std::ssize(m.devices); ++a) {
    EXPECT_EQ(m.devices[static_cast<std::size_t>(a)].name, std::to_string(a - kFirstDevice));
    // The papers' machines have no rates of half types, which no paper uses.
    const std::size_t types = m.name.starts_with("h200") ? kDataTypes.size() : 4;
    for (const DataType type : std::span(kDataTypes).first(types))
      EXPECT_GT(m.best_rate(a, type), 0) << word_of(type);
    for (DeviceId b = 0; b < std::ssize(m.devices); ++b)
      EXPECT_EQ(m.find_link(a, b) >= 0, a != b && b != kPageable) << a << " -> " << b;
  }
}

TEST_P(Shipped, HasNoPortThatNoLinkTakes) {
  const Machine m = load_machine(GetParam(), kFolder);
  for (PortId p = 0; p < std::ssize(m.ports); ++p) {
    const auto takes = [p](const Link& link) {
      return std::ranges::any_of(link.ports, [p](const PortShare& s) { return s.port == p; });
    };
    EXPECT_TRUE(std::ranges::any_of(m.links, takes)) << m.ports[static_cast<std::size_t>(p)].name;
  }
}

struct HostSum {
  std::vector<int> gpus;
  Way way;
  double measured_gb_per_s;
};

// h200x8-probe and h200x8-contention of 2026-11-21.
TEST(H200x8, GivesTheMeasuredSumsOfHostLinksWithin9Percent) {
  const Machine m = load_machine("h200x8", kFolder);
  const std::vector<HostSum> sums = {{kAll8, Way::into_gpus, 163.2},
                                     {kAll8, Way::out_of_gpus, 91.8},
                                     {kAll8, Way::both, 121.3},
                                     {{0, 1, 2, 3}, Way::into_gpus, 98.8},
                                     {{0, 1, 2, 3}, Way::out_of_gpus, 65.6},
                                     {{0, 1, 2, 3}, Way::both, 94.0},
                                     {{4, 5, 6, 7}, Way::into_gpus, 163},
                                     {{0, 2, 4, 6}, Way::into_gpus, 155},
                                     {{0, 1, 4, 5}, Way::into_gpus, 156},
                                     {{0, 1}, Way::into_gpus, 109.4},
                                     {{0, 4}, Way::into_gpus, 109.4},
                                     {{0, 6}, Way::into_gpus, 104.3},
                                     {{0, 1}, Way::out_of_gpus, 71.9},
                                     {{0, 1}, Way::both, 101.5},
                                     {{0}, Way::into_gpus, 55.4},
                                     {{0}, Way::out_of_gpus, 55.2},
                                     {{0}, Way::both, 101.6},
                                     {{4}, Way::both, 101.4}};
  for (const auto& [gpus, way, measured] : sums)
    EXPECT_NEAR(host_sum(m, gpus, way) / measured, 1, 0.09)
        << gpus.size() << " GPUs from " << gpus[0] << ", way " << static_cast<int>(way);
}

TEST(H200x8, GivesTheMeasuredCopiesOfTiles) {
  const Machine m = load_machine("h200x8", kFolder);
  const DeviceId a = kFirstDevice, b = kFirstDevice + 1;
  EXPECT_NEAR(tile_gb_per_s(m, a, b, 512) / 125.0, 1, 0.03);
  EXPECT_NEAR(tile_gb_per_s(m, a, b, 1024) / 256.1, 1, 0.03);
  EXPECT_NEAR(tile_gb_per_s(m, a, b, 2048) / 342.7, 1, 0.03);
  EXPECT_NEAR(tile_gb_per_s(m, a, b, 4096) / 381.8, 1, 0.03);
  EXPECT_NEAR(tile_gb_per_s(m, kHost, a, 512) / 32.6, 1, 0.12);
  EXPECT_NEAR(tile_gb_per_s(m, kHost, a, 1024) / 48.6, 1, 0.12);
  EXPECT_NEAR(tile_gb_per_s(m, kHost, a, 2048) / 48.4, 1, 0.12);
  EXPECT_NEAR(tile_gb_per_s(m, kHost, a, 4096) / 55.0, 1, 0.12);
}

TEST(H200x8, GivesTheMeasuredSumsBetweenGpus) {
  const Machine m = load_machine("h200x8", kFolder);
  std::vector<std::pair<int, int>> fan_out, fan_in, ring, all;
  for (int a = 0; a < 8; ++a) {
    ring.emplace_back(a, (a + 1) % 8);
    for (int b = 0; b < 8; ++b) {
      if (a == b) continue;
      all.emplace_back(a, b);
      if (a == 0) fan_out.emplace_back(a, b);
      if (b == 0) fan_in.emplace_back(a, b);
    }
  }
  EXPECT_NEAR(peer_sum(m, fan_out) / 395.1, 1, 0.01);
  EXPECT_NEAR(peer_sum(m, fan_in) / 398.2, 1, 0.01);
  EXPECT_NEAR(peer_sum(m, ring) / 3012, 1, 0.04);
  EXPECT_NEAR(peer_sum(m, all) / 2942, 1, 0.08);
}

// h200x8-probe, all eight busy.
TEST(H200x8, GivesTheMeasuredRatesOfKernels) {
  const Machine m = load_machine("h200x8", kFolder);
  const auto tflops = [&](DataType type, double edge) {
    return m.rate(kFirstDevice + 7, type, edge, edge, edge) / 1e12;
  };
  EXPECT_NEAR(tflops(DataType::f64, 2048), 57.5, 1e-9);
  EXPECT_NEAR(tflops(DataType::f64, 8192), 52.8, 1e-9);
  EXPECT_NEAR(tflops(DataType::f64, 16384), 56.4, 1e-9);
  EXPECT_NEAR(tflops(DataType::f32, 4096), 50.5, 1e-9);
  EXPECT_NEAR(tflops(DataType::f32, 16384), 51.7, 1e-9);
}

// h200x4-probe of 2026-11-21.
TEST(H200x4, GivesTheMeasuredSumsOfHostLinksWithin2Percent) {
  const Machine m = load_machine("h200x4", kFolder);
  const std::vector<HostSum> sums = {
      {kAll4, Way::into_gpus, 139.7},    {kAll4, Way::out_of_gpus, 126.1},
      {kAll4, Way::both, 154.9},         {{0, 1}, Way::into_gpus, 105.4},
      {{0, 2}, Way::into_gpus, 105.7},   {{0, 3}, Way::into_gpus, 103.7},
      {{0, 1}, Way::out_of_gpus, 104.7}, {{0, 1}, Way::both, 132.9}};
  for (const auto& [gpus, way, measured] : sums)
    EXPECT_NEAR(host_sum(m, gpus, way) / measured, 1, 0.02) << gpus.size() << " GPUs";
}

TEST(H200x4, ComputesWhatTheFourComputedTogether) {
  const Machine m = load_machine("h200x4", kFolder);
  EXPECT_DOUBLE_EQ(4 * m.best_rate(kFirstDevice, DataType::f64), 224e12);
  EXPECT_DOUBLE_EQ(4 * m.best_rate(kFirstDevice, DataType::f32), 205e12);
}

// Uncut-GEMMs, table I and IV-A.
TEST(Karolina, SharesTheHostInPairsAndInAll) {
  const Machine m = load_machine("karolina", kFolder);
  EXPECT_NEAR(host_sum(m, kAll8, Way::into_gpus), 96, 1e-6);
  EXPECT_NEAR(host_sum(m, {0, 2, 4, 6}, Way::into_gpus), 96, 1e-6);
  EXPECT_NEAR(host_sum(m, kAll8, Way::both), 96, 1e-6);
  EXPECT_NEAR(host_sum(m, {0, 1}, Way::into_gpus), 24, 1e-6);
  EXPECT_NEAR(host_sum(m, {0, 2}, Way::into_gpus), 48, 1e-6);
}

TEST(Karolina, MovesWhatNvlinkMovesAndComputesBelowThePeak) {
  const Machine m = load_machine("karolina", kFolder);
  EXPECT_NEAR(peer_sum(m, {{0, 1}, {1, 0}}), 600, 1e-6);
  EXPECT_NEAR(peer_sum(m, {{0, 1}, {0, 2}}), 300, 1e-6);
  for (const DataType type : {DataType::f32, DataType::f64}) {
    EXPECT_LE(m.best_rate(kFirstDevice, type), 17.2e12);
    EXPECT_GE(m.best_rate(kFirstDevice, type), 0.95 * 17.2e12);
  }
}

// PARALiA, 4.1 and 4.3.1.
TEST(ClxAi, HasThePrintedKindsOfLinks) {
  const Machine m = load_machine("clx-ai", kFolder);
  EXPECT_NEAR(host_sum(m, {0}, Way::into_gpus), 12, 1e-6);
  EXPECT_NEAR(host_sum(m, {0, 1}, Way::into_gpus), 12, 1e-6);
  EXPECT_NEAR(host_sum(m, {1, 2}, Way::into_gpus), 24, 1e-6);
  int slow = 0, one = 0, two = 0;
  for (const Link& link : m.links) {
    if (on_host(link.source) || on_host(link.target)) continue;
    slow += link.bytes_per_s < 6e9;
    one += link.bytes_per_s == 24e9;
    two += link.bytes_per_s == 48e9;
  }
  EXPECT_EQ(slow, 8 * 3);
  EXPECT_EQ(one, 8 * 2);
  EXPECT_EQ(two, 8 * 2);
  EXPECT_LE(m.best_rate(kFirstDevice, DataType::f64), 7e12);
  EXPECT_LE(m.best_rate(kFirstDevice, DataType::f32), 14e12);
}

// XKBlas heuristics, Fig. 2: GB/s of both directions together.
TEST(Dgx1, MovesWhatFigure2PrintsInBothDirectionsTogether) {
  const Machine m = load_machine("dgx1", kFolder);
  const auto both = [&](int a, int b) { return peer_sum(m, {{a, b}, {b, a}}); };
  EXPECT_NEAR(both(0, 1), 48.4, 0.1);
  EXPECT_NEAR(both(0, 3), 96.4, 0.2);
  EXPECT_NEAR(both(0, 4), 96.45, 0.2);
  EXPECT_NEAR(both(1, 5), 96.43, 0.2);
  EXPECT_NEAR(both(0, 5), 17.0, 0.2);
  EXPECT_NEAR(both(3, 6), 17.55, 0.2);
  EXPECT_NEAR(both(6, 7), 96.4, 0.2);
}

TEST(ShippedMachines, SendInTurnWhereGpusHangOnASwitch) {
  for (const char* name : {"h200x4", "h200x8", "karolina"}) {
    const std::vector<char> in_turn = load_machine(name, kFolder).sends_in_turn();
    EXPECT_TRUE(std::all_of(in_turn.begin() + kFirstDevice, in_turn.end(), [](char device) {
      return device != 0;
    })) << name;
  }
  for (const char* name : {"dgx1", "ac922", "charisma-4v100", "gh200"})
    EXPECT_EQ(std::ranges::count(load_machine(name, kFolder).sends_in_turn(), 1), 0) << name;
}

TEST(Dgx1, HoldsItsBestPublishedResult) {
  const Machine m = load_machine("dgx1", kFolder);
  const double all = 8 * m.best_rate(kFirstDevice, DataType::f64);
  EXPECT_GE(all, 56.9e12);
  EXPECT_LE(all, 62.4e12);
  // TRSM and GEMM in tiles of 2048, transfers included.
  EXPECT_GE(
      8 * 2.0 * 2048 * 2048 * 2048 / m.multiply_s(kFirstDevice, DataType::f64, 2048, 2048, 2048),
      56.6e12);
}

}  // namespace
}  // namespace fleet
