// SPDX-License-Identifier: BSD-3-Clause
// test_capi_at_once.cpp: calls that several threads wait for on one context, on devices of their
// own, through the public header, on virtual devices.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "fleetblas/fleetblas.hpp"
#include "support/host_context.hpp"
#include "support/random_plans.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using fleetblas::Context;
using test::between;
using test::chance;

constexpr std::int64_t kEdge = 64;
constexpr double kLateS = 0.25;

/// Memory at a place, and a way to fill and read it.
class Square {
 public:
  Square(const Context& context, int location, std::int64_t edge, double value)
      : context_(context), edge_(edge) {
    fleetblas::check(fleet_alloc(context.handle(), location, bytes(), &data_));
    const std::vector<double> all(static_cast<std::size_t>(edge * edge), value);
    fleetblas::check(fleet_copy(context.handle(), data_, all.data(), bytes()));
  }
  ~Square() { fleet_free(context_.handle(), data_); }
  Square(const Square&) = delete;
  Square& operator=(const Square&) = delete;

  double* data() const { return static_cast<double*>(data_); }
  std::int64_t edge() const { return edge_; }
  bool is(double value) const {
    std::vector<double> all(static_cast<std::size_t>(edge_ * edge_));
    fleetblas::check(fleet_copy(context_.handle(), all.data(), data_, bytes()));
    return std::ranges::all_of(all, [&](double x) { return x == value; });
  }

 private:
  std::size_t bytes() const { return static_cast<std::size_t>(edge_ * edge_) * sizeof(double); }

  const Context& context_;
  const std::int64_t edge_;
  void* data_ = nullptr;
};

fleet_status multiply(const Context& context, const Square& a, const Square& b, const Square& c) {
  const std::int64_t n = c.edge();
  return fleet_dgemm(context.handle(), FLEET_NO_TRANS, FLEET_NO_TRANS, n, n, n, 1.0, a.data(), n,
                     b.data(), n, 0.0, c.data(), n);
}

std::int64_t at_once(const Context& context) {
  return nlohmann::json::parse(context.stats_json())["at_once"];
}

/// A call on device 0 that waits for its copies from the host.
struct LateCall {
  explicit LateCall(const Context& context, int c_place = 0)
      : a(context, FLEET_HOST, kEdge, 1), c(context, c_place, kEdge, 0) {
    thread = std::thread([&] {
      status = multiply(context, a, a, c);
      is_done = true;
    });
    // Its copies are under way.
    std::this_thread::sleep_for(std::chrono::duration<double>(kLateS / 4));
  }
  Square a, c;
  std::atomic<bool> is_done{false};
  fleet_status status = FLEET_INTERNAL;
  std::thread thread;
};

/// Calls choose among devices: there are four where nobody gives a number.
constexpr int kDevices = 4;

std::string choosing(const std::string& more, int cores = 2) {
  const std::string file = test::temporary_file("cores" + std::to_string(cores) + ".json");
  std::ofstream(file) << to_json(host_machine(kDevices, cores, std::int64_t{1} << 30));
  return "backend=host;offload=always;online=off;cpu_share=off;machine=" + file + ";inject=poison" +
         more;
}

/// With one core a second device gains nothing.
std::string with_a_late_link() {
  return choosing(",delay:host->0+" + std::to_string(kLateS) + ";tile=" + std::to_string(kEdge), 1);
}

TEST(CallsAtOnce, OfOtherDevicesDoNotWait) {
  const Context context(with_a_late_link());
  const Square a(context, 1, kEdge, 2), c(context, 1, kEdge, 0);
  LateCall late(context);

  ASSERT_EQ(multiply(context, a, a, c), FLEET_OK);
  const bool was_first = !late.is_done;
  late.thread.join();

  EXPECT_TRUE(was_first);
  EXPECT_EQ(late.status, FLEET_OK);
  EXPECT_EQ(at_once(context), 1);
  EXPECT_TRUE(c.is(4.0 * kEdge) && late.c.is(kEdge));
}

TEST(CallsAtOnce, TakeTheDevicesThatAreFree) {
  constexpr std::int64_t kLarge = 4 * kEdge;  // 16 tiles for two devices
  const Context context(with_a_late_link());
  const Square a(context, FLEET_HOST, kLarge, 2), c(context, FLEET_HOST, kLarge, 0);
  LateCall late(context);

  ASSERT_EQ(multiply(context, a, a, c), FLEET_OK);
  const bool was_first = !late.is_done;
  late.thread.join();

  EXPECT_TRUE(was_first);
  EXPECT_EQ(at_once(context), 1);
  EXPECT_TRUE(c.is(4.0 * kLarge) && late.c.is(kEdge));
}

TEST(CallsAtOnce, WaitForADeviceThatHoldsTheirOperands) {
  const Context context(with_a_late_link());
  const Square a(context, 0, kEdge, 2), c(context, 1, kEdge, 0);
  LateCall late(context);

  ASSERT_EQ(multiply(context, a, a, c), FLEET_OK);
  const bool was_first = !late.is_done;
  late.thread.join();

  EXPECT_FALSE(was_first);
  EXPECT_EQ(at_once(context), 0);
  EXPECT_TRUE(c.is(4.0 * kEdge) && late.c.is(kEdge));
}

// What it plans with is not to depend on others.
TEST(CallsAtOnce, OfADeterministicContextKeepTheirPlans) {
  constexpr std::int64_t kLarge = 2 * kEdge;  // 4 tiles, some of them on device 0
  const Context context(with_a_late_link() + ";deterministic=1");
  const Square a(context, FLEET_HOST, kLarge, 2), c(context, FLEET_HOST, kLarge, 0);
  LateCall late(context, FLEET_HOST);  // the device that both prefer

  ASSERT_EQ(multiply(context, a, a, c), FLEET_OK);
  const bool was_first = !late.is_done;
  late.thread.join();

  EXPECT_FALSE(was_first);
  EXPECT_EQ(at_once(context), 0);
  EXPECT_TRUE(c.is(4.0 * kLarge) && late.c.is(kEdge));
}

// All that needs every device waits for the calls on some of them: here memory is given back.
TEST(CallsAtOnce, AreWaitedForByWhatNeedsAllDevices) {
  const Context context(with_a_late_link());
  LateCall late(context);

  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(fleet_trim(context.handle()), FLEET_OK);
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
  late.thread.join();

  EXPECT_GT(waited.count(), kLateS / 4);
  EXPECT_EQ(late.status, FLEET_OK);
  EXPECT_TRUE(late.c.is(kEdge));
}

// One after the other each would have all devices; the last tiles of a call leave them idle.
TEST(CallsAtOnce, OfManyThreadsShareTheDevices) {
  constexpr std::int64_t kLarge = 3 * kEdge;
  const Context context(choosing(";tile=" + std::to_string(kEdge)));
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const Square a(context, FLEET_HOST, kLarge, t), b(context, FLEET_HOST, kLarge, 1),
          c(context, FLEET_HOST, kLarge, 0);
      for (int call = 0; call < 8; ++call)
        if (multiply(context, a, b, c) != FLEET_OK || !c.is(t * static_cast<double>(kLarge)))
          ++wrong;
    });
  for (std::thread& thread : threads) thread.join();

  EXPECT_EQ(wrong, 0);
  EXPECT_GT(at_once(context), 0);
}

/// Calls of several threads on operands anywhere, with faults or without; each has C of its own.
void compute_at_random(const Context& context, std::uint64_t seed, bool has_faults,
                       std::atomic<int>& wrong) {
  test::Generator random(seed);
  const auto place = [&] {
    return chance(random, 50) ? FLEET_HOST : static_cast<int>(between(random, 0, kDevices - 1));
  };
  for (int call = 0; call < static_cast<int>(test::scaled(12)); ++call) {
    const std::int64_t edge = between(random, 1, 160);
    const auto value = static_cast<double>(between(random, 1, 5));
    try {
      const Square a(context, place(), edge, value), b(context, place(), edge, 1);
      const Square c(context, place(), edge, 7);
      const fleet_status status = multiply(context, a, b, c);
      const bool may_fail = has_faults && status == FLEET_DEVICE_FAILED;
      if (!may_fail && (status != FLEET_OK || !c.is(value * static_cast<double>(edge)))) ++wrong;
    } catch (const fleetblas::Error& error) {
      const bool is_told =
          error.status() == FLEET_DEVICE_FAILED || error.status() == FLEET_NO_MEMORY;
      if (!has_faults || !is_told) ++wrong;
    }
  }
}

int wrong_of_threads(const std::string& options, int threads, bool has_faults) {
  const Context context(options);
  std::atomic<int> wrong{0};
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t)
    all.emplace_back(
        [&, t] { compute_at_random(context, static_cast<std::uint64_t>(t), has_faults, wrong); });
  for (std::thread& thread : all) thread.join();
  return wrong;
}

TEST(CallsAtOnce, OfManyThreadsAreRight) {
  for (const char* more : {"", ";tile=48", ";memory_cap=200000", ";deterministic=1", ",order:3"})
    EXPECT_EQ(wrong_of_threads(choosing(more), 6, false), 0) << more;
}

TEST(CallsAtOnce, AreRightOrToldAfterFaults) {
  for (const char* fault : {"lost:1@20", "copy:30", "launch:25", "alloc:9", "alloc:3"})
    EXPECT_EQ(wrong_of_threads(choosing(std::string(",") + fault + ";tile=48"), 5, true), 0)
        << fault;
}

}  // namespace
}  // namespace fleet
