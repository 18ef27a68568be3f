// SPDX-License-Identifier: BSD-3-Clause
// test_watts.cpp: the power of devices by what they do, from counters that a test keeps.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "backend/sim/backend.hpp"
#include "base/clock.hpp"
#include "probe/host_energy.hpp"
#include "probe/probe.hpp"
#include "probe/watts.hpp"
#include "support/random_plans.hpp"
#include "support/wrapped_backend.hpp"

namespace fleet {
namespace {

constexpr Watts kTrue{
    .idle = 50, .wait = 80, .copy = 120, .exchange = 200, .stream = 400, .multiply = 700};
constexpr double kPeriodS = 0.02;

/// A simulated backend whose devices draw watts by the last plan that was begun, as counters that
/// advance every 20 ms show. Device 1 draws `more` times as much.
class Metered final : public test::WrappedBackend {
 public:
  explicit Metered(const Machine& machine, double more = 1)
      : WrappedBackend(make_sim_backend(machine)), more_(more) {}

  std::unique_ptr<Execution> begin(const Plan& plan, const Binding& binding,
                                   std::uint64_t serial) override {
    draw(watts_of(plan));
    return WrappedBackend::begin(plan, binding, serial);
  }
  std::optional<double> joules(DeviceId device) override {
    const std::lock_guard lock(mutex_);
    if (stands_still) return 1;
    if (now_s() - shown_s_ > kPeriodS) {
      joules_ += watts_ * (now_s() - since_s_);
      since_s_ = shown_s_ = now_s();
      shown_ = joules_;
    }
    return shown_ * (device == kFirstDevice + 1 ? more_ : 1);
  }
  std::atomic<bool> stands_still = false;

 private:
  double watts_of(const Plan& plan) const {
    constexpr std::int64_t kTiny = 16;
    const Task& last = plan.tasks.back();  // a kernel, if the plan has any
    if (last.kind == TaskKind::compute)
      return plan.tuning.tile <= kTiny         ? kTrue.wait
             : last.kernel == Kernel::multiply ? kTrue.multiply
                                               : kTrue.stream;
    const Link& link = machine().links[static_cast<std::size_t>(last.link)];
    return on_host(link.source) || on_host(link.target) ? kTrue.copy : kTrue.exchange;
  }
  void draw(double watts) {
    const std::lock_guard lock(mutex_);
    joules_ += watts_ * (now_s() - since_s_);
    since_s_ = now_s();
    watts_ = watts;
  }

  std::mutex mutex_;
  double more_;
  double watts_ = kTrue.idle, joules_ = 0, shown_ = 0, since_s_ = now_s(), shown_s_ = now_s();
};

void expect_watts(const Watts& found, const Watts& expected) {
  EXPECT_NEAR(found.idle, expected.idle, 0.2 * expected.idle);
  EXPECT_NEAR(found.wait, expected.wait, 0.2 * expected.wait);
  EXPECT_NEAR(found.copy, expected.copy, 0.2 * expected.copy);
  EXPECT_NEAR(found.exchange, expected.exchange, 0.2 * expected.exchange);
  EXPECT_NEAR(found.stream, expected.stream, 0.2 * expected.stream);
  EXPECT_NEAR(found.multiply, expected.multiply, 0.2 * expected.multiply);
}

TEST(Watts, AreMeasuredByTheKindOfWork) {
  Machine machine = test::node(2);
  Metered backend(machine);
  ASSERT_TRUE(measure_watts(backend, nullptr, machine, kWattsBudgetS));
  expect_watts(machine.devices[kFirstDevice].watts, kTrue);
  expect_watts(machine.devices[kFirstDevice + 1].watts, kTrue);
  EXPECT_TRUE(machine.knows_watts());
  EXPECT_EQ(parse_machine(to_json(machine)), machine);
}

TEST(Watts, OfDevicesThatDifferAreKeptApart) {
  Machine machine = test::node(2);
  Metered backend(machine, 1.5);
  ASSERT_TRUE(measure_watts(backend, nullptr, machine, kWattsBudgetS));
  expect_watts(machine.devices[kFirstDevice].watts, kTrue);
  EXPECT_NEAR(machine.devices[kFirstDevice + 1].watts.multiply, 1.5 * kTrue.multiply, 200);
}

TEST(Watts, StayUnknownWithoutCountersThatWork) {
  Machine machine = test::node(2);
  const Machine before = machine;
  const auto simulated = make_sim_backend(machine);
  EXPECT_FALSE(counts_energy(*simulated));
  EXPECT_FALSE(measure_watts(*simulated, nullptr, machine, kWattsBudgetS));
  Metered backend(machine);
  backend.stands_still = true;
  EXPECT_TRUE(counts_energy(backend));
  EXPECT_FALSE(measure_watts(backend, nullptr, machine, kWattsBudgetS));
  EXPECT_EQ(machine, before);
}

TEST(HostEnergy, AddsPackagesAndFollowsThemAround) {
  const std::string folder = testing::TempDir() + "powercap" + std::to_string(getpid());
  const auto write = [&](const std::string& zone, const std::string& name, double value) {
    std::filesystem::create_directories(folder + "/" + zone);
    std::ofstream(folder + "/" + zone + "/" + name) << std::fixed << value;
  };
  for (const char* zone : {"intel-rapl:0", "intel-rapl:1", "intel-rapl:0:0", "dtpm"}) {
    write(zone, "max_energy_range_uj", 100e6);
    write(zone, "energy_uj", 90e6);
  }
  HostEnergy energy(folder);
  ASSERT_TRUE(energy.is_readable());
  EXPECT_EQ(energy.joules(), 0);
  write("intel-rapl:0", "energy_uj", 95e6);
  write("intel-rapl:0:0", "energy_uj", 99e6);
  write("intel-rapl:1", "energy_uj", 3e6);
  EXPECT_NEAR(energy.joules(), 5 + 13, 1e-6);
  EXPECT_FALSE(HostEnergy(folder + "/none").is_readable());
}

}  // namespace
}  // namespace fleet
