// SPDX-License-Identifier: BSD-3-Clause
// test_context_search.cpp: first calls get a plan soon, and later ones the best, on simulated GPUs.
// It knows nothing below the C API.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

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
    Json call() {
      auto* const a = static_cast<double*>(data);
      EXPECT_EQ(fleet_dgemm(context, FLEET_NO_TRANS, FLEET_NO_TRANS, n, n, n, 1, a, n, a, n, 1,
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
  User user(believing(four_gpus())), whole(believing(four_gpus()) + ";online=off");
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
  User user(believing(four_gpus()));
  EXPECT_EQ(user.call()["workers"], 4);

  EXPECT_EQ(user.plan()["workers"].size(), 1u);
  EXPECT_EQ(user.call()["workers"], 1);
}

TEST_F(Search, LeavesRunsToTeachTheModel) {
  make_real(test::slower(four_gpus(), 0.75));
  User user(believing(four_gpus()), 4096);

  double speed = 0;
  for (int i = 0; i < 100 && std::abs(speed - 1) > 0.05; ++i) {
    const Json last = user.call();
    speed = last["predicted_s"].get<double>() / gpus->last_s;
    if (i == 0) EXPECT_LT(speed, 0.9);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }

  EXPECT_NEAR(speed, 1, 0.05);
}

/// What was found for other devices or memory is not wanted any more.
TEST_F(Search, BeginsAnewWherePlansAreForgotten) {
  User user(believing(four_gpus()));
  user.call();
  user.call();
  ASSERT_EQ(fleet_trim(user.context), FLEET_OK);

  EXPECT_EQ(user.call()["workers"], 4);
  EXPECT_EQ(user.call_until_on(1)["workers"], 1);
}

/// Neither waits for the other for long, and nothing of it is left behind.
TEST_F(Search, EndsWithItsContext) {
  for (int i = 0; i < 20; ++i) {
    User user(believing(four_gpus()));
    user.call();
    user.call();
  }
}

}  // namespace
}  // namespace fleet
