// SPDX-License-Identifier: BSD-3-Clause
// test_probe_staging.cpp: what copies between pageable and pinned memory take of the host's memory,
// as machines say it and as a probe finds it by a run through the ring.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/error.hpp"
#include "probe/link_sets.hpp"
#include "probe/probe.hpp"
#include "probe/staging.hpp"
#include "support/probe_nodes.hpp"
#include "support/shipped.hpp"

namespace fleet::test {
namespace {

constexpr double kBudgetS = 60;  // simulated runs take no time; machines under test may be busy

/// Units of the host's memory that a byte over this link takes.
double weight_at(const Machine& machine, DeviceId from, DeviceId to) {
  double weight = 0;
  for (const PortShare& share :
       machine.links[static_cast<std::size_t>(machine.find_link(from, to))].ports)
    if (machine.ports[static_cast<std::size_t>(share.port)].name == "host memory")
      weight += share.weight;
  return weight;
}

TEST(Staging, TakesHostMemoryBesideTheThreadsThatCopy) {
  Machine machine = shipped("h200x4");

  charge_staging(machine, 2);
  EXPECT_EQ(weight_at(machine, kPageable, kHost), 2);
  EXPECT_EQ(weight_at(machine, kHost, kPageable), 2);
  const Machine once = machine;
  charge_staging(machine, 2);
  EXPECT_EQ(machine, once);

  // A copy by itself has the rate that was measured.
  const auto into_ring = static_cast<std::size_t>(machine.find_link(kPageable, kHost));
  machine.links[into_ring].bytes_per_s = 140e9;
  charge_staging(machine, 2);
  EXPECT_NEAR(weight_at(machine, kPageable, kHost), 154.9 / 140, 1e-9);

  charge_staging(machine, 0);
  EXPECT_EQ(weight_at(machine, kPageable, kHost), 0);
  EXPECT_EQ(weight_at(machine, kHost, kFirstDevice),
            weight_at(shipped("h200x4"), kHost, kFirstDevice));
}

TEST(Staging, TakesWhatARunThroughTheRingShows) {
  const auto found_units = [](const Machine& real, double said_units) {
    Machine said = real;
    charge_staging(said, said_units);
    Disguise backend(real, said);
    const Machine found = probe(backend, kBudgetS);
    EXPECT_EQ(backend.conflict, "");
    EXPECT_EQ(weight_at(found, kPageable, kHost), weight_at(found, kHost, kPageable));
    return weight_at(found, kPageable, kHost);
  };
  for (const std::vector<int>& gpus : {std::vector{0}, {0, 1, 2}, {0, 1, 2, 3}}) {
    Machine real = sub_machine(shipped("h200x4"), gpus);
    // Full with one GPU too.
    for (Port& port : real.ports)
      if (port.name == "host memory") port.capacity = 100e9;
    for (const double units : {0.0, 1.5, 2.2})
      for (const double said : {0.0, 2.0}) {
        charge_staging(real, units);
        const double actual = weight_at(real, kPageable, kHost);
        EXPECT_NEAR(found_units(real, said), actual, 0.05) << gpus.size() << " GPUs";
      }
  }
}

/// Then what the machine says stays.
TEST(Staging, IsChargedAsSaidWhereTheMemoryIsNeverFull) {
  const Machine real = shipped("h200x4");
  Disguise backend(real, real);

  const Machine found = probe(backend, kBudgetS);

  EXPECT_EQ(weight_at(found, kPageable, kHost), weight_at(real, kPageable, kHost));
}

/// Has no memory for plans that stage tiles for devices.
class Cramped final : public Disguise {
 public:
  using Disguise::Disguise;
  std::unique_ptr<Execution> begin(const Plan& plan, const Binding& binding,
                                   std::uint64_t serial) override {
    const auto has = [&](auto joins) {
      return std::ranges::any_of(plan.tasks, [&](const Task& task) {
        return task.link >= 0 && joins(machine().links[static_cast<std::size_t>(task.link)]);
      });
    };
    if (has([](const Link& link) { return link.source == kPageable; }) && has(joins_host))
      throw Error(Status::no_memory, "cramped");
    return Disguise::begin(plan, binding, serial);
  }
};

TEST(Staging, IsChargedAsSaidWhereNoRunShowsIt) {
  Machine real = shipped("h200x4");
  charge_staging(real, 2);
  Machine said = real;
  charge_staging(said, 1.5);
  Cramped backend(real, said);

  EXPECT_EQ(weight_at(probe(backend, kBudgetS), kPageable, kHost), 1.5);
}

}  // namespace
}  // namespace fleet::test
