// SPDX-License-Identifier: BSD-3-Clause
// test_bound.cpp: the lower bound on machines for which it can be computed by hand, on measured
// machines, and against the simulated times of real plans.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "backend/host/machine.hpp"
#include "base/error.hpp"
#include "plan/bound.hpp"
#include "probe/probe.hpp"
#include "support/scale.hpp"
#include "support/thread_seconds.hpp"
#include "tune/tune.hpp"

namespace fleet {
namespace {

constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;
const std::string kShipped = std::string(FLEETBLAS_SOURCE_DIR) + "/machines";

Device computing(const std::string& name, double flops_per_s) {
  Device device{.name = name, .memory_bytes = std::int64_t{1} << 40, .kernels = {}, .ports = {}};
  if (flops_per_s > 0) device.kernels = {{DataType::f64, 1024, flops_per_s}};
  return device;
}

/// Devices of 1 TFLOPS; all links 10 GB/s: host <-> each, every pair, pageable <-> host. No ports.
Machine plain_machine(int devices) {
  Machine machine;
  machine.devices = {computing("host", 0), computing("pageable", 0)};
  for (int d = 0; d < devices; ++d)
    machine.devices.push_back(computing(std::to_string(d), 1 * kTera));
  for (DeviceId s = 0; s < std::ssize(machine.devices); ++s)
    for (DeviceId t = 0; t < std::ssize(machine.devices); ++t) {
      const bool pageable = s == kPageable || t == kPageable;
      if (s == t || (pageable && s != kHost && t != kHost)) continue;
      machine.links.push_back({.source = s, .target = t, .bytes_per_s = 10 * kGiga, .ports = {}});
    }
  return machine;
}

/// Makes all links that `which` accepts share a port.
template <typename Which>
void share_port(Machine& machine, const std::string& name, double capacity, Which which) {
  machine.ports.push_back({name, capacity});
  for (Link& link : machine.links)
    if (const double weight = which(link); weight > 0)
      link.ports.push_back({static_cast<PortId>(machine.ports.size()) - 1, weight});
}

Bound bound_of(const char* problem, const Machine& machine) {
  return bound(parse_problem(problem), machine);
}

// 1000^3: 2 GFLOP and 8 MB an operand.

TEST(Bound, IsTheArithmeticWhereNothingHasToMove) {
  const Bound b = bound_of("dgemm size=1000 a@0 b@0 c@0", plain_machine(1));

  EXPECT_DOUBLE_EQ(b.seconds, 2e-3);
  EXPECT_EQ(b.limited_by, "flops");
}

TEST(Bound, CountsAllThatTheHostMustSend) {
  const Bound b = bound_of("dgemm size=1000", plain_machine(1));

  EXPECT_DOUBLE_EQ(b.seconds, 24e6 / 10e9);  // A, B and C go in, C comes back on its own link
  EXPECT_EQ(b.limited_by, "out of host");
}

TEST(Bound, DoesNotCountAnOutputThatIsNotRead) {
  const Bound b = bound_of("dgemm m=1000 n=1000 k=10 beta=0", plain_machine(1));

  EXPECT_DOUBLE_EQ(b.seconds, 8e6 / 10e9);  // C comes back; A and B are 0.16 MB
  EXPECT_EQ(b.limited_by, "into host");
}

TEST(Bound, AddsUpTheLinksOutOfTheHost) {
  const Bound b = bound_of("dgemm m=1000 n=1000 k=10", plain_machine(2));

  EXPECT_DOUBLE_EQ(b.seconds, 8.16e6 / 20e9);
}

TEST(Bound, NamesThePortThatAllLinksShare) {
  Machine machine = plain_machine(2);
  share_port(machine, "host memory", 15 * kGiga,
             [](const Link& l) { return l.source == kHost && l.target != kPageable ? 1.0 : 0.0; });

  const Bound b = bound_of("dgemm m=1000 n=1000 k=10", machine);

  EXPECT_DOUBLE_EQ(b.seconds, 8.16e6 / 15e9);
  EXPECT_EQ(b.limited_by, "host memory");
}

TEST(Bound, WeighsBothDirectionsOfASharedPort) {
  Machine machine = plain_machine(2);
  share_port(machine, "host memory", 10 * kGiga, [](const Link& l) {
    if (l.source == kPageable || l.target == kPageable) return 0.0;
    return l.source == kHost ? 1.0 : l.target == kHost ? 2.0 : 0.0;
  });

  const Bound b = bound_of("dgemm m=1000 n=1000 k=10", machine);

  EXPECT_DOUBLE_EQ(b.seconds, (8.16e6 + 2 * 8e6) / 10e9);
  EXPECT_EQ(b.limited_by, "host memory");
}

TEST(Bound, ChargesLinksToTheirPortOrToThemselvesWhicheverIsLess) {
  Machine machine = plain_machine(2);
  share_port(machine, "switch of 0", 4 * kGiga, [](const Link& l) {
    return l.source == kHost && l.target == kFirstDevice ? 1.0 : 0.0;
  });

  const Bound b = bound_of("dgemm m=1000 n=1000 k=10", machine);

  EXPECT_DOUBLE_EQ(b.seconds, 8.16e6 / 14e9);  // 4 through the switch, 10 past it
}

TEST(Bound, SendsPageableOperandsOverBothHops) {
  Machine machine = plain_machine(4);  // 40 GB/s out of the host, 10 out of pageable memory

  const Bound b = bound_of("dgemm size=1000 a@p b@h c@0", machine);

  EXPECT_DOUBLE_EQ(b.seconds, 8e6 / 10e9);
  EXPECT_EQ(b.limited_by, "out of pageable");
}

TEST(Bound, CountsPageableBytesTwiceOnAPortOfBothHops) {
  Machine machine = plain_machine(4);
  share_port(machine, "host memory", 10 * kGiga, [](const Link&) { return 1.0; });

  const Bound b = bound_of("dgemm size=1000 a@p b@h c@0", machine);

  EXPECT_DOUBLE_EQ(b.seconds, 24e6 / 10e9);  // A twice, B once; C need not move
  EXPECT_EQ(b.limited_by, "host memory");
}

// A, B and C have size S and lie on device 0. If other devices compute a share s, at least 3 S
// s^(2/3) bytes leave device 0, here over two links.
TEST(Bound, BalancesWhatLeavesHomeAgainstWhatIsComputedThere) {
  const Machine machine = plain_machine(2);

  const Bound b = bound_of("dgemm size=200 a@0 b@0 c@0", machine);

  double low = 0, high = 1;  // (1-s) F = 3 S s^(2/3)
  for (int i = 0; i < 100; ++i) {
    const double s = (low + high) / 2;
    ((1 - s) * 16e6 / 1e12 > 3 * 320e3 * std::cbrt(s * s) / 20e9 ? low : high) = s;
  }
  EXPECT_NEAR(b.seconds, (1 - low) * 16e-6, 1e-9);
  EXPECT_LT(b.seconds, 15e-6);
}

TEST(Bound, ReturnsOnlyTheSmallestPartOfCThatTheOthersMustHaveSeen) {
  // C (800 MB) is only written; A and B are small, so all devices may read all of them.
  const Bound b = bound_of("dgemm m=100000 n=1000 k=10 beta=0 a@0 b@0 c@0", plain_machine(2));

  // c >= s^2: (1-s) 2 ms = s^2 800 MB / 20 GB/s at s = 0.2.
  EXPECT_NEAR(b.seconds, 1.6e-3, 1e-7);
}

// With a hundredth of the work for the CPU, nearly all of A and C leaves home all the same.
TEST(Bound, LeavesTheCpuLittleOfTheTrafficForALittleOfTheWork) {
  Machine machine = load_machine("h200x4", kShipped);
  machine.devices[kHost].kernels = {{.type = DataType::f64, .edge = 4096, .flops_per_s = 2e12}};
  for (const char* text : {"dgemm size=16384", "dsyrk n=16384 k=16384", "dsyr2k n=16384 k=1024",
                           "dtrmm m=16384 n=16384", "dtrsm m=16384 n=16384", "dsymm size=16384",
                           "dgemmt n=16384 k=4096"}) {
    const Problem problem = parse_problem(text);
    const Bound alone = bound(problem, machine);

    const Bound beside = bound(problem, machine, 1);

    const double share = beside.seconds * machine.best_rate(kHost, problem.type) / flops(problem);
    EXPECT_LT(beside.seconds, alone.seconds) << text;
    EXPECT_GE(beside.seconds, (1 - 1.1 * std::sqrt(share)) * alone.seconds) << text;
    EXPECT_LT(share, 0.06) << text;
  }
}

TEST(Bound, SharesItemsOfABatchWhole) {
  const Machine machine = plain_machine(2);
  const double one = bound_of("dgemm size=400 a@0 b@0 c@0", machine).seconds;
  const double eight = bound_of("dgemm size=400 a@0 b@0 c@0 batch=8", machine).seconds;

  // A share s of one product costs 3 S s^(2/3); a share of whole items costs 3 S s, which is less.
  EXPECT_LT(eight, 8 * one);
  // (1-s) F = 3 S s, S = 1.28e6*8 bytes at 20 GB/s, F = 1.024 ms.
  const double flops_s = 8 * 2 * 400.0 * 400 * 400 / 1e12;
  const double bytes_s = 8 * 3 * 400.0 * 400 * 8 / 20e9;
  EXPECT_NEAR(eight, flops_s * bytes_s / (flops_s + bytes_s), 1e-8);
}

TEST(Bound, MovesASharedOperandOnce) {
  const Machine machine = plain_machine(1);

  const Bound each = bound_of("dgemm size=100 batch=10 a@h b@0 c@0", machine);
  const Bound shared = bound_of("dgemm size=100 batch=10 a@h* b@0 c@0", machine);

  EXPECT_DOUBLE_EQ(each.seconds, 10 * 80000 / 10e9);
  EXPECT_DOUBLE_EQ(shared.seconds, 10 * 2e6 / 1e12);  // 20 us of flops hide 8 us of copies
}

TEST(Bound, KernelsShareTheCores) {
  Machine machine = plain_machine(4);
  machine.ports.push_back({"cores", 2});
  for (DeviceId d = kFirstDevice; d < std::ssize(machine.devices); ++d)
    machine.devices[static_cast<std::size_t>(d)].ports = {{0, 1}};

  const Bound b = bound_of("dgemm size=1000 a@0 b@0 c@0", machine);

  EXPECT_GE(b.seconds, 1e-3);  // two of the four at a time
}

TEST(Bound, CopiesTakeTheCoresFromTheKernels) {
  Machine machine = plain_machine(1);
  machine.devices[kFirstDevice].ports = {{0, 1}};
  share_port(machine, "cores", 1, [](const Link& l) { return 1 / l.bytes_per_s; });

  const Bound b = bound_of("dgemm size=1000", machine);

  EXPECT_DOUBLE_EQ(b.seconds, 2e-3 + 32e6 / 10e9);  // A, B, C in, C out, and the product
  EXPECT_EQ(b.limited_by, "cores");
}

TEST(Bound, CannotComputeWhereADeviceHasNoKernels) {
  Machine machine = plain_machine(2);
  machine.devices[kFirstDevice].kernels.clear();

  const Bound b = bound_of("dgemm size=1000 a@0 b@0 c@0", machine);

  EXPECT_DOUBLE_EQ(b.seconds, 2e-3);  // device 1 computes all of it: 24 MB at 20 GB/s are hidden
}

TEST(Bound, IsInfiniteWhereNoDeviceComputesTheType) {
  const Bound b = bound_of("sgemm size=1000 a@0 b@0 c@0", plain_machine(2));

  EXPECT_TRUE(std::isinf(b.seconds));
}

TEST(Bound, IsInfiniteWhereWhatMustMoveCannot) {
  Machine machine = plain_machine(2);
  machine.links.clear();

  EXPECT_TRUE(std::isinf(bound_of("dgemm size=1000 a@0 b@0 c@h", machine).seconds));
  EXPECT_NEAR(bound_of("dgemm size=1000 a@0 b@0 c@0", machine).seconds, 2e-3, 1e-7);
}

TEST(Bound, IsZeroWithoutProducts) {
  for (const char* text : {"dgemm m=0 n=5 k=5", "dgemm m=5 n=0 k=5 a@p", "dgemm m=5 n=5 k=0",
                           "dgemm m=5 n=5 k=5 batch=0", "dgemm m=0 n=0 k=0 a@0 b@1 c@p"}) {
    const Bound b = bound_of(text, plain_machine(2));
    EXPECT_EQ(b.seconds, 0) << text;
    EXPECT_EQ(b.limited_by, "flops") << text;
  }
}

TEST(Bound, IsFiniteAndPositiveAtTheSmallestSizes) {
  for (const char* places : {"", " a@0 b@0 c@0", " a@0 b@1 c@2", " a@p b@p c@p", " a@2 b@h c@p"})
    for (const char* sizes : {"size=1", "m=1 n=1 k=100000", "m=100000 n=1 k=1", "m=1 n=7 k=1"}) {
      const std::string text = std::string("dgemm ") + sizes + places;
      const Bound b = bound_of(text.c_str(), plain_machine(3));
      EXPECT_GT(b.seconds, 0) << text;
      EXPECT_TRUE(std::isfinite(b.seconds)) << text;
    }
}

TEST(Bound, AgreesWithTheMeasuredNodeOfFourGpus) {
  const Machine machine = load_machine("h200x4", kShipped);
  const auto tflops = [&](const char* text) {
    return flops(parse_problem(text)) / bound_of(text, machine).seconds / kTera;
  };

  // Host traffic both ways at 155 GB/s up to 16384; kernels alone reach 224 (FP64), 205 (FP32).
  EXPECT_NEAR(tflops("dgemm size=8192"), 79, 1);
  EXPECT_NEAR(tflops("dgemm size=16384"), 159, 1);
  EXPECT_NEAR(tflops("dgemm size=32768"), 224, 1);
  EXPECT_NEAR(tflops("dgemm size=8192 a@0 b@0 c@0"), 224, 1);
  EXPECT_NEAR(tflops("sgemm size=16384"), 205, 1);
}

std::string random_place(std::mt19937& random, int devices) {
  const int place = static_cast<int>(random() % static_cast<unsigned>(devices + 4)) - 4;
  return place < -1 ? "h" : place == -1 ? "p" : std::to_string(place);
}

std::string random_problem(std::mt19937& random, int devices) {
  const auto size = [&] {
    return std::to_string(64 << (random() % 7));  // 64 .. 4096
  };
  std::string text =
      std::string(1, "sdcz"[random() % 4]) + "gemm m=" + size() + " n=" + size() + " k=" + size();
  for (const char operand : {'a', 'b', 'c'})
    text += std::string(" ") + operand + "@" + random_place(random, devices);
  if (random() % 3 == 0) text += " transa=t";
  if (random() % 3 == 0) text += " transb=c";
  if (random() % 3 == 0) text += " beta=0";
  if (random() % 4 == 0) text += " batch=" + std::to_string(2 + random() % 4);
  return text;
}

TEST(Bound, NeverFallsWhenALinkOrAPortSlowsDown) {
  std::mt19937 random(20);
  const Machine machine = load_machine("h200x4", kShipped);
  for (int trial = 0; trial < test::scaled(200); ++trial) {
    const std::string text = random_problem(random, machine.device_count());
    const double before_s = bound_of(text.c_str(), machine).seconds;

    Machine slower = machine;
    if (trial % 2 == 0)
      for (Link& link : slower.links) link.bytes_per_s /= 1 + static_cast<double>(random() % 3);
    else
      for (Port& port : slower.ports) port.capacity /= 1 + static_cast<double>(random() % 3);

    EXPECT_GE(bound_of(text.c_str(), slower).seconds, before_s * (1 - 1e-5)) << text;
  }
}

TEST(Bound, IsNeverAboveTheSimulatedTimeOfARealPlan) {
  std::mt19937 random(21);
  std::vector<Machine> machines;
  for (const char* name : {"h200x8", "h200x4", "karolina", "clx-ai", "dgx1"})
    machines.push_back(load_machine(name, kShipped));
  machines.push_back(host_machine(2, 2, std::int64_t{1} << 32));
  machines.push_back(host_machine(4, 2, std::int64_t{1} << 32));
  machines.push_back(host_machine(3, 8, std::int64_t{1} << 32));
  double closest = 0;
  const auto trials = std::max(std::ssize(machines), test::scaled(80));  // each at least once
  for (std::ptrdiff_t trial = 0; trial < trials; ++trial) {
    const Machine& machine = machines[static_cast<std::size_t>(trial) % machines.size()];
    const std::string text = random_problem(random, machine.device_count());
    const Problem problem = parse_problem(text);

    const double simulated_s = tune(problem, machine, {}).cost.seconds;

    const Bound b = bound(problem, machine);
    EXPECT_LE(b.seconds, simulated_s * (1 + 1e-9)) << text << " on " << machine.name;
    closest = std::max(closest, b.seconds / simulated_s);
  }
  EXPECT_GT(closest, 0.5);  // a bound of zero would pass the above
}

TEST(Bound, TakesUnderTwoMilliseconds) {
  const Machine machine = load_machine("h200x8", kShipped);
  const std::vector<const char*> problems = {"dgemm size=8192", "dgemm size=512 a@0 b@3 c@7",
                                             "dgemm m=16384 n=16384 k=64 a@0 b@1 c@2",
                                             "dgemm m=64 n=64 k=65536 a@0 b@1 c@h"};
  for (const char* text : problems) {
    std::vector<double> seconds;
    for (int run = 0; run < 9; ++run) {
      const double start_s = test::thread_seconds();
      bound_of(text, machine);
      seconds.push_back(test::thread_seconds() - start_s);
    }
    EXPECT_LT(test::median(seconds), 0.002 / std::min(1.0, test::test_scale())) << text;
  }
}

}  // namespace
}  // namespace fleet
