// SPDX-License-Identifier: BSD-3-Clause
// test_corrections.cpp: machines whose rates runs have corrected, and what plans are made for.
#include <gtest/gtest.h>

#include <vector>

#include "base/error.hpp"
#include "machine/corrections.hpp"
#include "sim/simulate.hpp"
#include "support/shipped.hpp"
#include "tune/tune.hpp"
#include "tune/tune_program.hpp"

namespace fleet {
namespace {

using test::shipped;
using Kind = RateId::Kind;

Problem gemm(std::int64_t m, std::int64_t n, std::int64_t k, DeviceId home = kHost) {
  return make_problem({.m = m, .n = n, .k = k}, {.homes = {home, home, home}});
}

TEST(Corrected, ChangesTheNamedRateOnlyAndSaysByHowMuch) {
  const Machine machine = shipped("h200x4");
  const LinkId link = machine.find_link(kHost, kFirstDevice);
  const std::vector<Correction> changes = {{{Kind::products, kFirstDevice, DataType::f64}, 0.5},
                                           {{Kind::streams, kFirstDevice + 1}, 2},
                                           {{Kind::link, link}, 0.75},
                                           {{Kind::port, 0}, 1.25}};

  const Machine changed = corrected(machine, changes);

  const std::vector<Correction> found = corrections_of(changed);
  ASSERT_EQ(found.size(), changes.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].rate, changes[i].rate);
    EXPECT_NEAR(found[i].factor, changes[i].factor, 1e-12);
  }
  EXPECT_EQ(uncorrected(changed), machine);
  EXPECT_EQ(changed.best_rate(kFirstDevice, DataType::f64),
            machine.best_rate(kFirstDevice, DataType::f64) / 2);
  EXPECT_EQ(changed.best_rate(kFirstDevice, DataType::f32),
            machine.best_rate(kFirstDevice, DataType::f32));
  EXPECT_EQ(changed.best_rate(kFirstDevice + 1, DataType::f64),
            machine.best_rate(kFirstDevice + 1, DataType::f64));
  EXPECT_EQ(changed.devices[kFirstDevice + 1].memory_bytes_per_s,
            machine.devices[kFirstDevice + 1].memory_bytes_per_s * 2);
  EXPECT_EQ(changed.links[static_cast<std::size_t>(link)].bytes_per_s,
            machine.links[static_cast<std::size_t>(link)].bytes_per_s * 0.75);
  EXPECT_EQ(changed.ports[0].capacity, machine.ports[0].capacity * 1.25);
  EXPECT_EQ(rate_name(machine, changes[0].rate), "products d of device 0");
  EXPECT_EQ(rate_name(machine, changes[2].rate), "link host->0");
  EXPECT_EQ(corrections_of(machine).size(), 0u);
}

TEST(AtBest, HasEachRateAsMeasuredOrFaster) {
  const Machine machine = shipped("h200x4");
  const LinkId link = machine.find_link(kHost, kFirstDevice);
  const std::vector<Correction> down = {{{Kind::products, kFirstDevice, DataType::f64}, 0.5},
                                        {{Kind::port, 0}, 0.8}};
  const std::vector<Correction> up = {{{Kind::link, link}, 1.25}};

  EXPECT_EQ(at_best(machine), machine);
  EXPECT_EQ(at_best(corrected(machine, down)), machine);
  EXPECT_EQ(at_best(corrected(corrected(machine, down), up)), corrected(machine, up));
}

class ForPlans : public testing::Test {
 protected:
  static std::vector<Correction> kept(const std::vector<Correction>& learnt) {
    return corrections_of(for_plans(corrected(machine(), learnt)));
  }
  static Machine machine() { return shipped("h200x4"); }
  static RateId products(int gpu, DataType type = DataType::f64) {
    return {Kind::products, kFirstDevice + gpu, type};
  }
  static RateId link(DeviceId from, DeviceId to) {
    return {Kind::link, machine().find_link(from, to)};
  }
  static std::vector<Correction> all(const std::vector<RateId>& rates, double factor) {
    std::vector<Correction> changes;
    for (const RateId& rate : rates) changes.push_back({rate, factor});
    return changes;
  }
};

TEST_F(ForPlans, HasADeviceOrALinkThatDiffersFromItsLike) {
  const std::vector<Correction> slow = {{products(0), 0.5}};
  const std::vector<Correction> apart = {{products(0), 0.75}, {products(1), 1.2}};
  const std::vector<Correction> far = {{link(kHost, kFirstDevice + 2), 0.6}};

  EXPECT_EQ(kept(slow).size(), 1u);
  EXPECT_EQ(kept(apart).size(), 2u);
  EXPECT_EQ(kept(far).size(), 1u);
}

TEST_F(ForPlans, HasWhatAllOfAKindHaveBecome) {
  const std::vector<RateId> devices = {products(0), products(1), products(2), products(3)};

  EXPECT_EQ(kept(all(devices, 0.6)).size(), 4u);
  EXPECT_TRUE(kept(all(devices, 0.8)).empty());
}

TEST_F(ForPlans, DoesNotTakeOneKindForAnother) {
  const std::vector<Correction> learnt = {{products(0), 0.7},
                                          {products(1, DataType::f32), 1.2},
                                          {link(kHost, kFirstDevice), 1.25},
                                          {link(kFirstDevice, kHost), 0.7},
                                          {{Kind::streams, kFirstDevice}, 0.7},
                                          {{Kind::products, kHost}, 1.3}};

  EXPECT_TRUE(kept(learnt).empty());
}

TEST_F(ForPlans, HasNothingThatHoldsForOnePatternOfCopies) {
  const std::vector<Correction> learnt = {
      {link(kFirstDevice, kFirstDevice + 1), 0.25}, {{Kind::port, 0}, 0.25}, {{Kind::port, 5}, 3}};

  EXPECT_TRUE(kept(learnt).empty());
  EXPECT_EQ(for_plans(corrected(machine(), learnt)), machine());
}

TEST_F(ForPlans, HasWhatTheHostReachesBesideDevices) {
  EXPECT_EQ(kept({{{Kind::beside, kHost}, 0.9}}).size(), 1u);
}

TEST_F(ForPlans, ArePlansWithPredictionsByAllThatWasLearnt) {
  std::vector<Correction> learnt = all({products(0), products(1), products(2), products(3)}, 0.8);
  learnt.push_back({{Kind::port, 0}, 0.7});
  const Machine changed = corrected(machine(), learnt);
  const Problem problem = gemm(16384, 16384, 16384, kFirstDevice);

  const Tuned before = tune(problem, machine(), {});
  const Tuned after = tune(problem, changed, {});

  EXPECT_EQ(after.plan, before.plan);
  EXPECT_EQ(after.cost.seconds, simulate(before.plan, changed).seconds);
  EXPECT_GT(after.cost.seconds, 1.1 * before.cost.seconds);
}

// Queued calls promise bits that do not depend on when they are made.
TEST(Corrected, HasTheSameRegularTiles) {
  for (const char* name : {"h200x4", "h200x8", "charisma-4v100"})
    for (const Storage storage : {Storage::f32, Storage::f64, Storage::c32, Storage::c64}) {
      const Machine machine = shipped(name);
      const auto least = regular_tiles(machine, storage, 0).least;
      for (const double factor : {0.25, 0.5, 0.8, 1.25, 2.0, 4.0}) {
        const Correction change{{Kind::products, kFirstDevice, {.storage = storage}}, factor};
        EXPECT_EQ(regular_tiles(corrected(machine, {&change, 1}), storage, 0).least, least)
            << name << " " << factor;
      }
    }
}

TEST(Corrected, StaysWithinFourTimesTheMeasurement) {
  Machine machine = shipped("h200x4");
  const double measured = machine.best_rate(kFirstDevice, DataType::f64);
  const Correction slower_by_two{{Kind::products, kFirstDevice, DataType::f64}, 0.5};

  for (int time = 0; time < 5; ++time) machine = corrected(machine, {&slower_by_two, 1});

  EXPECT_EQ(machine.best_rate(kFirstDevice, DataType::f64), measured / kMostCorrection);
  EXPECT_EQ(corrections_of(machine).front().factor, 1 / kMostCorrection);
}

TEST(Corrected, IsAMachineFileFromWhichTheSamePlanComes) {
  const std::vector<Correction> changes = {
      {{Kind::beside, kHost}, 0.6},
      {{Kind::products, kFirstDevice, DataType::f64}, 1 / 3.0},
      {{Kind::streams, kFirstDevice + 1}, 0.7},
      {{Kind::link, shipped("h200x4").find_link(kHost, kFirstDevice)}, 0.9},
      {{Kind::port, 2}, 1.1}};
  const Machine changed = corrected(shipped("h200x4"), changes);

  const Machine read = parse_machine(to_json(changed));

  EXPECT_EQ(read, changed);
  const Problem problem = gemm(8192, 8192, 8192);
  EXPECT_EQ(tune(problem, read, {}).plan, tune(problem, changed, {}).plan);
  EXPECT_NE(tune(problem, read, {}).plan, tune(problem, shipped("h200x4"), {}).plan);
  EXPECT_THROW(parse_machine(R"({"schema": 2, "name": "", "source": "",
                                 "ports": [{"name": "p", "capacity": 1, "measured": 0}]})"),
               Error);
}

TEST(Evened, KeepsDevicesAlikeThatAreOffByAboutAsMuch) {
  const Machine machine = shipped("h200x4");
  std::vector<Correction> found;
  for (const double factor : {0.5, 0.51, 0.8, 0.505})
    found.push_back(
        {{Kind::products, kFirstDevice + static_cast<int>(found.size()), DataType::f64}, factor});

  const std::vector<Correction> even = evened(machine, found);

  EXPECT_EQ(even[0].factor, even[1].factor);
  EXPECT_EQ(even[0].factor, even[3].factor);
  EXPECT_NEAR(even[0].factor, 0.505, 1e-3);
  EXPECT_EQ(even[2].factor, 0.8);
}

}  // namespace
}  // namespace fleet
