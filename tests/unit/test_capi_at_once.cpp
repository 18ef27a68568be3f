// SPDX-License-Identifier: BSD-3-Clause
// test_capi_at_once.cpp: calls that several threads wait for on one context, on devices of their
// own, through the public header, on virtual devices.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
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
constexpr double kLateS = 0.8;

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
  explicit LateCall(const Context& context, int c_place = 0, double late_s = kLateS)
      : a(context, FLEET_HOST, kEdge, 1), c(context, c_place, kEdge, 0) {
    thread = std::thread([&] {
      status = multiply(context, a, a, c);
      is_done = true;
    });
    // Its copies are under way.
    std::this_thread::sleep_for(std::chrono::duration<double>(late_s / 4));
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
std::string with_a_late_link(double late_s = kLateS) {
  return choosing(",delay:host->0+" + std::to_string(late_s) + ";tile=" + std::to_string(kEdge), 1);
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

  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(multiply(context, a, a, c), FLEET_OK);
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
  late.thread.join();

  EXPECT_GT(waited.count(), kLateS / 4);
  EXPECT_EQ(at_once(context), 0);
  EXPECT_TRUE(c.is(4.0 * kEdge) && late.c.is(kEdge));
}

// What it plans with is not to depend on others.
TEST(CallsAtOnce, OfADeterministicContextKeepTheirPlans) {
  constexpr std::int64_t kLarge = 2 * kEdge;  // 4 tiles, some of them on device 0
  const Context context(with_a_late_link(0.4) + ";deterministic=1");
  const Square a(context, FLEET_HOST, kLarge, 2), c(context, FLEET_HOST, kLarge, 0);
  LateCall late(context, FLEET_HOST, 0.4);  // the device that both prefer

  ASSERT_EQ(multiply(context, a, a, c), FLEET_OK);
  late.thread.join();

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

/// The products of one thread: small integers, which come out exactly.
class Products {
 public:
  Products(const Context& context, std::uint64_t seed) : context_(context), random_(seed) {
    for (int i = 0; i < 4; ++i) {
      const std::int64_t edge = between(random_, 1, 160);
      const auto value = static_cast<double>(between(random_, 1, 5));
      made_.push_back({value,
                       {std::make_unique<Square>(context, place(), edge, value),
                        std::make_unique<Square>(context, place(), edge, 1),
                        std::make_unique<Square>(context, place(), edge, 7)}});
    }
  }

  /// Nothing between the calls makes them wait for each other.
  void compute() {
    for (int call = 0; call < static_cast<int>(test::scaled(30)); ++call) {
      Made& made = made_[static_cast<std::size_t>(between(random_, 0, std::ssize(made_) - 1))];
      const auto& [a, b, c] = made.squares;
      const fleet_status status = multiply(context_, *a, *b, *c);
      made.is_computed |= status == FLEET_OK;
      has_failed_ |= status != FLEET_OK;
      made.is_undefined |= status == FLEET_DEVICE_FAILED;
    }
  }

  bool has_failed() const { return has_failed_; }
  /// Of what the calls say that they have done.
  bool are_right() const {
    return std::ranges::all_of(made_, [](const Made& made) {
      const auto& [a, b, c] = made.squares;
      return !made.is_computed || made.is_undefined ||
             c->is(made.value * static_cast<double>(a->edge()));
    });
  }

 private:
  struct Made {
    double value;
    std::array<std::unique_ptr<Square>, 3> squares;
    bool is_computed = false, is_undefined = false;
  };
  int place() {
    return chance(random_, 50) ? FLEET_HOST : static_cast<int>(between(random_, 0, kDevices - 1));
  }

  const Context& context_;
  test::Generator random_;
  std::vector<Made> made_;
  bool has_failed_ = false;
};

struct Verdict {
  bool are_right = true, have_failed = false;
  std::int64_t at_once = 0;
};

Verdict verdict_on_threads(const std::string& options, int threads) {
  const Context context(options);
  std::vector<std::unique_ptr<Products>> products;
  for (int t = 0; t < threads; ++t)
    products.push_back(std::make_unique<Products>(context, static_cast<std::uint64_t>(t)));
  std::barrier start(threads);
  std::vector<std::thread> all;
  for (const auto& each : products)
    all.emplace_back([&] {
      start.arrive_and_wait();
      each->compute();
    });
  for (std::thread& thread : all) thread.join();
  Verdict verdict{.at_once = at_once(context)};
  for (const auto& each : products) {
    verdict.have_failed |= each->has_failed();
    try {
      verdict.are_right &= each->are_right();
    } catch (const fleetblas::Error& error) {  // of a lost device nothing can be read
      verdict.have_failed |= error.status() == FLEET_DEVICE_FAILED;
    }
  }
  return verdict;
}

TEST(CallsAtOnce, OfManyThreadsAreRight) {
  for (const char* more : {"", ";tile=48", ";memory_cap=200000", ";deterministic=1", ",order:3"}) {
    const Verdict verdict = verdict_on_threads(choosing(more), 5);
    EXPECT_TRUE(verdict.are_right && !verdict.have_failed) << more;
    const bool may_meet = std::string_view(more) != ";deterministic=1" && test::test_scale() >= 1;
    EXPECT_TRUE(!may_meet || verdict.at_once > 0) << more;
  }
}

TEST(CallsAtOnce, AreRightOrToldAfterFaults) {
  for (const char* fault : {"lost:1@20", "copy:30", "launch:25", "alloc:70", "alloc:64"})
    EXPECT_TRUE(verdict_on_threads(choosing(std::string(",") + fault + ";tile=48"), 5).are_right)
        << fault;
}

// Each device comes free again and again, but never both at once.
TEST(CallsAtOnce, OfOthersDoNotKeepOneWaitingThatNeedsTheirDevices) {
  const Context context(choosing(",delay:host->0+0.02,delay:host->1+0.02;tile=64", 1));
  std::atomic<bool> is_over{false};
  const auto keep_busy = [&](int device) {
    const Square a(context, FLEET_HOST, kEdge, 1), c(context, device, kEdge, 0);
    while (!is_over) multiply(context, a, a, c);
  };
  std::thread first(keep_busy, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  std::thread second(keep_busy, 1);
  const Square a(context, 0, kEdge, 1), c(context, 1, kEdge, 0);

  const auto start = std::chrono::steady_clock::now();
  for (int call = 0; call < 5; ++call) EXPECT_EQ(multiply(context, a, a, c), FLEET_OK);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  is_over = true;
  first.join();
  second.join();

  EXPECT_LT(took.count(), 10);
  EXPECT_TRUE(c.is(kEdge));
}

TEST(CallsAtOnce, DoNotWaitForCopiesOfOtherDevices) {
  const Context context(with_a_late_link());
  const Square c(context, 1, kEdge, 3);
  LateCall late(context);

  EXPECT_TRUE(c.is(3));  // by a copy from device 1
  const bool was_first = !late.is_done;
  late.thread.join();

  EXPECT_TRUE(was_first);
  EXPECT_TRUE(late.c.is(kEdge));
}

}  // namespace
}  // namespace fleet
