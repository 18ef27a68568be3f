// SPDX-License-Identifier: BSD-3-Clause
// test_context_search.cpp: first calls get a plan soon, and later ones the best, on simulated GPUs.
// It knows nothing below the C API.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "fleetblas/fleetblas.h"
#include "support/host_context.hpp"
#include "support/simulated_gpus.hpp"
#include "support/slower.hpp"

namespace fleet {
namespace {

using Json = nlohmann::json;
using test::four_gpus;
using test::HostContext;

/// One device is faster by itself for this problem, which only the search in full finds.
constexpr std::int64_t kEdge = 512;
constexpr const char* kProblem = "dgemm size=512 a@0 b@0 c@0";

class Search : public test::SimulatedGpus {
 protected:
  void SetUp() override { make_real(four_gpus()); }
  /// Searches need a second core.
  static std::string options() { return believing(four_gpus()) + ";cpu_threads=2"; }

  /// A context and the operands of its calls.
  struct User {
    explicit User(const std::string& options, std::int64_t edge = kEdge)
        : n(edge), context(options) {
      EXPECT_EQ(fleet_alloc(context, 0, static_cast<std::size_t>(2 * n * n * 8), &data), FLEET_OK);
    }
    ~User() { EXPECT_EQ(fleet_free(context, data), FLEET_OK); }
    User(const User&) = delete;
    User& operator=(const User&) = delete;

    /// What the books say of one more call.
    Json call() { return call_on(n); }
    /// With so many rows of A and C.
    Json call_on(std::int64_t m) {
      auto* const a = static_cast<double*>(data);
      EXPECT_EQ(fleet_dgemm(context, FLEET_NO_TRANS, FLEET_NO_TRANS, m, n, n, 1, a, n, a, n, 1,
                            a + n * n, n),
                FLEET_OK)
          << fleet_message();
      return Json::parse(context.text(fleet_stats_json))["last"];
    }
    Json plan() { return Json::parse(context.text(fleet_plan_json, kProblem)); }
    /// The first call with so many devices, or the last one of many seconds.
    Json call_until_on(int devices) {
      const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
      Json last = call();
      while (last["workers"] != devices && std::chrono::steady_clock::now() < limit) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        last = call();
      }
      return last;
    }

    const std::int64_t n;
    HostContext context;
    void* data = nullptr;
  };
};

TEST_F(Search, IsMadeInFullBesideTheCallsOfAProblemThatComesAgain) {
  User user(options()), whole(believing(four_gpus()) + ";online=off");
  const Json best = whole.call();
  ASSERT_EQ(best["workers"], 1);

  EXPECT_EQ(user.call()["workers"], 4);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(user.call()["workers"], 4);  // the search begins here, where the problem comes again
  const Json last = user.call_until_on(1);

  EXPECT_EQ(last["workers"], 1);
  EXPECT_EQ(last["predicted_s"], best["predicted_s"]);
  EXPECT_EQ(last["plan_s"], 0);  // this call did not wait for it
}

TEST_F(Search, IsMadeInFullAtOnceWherePlansNeverChange) {
  for (const char* option : {";online=off", ";deterministic=1", ";timeline=1", ";cpu_threads=1"})
    EXPECT_LT(User(believing(four_gpus()) + option).call()["workers"], 4) << option;
}

TEST_F(Search, IsMadeInFullForWhoeverAsksForThePlan) {
  User user(options());
  EXPECT_EQ(user.call()["workers"], 4);

  EXPECT_EQ(user.plan()["workers"].size(), 1u);
  EXPECT_EQ(user.call()["workers"], 1);
}

TEST_F(Search, LeavesRunsToTeachTheModel) {
  make_real(test::slower(four_gpus(), 0.75));
  User user(options(), 4096);

  double speed = 0;
  for (int i = 0; i < 100 && std::abs(speed - 1) > 0.05; ++i) {
    const Json last = user.call();
    speed = last["predicted_s"].get<double>() / gpus->last_s;
    if (i == 0) {
      EXPECT_LT(speed, 0.9);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }

  EXPECT_NEAR(speed, 1, 0.05);
}

/// Each of them takes the thread for its search in turn.
TEST_F(Search, FindsThePlansOfProblemsThatAlternate) {
  User one(options());
  const auto second = [&] { return one.call_on(kEdge / 2); };
  one.call();
  second();
  int devices[2] = {4, 4};
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (devices[0] + devices[1] > 2 && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // longer than a search
    devices[0] = one.call()["workers"];
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    devices[1] = second()["workers"];
  }

  EXPECT_EQ(devices[0], 1);
  EXPECT_EQ(devices[1], 1);
}

/// A search that began before runs had shown that two are slower must not have the last word.
TEST_F(Search, GivesLoadedDevicesLess) {
  Machine loaded = four_gpus();
  for (const int device : {0, 1})
    for (KernelRate& rate : loaded.devices[static_cast<std::size_t>(kFirstDevice + device)].kernels)
      rate.flops_per_s *= 0.5;
  make_real(loaded);
  User user(options(), 4096);

  user.call();
  const double first_s = gpus->last_s;
  for (int i = 0; i < 200 && gpus->last_s > first_s / 1.25; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    user.call();
  }

  EXPECT_LT(gpus->last_s, first_s / 1.25);
}

/// For the sanitizers: the plan changes under callers that share a context, and their results do
/// not.
TEST_F(Search, LeavesResultsOfSeveralCallersRight) {
  constexpr std::int64_t kSmall = 96;
  const HostContext context(test::host_options(2) + ";online=on;cpu_threads=2");
  const auto calls = [&](std::int64_t m) {
    const auto size = static_cast<std::size_t>(kSmall * kSmall);
    const std::vector<double> ones(size, 1.0);
    for (int i = 0; i < 12; ++i) {
      std::vector<double> c(size, 1.0);
      EXPECT_EQ(fleet_dgemm(context, FLEET_NO_TRANS, FLEET_NO_TRANS, m, kSmall, kSmall, 1,
                            ones.data(), kSmall, ones.data(), kSmall, 2, c.data(), kSmall),
                FLEET_OK);
      for (std::int64_t row = 0; row < kSmall; ++row)
        EXPECT_EQ(c[static_cast<std::size_t>(row)], row < m ? kSmall + 2 : 1);
    }
  };
  std::vector<std::thread> callers;
  for (const std::int64_t m : {96, 80, 96, 64}) callers.emplace_back(calls, m);
  for (std::thread& caller : callers) caller.join();
}

/// For the sanitizers: a search may be under way when its context ends.
TEST_F(Search, EndsWithItsContext) {
  for (int i = 0; i < 20; ++i) {
    User user(options());
    user.call();
    EXPECT_EQ(user.call()["status"], "ok");
  }
}

}  // namespace
}  // namespace fleet
