// SPDX-License-Identifier: BSD-3-Clause
// test_capi_residency.cpp: results of queued calls stay on virtual devices until somebody needs
// them at home, and nothing is ever stale: through the public header, with the bytes that were
// moved.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "fleetblas/fleetblas.hpp"
#include "support/tracked.hpp"

namespace fleet {
namespace {

using fleetblas::Context;

constexpr std::int64_t kEdge = 64;
constexpr std::int64_t kBytes = kEdge * kEdge * 8;

using Matrix = test::MatrixHandle;

/// A square matrix of one number, in memory of the program.
struct Square {
  Square(const Context& context, double value) : data(kEdge * kEdge, value) {
    matrix = wrap(context);
  }
  Matrix wrap(const Context& context) {
    fleet_matrix* made = nullptr;
    EXPECT_EQ(
        fleet_matrix_wrap(context.handle(), FLEET_F64, kEdge, kEdge, data.data(), kEdge, &made),
        FLEET_OK);
    return Matrix(made);
  }
  fleet_status read() const { return fleet_matrix_read(matrix.get(), 0, 0, kEdge, kEdge); }
  double& at(std::int64_t row, std::int64_t col) {
    return data[static_cast<std::size_t>(row + col * kEdge)];
  }
  bool is(double value) const { return data == std::vector<double>(data.size(), value); }

  std::vector<double> data;
  Matrix matrix;
};

/// C = A * B / edge + beta * C: of ones the product is one.
fleet_status multiply(const Context& context, const fleet_matrix* a, const fleet_matrix* b,
                      double beta, fleet_matrix* c) {
  return fleet_dgemm_async(context.handle(), FLEET_NO_TRANS, FLEET_NO_TRANS, 1.0 / kEdge, a, b,
                           beta, c, nullptr);
}
fleet_status multiply(const Context& context, const Square& a, const Square& b, double beta,
                      const Square& c) {
  return multiply(context, a.matrix.get(), b.matrix.get(), beta, c.matrix.get());
}

std::int64_t from_host(const Context& context) { return test::moved(context, "h2d"); }
std::int64_t to_host(const Context& context) { return test::moved(context, "d2h"); }

/// Queues the call and waits for it by an event.
void compute(const Context& context, const Square& a, const Square& b, double beta,
             const Square& c) {
  fleet_event* event = nullptr;
  ASSERT_EQ(fleet_dgemm_async(context.handle(), FLEET_NO_TRANS, FLEET_NO_TRANS, 1.0 / kEdge,
                              a.matrix.get(), b.matrix.get(), beta, c.matrix.get(), &event),
            FLEET_OK);
  EXPECT_EQ(fleet_event_wait(event), FLEET_OK) << fleet_message();
  fleet_event_destroy(event);
}

TEST(Residency, OfAChainThereIsNoHostTrafficUntilItIsRead) {
  const Context context(test::small_tiles(4));
  const Square a(context, 1), b(context, 1), c(context, 0);
  compute(context, a, b, 0.0, c);
  const std::int64_t before = from_host(context);
  EXPECT_GT(before, 0);
  for (int i = 0; i < 10; ++i) compute(context, a, b, 1.0, c);
  EXPECT_EQ(from_host(context), before);
  EXPECT_EQ(to_host(context), 0);
  EXPECT_EQ(c.read(), FLEET_OK);
  EXPECT_TRUE(c.is(11));
  EXPECT_EQ(to_host(context), kBytes);
  EXPECT_EQ(c.read(), FLEET_OK);
  EXPECT_EQ(to_host(context), kBytes);
}

/// The tasks of the last run by kind: "fetch", "compute", "writeback".
std::map<std::string, int> tasks_of_last_run(const Context& context) {
  std::map<std::string, int> tasks;
  const auto timeline = nlohmann::json::parse(context.trace_json());
  for (const auto& event : timeline["traceEvents"])
    if (event["ph"] == "X") ++tasks[event["cat"].get<std::string>()];
  return tasks;
}

TEST(Residency, WhatIsReadBehindItsCallsComesHomeWhileTheyAreComputed) {
  for (const bool waits : {false, true}) {
    const Context context(test::small_tiles(2));
    const Square a(context, 1), b(context, 1), c(context, 0);
    fleet_event *begin = nullptr, *event = nullptr;  // the call begins when the read is queued
    ASSERT_EQ(fleet_event_create(&begin), FLEET_OK);
    ASSERT_EQ(fleet_matrix_after(a.matrix.get(), begin), FLEET_OK);
    ASSERT_EQ(multiply(context, a, b, 0.0, c), FLEET_OK);
    if (!waits) {
      ASSERT_EQ(fleet_matrix_read_async(c.matrix.get(), 0, 0, kEdge, kEdge, &event), FLEET_OK);
      EXPECT_EQ(fleet_event_set(begin, FLEET_OK), FLEET_OK);
      EXPECT_EQ(fleet_event_wait(event), FLEET_OK);
      fleet_event_destroy(event);
    } else {
      std::thread later([begin] {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        fleet_event_set(begin, FLEET_OK);
      });
      EXPECT_EQ(c.read(), FLEET_OK);
      later.join();
    }
    fleet_event_destroy(begin);
    EXPECT_TRUE(c.is(1));
    EXPECT_EQ(to_host(context), kBytes);
    auto tasks = tasks_of_last_run(context);
    EXPECT_EQ(tasks["compute"], 4 * 4 * 4) << waits;
    EXPECT_EQ(tasks["writeback"], 2 * 4 * 4) << waits;  // through pinned memory
    compute(context, a, b, 1.0, c);                     // the copies on the devices stay
    EXPECT_EQ(to_host(context), kBytes);
    EXPECT_EQ(c.read(), FLEET_OK);
    EXPECT_TRUE(c.is(2));
  }
}

TEST(Residency, APartThatIsReadComesHomeAlone) {
  const Context context(test::small_tiles(2));
  const Square a(context, 1), c(context, 0);
  compute(context, a, a, 0.0, c);
  EXPECT_EQ(fleet_matrix_read(c.matrix.get(), 17, 3, 10, 10), FLEET_OK);
  EXPECT_EQ(to_host(context), 16 * 16 * 8);  // the tile around it
  EXPECT_EQ(c.data[17 + 3 * kEdge], 1);
}

TEST(Residency, WhatTheProgramWroteIsFetchedAgain) {
  const Context context(test::small_tiles(2));
  Square a(context, 1), b(context, 1), c(context, 0);
  compute(context, a, b, 0.0, c);
  a.data.assign(a.data.size(), 2);
  EXPECT_EQ(fleet_matrix_wrote(a.matrix.get(), 0, 0, kEdge, kEdge), FLEET_OK);
  compute(context, a, b, 0.0, c);
  EXPECT_EQ(c.read(), FLEET_OK);
  EXPECT_TRUE(c.is(2));
}

TEST(Residency, AWriteIntoATileThatIsAwayKeepsTheRestOfIt) {
  const Context context(test::small_tiles(2));
  Square a(context, 1), c(context, 7);
  compute(context, a, a, 0.0, c);
  for (std::int64_t col = 5; col < 25; ++col) c.at(20, col) = -3;
  EXPECT_EQ(fleet_matrix_wrote(c.matrix.get(), 20, 5, 1, 20), FLEET_OK);
  EXPECT_EQ(c.read(), FLEET_OK);
  for (std::int64_t col = 0; col < kEdge; ++col)
    for (std::int64_t row = 0; row < kEdge; ++row)
      ASSERT_EQ(c.at(row, col), row == 20 && col >= 5 && col < 25 ? -3 : 1) << row << " " << col;
}

TEST(Residency, CallsWithACallerSeeWhatQueuedCallsMadeAndTheReverse) {
  const Context context(test::small_tiles(2));
  Square a(context, 1), c(context, 0), d(context, 0);
  const auto at_once = [&](Square& x, double beta, Square& y) {
    return fleet_dgemm(context.handle(), FLEET_NO_TRANS, FLEET_NO_TRANS, kEdge, kEdge, kEdge,
                       1.0 / kEdge, x.data.data(), kEdge, a.data.data(), kEdge, beta, y.data.data(),
                       kEdge);
  };
  compute(context, a, a, 0.0, c);  // c = 1
  compute(context, a, a, 0.0, d);  // d = 1
  ASSERT_EQ(at_once(c, 1.0, d), FLEET_OK);
  EXPECT_TRUE(d.is(2));
  compute(context, d, a, 1.0, c);  // c = 3
  ASSERT_EQ(at_once(c, 0.0, d), FLEET_OK);
  EXPECT_TRUE(d.is(3));
  compute(context, d, a, 1.0, c);
  EXPECT_EQ(c.read(), FLEET_OK);
  EXPECT_TRUE(c.is(6));
}

TEST(Residency, AliasesAndViewsSeeEachOther) {
  const Context context(test::small_tiles(2));
  Square a(context, 1), c(context, 0), d(context, 0);
  const Matrix alias = c.wrap(context);
  compute(context, a, a, 0.0, c);
  ASSERT_EQ(multiply(context, alias.get(), a.matrix.get(), 1.0, d.matrix.get()), FLEET_OK);
  fleet_matrix *view = nullptr, *of_a = nullptr;  // 24 x 24 at offsets that are in no tile's corner
  ASSERT_EQ(fleet_matrix_view(d.matrix.get(), 5, 9, 24, 24, &view), FLEET_OK);
  ASSERT_EQ(fleet_matrix_view(a.matrix.get(), 1, 1, 24, 24, &of_a), FLEET_OK);
  const Matrix owner(view), owner_of_a(of_a);
  ASSERT_EQ(multiply(context, of_a, of_a, 1.0, view), FLEET_OK);  // 1 + 24 / 64
  ASSERT_EQ(multiply(context, a, a, 1.0, d), FLEET_OK);           // + 1
  EXPECT_EQ(d.read(), FLEET_OK);
  for (std::int64_t col = 0; col < kEdge; ++col)
    for (std::int64_t row = 0; row < kEdge; ++row) {
      const bool in_view = row >= 5 && row < 29 && col >= 9 && col < 33;
      ASSERT_EQ(d.at(row, col), in_view ? 2.375 : 2) << row << " " << col;
    }
}

TEST(Residency, TheLastHandleOfMemoryBringsItHome) {
  const Context context(test::small_tiles(2));
  Square a(context, 1), c(context, 0);
  Matrix alias = c.wrap(context);
  compute(context, a, a, 0.0, c);
  c.matrix.reset();
  EXPECT_FALSE(c.is(1));  // the other handle is left
  alias.reset();
  EXPECT_TRUE(c.is(1));
}

TEST(Residency, ResultsOfHandlesThatAreGoneComeHomeWithTheirEvent) {
  const Context context(test::small_tiles(2, ";inject=delay:host->0+0.02"));
  Square a(context, 1), c(context, 0);
  fleet_event* event = nullptr;
  ASSERT_EQ(fleet_dgemm_async(context.handle(), FLEET_NO_TRANS, FLEET_NO_TRANS, 1.0 / kEdge,
                              a.matrix.get(), a.matrix.get(), 0.0, c.matrix.get(), &event),
            FLEET_OK);
  c.matrix.reset();
  EXPECT_EQ(fleet_event_wait(event), FLEET_OK);
  fleet_event_destroy(event);
  EXPECT_TRUE(c.is(1));
}

TEST(Residency, TheEndOfAContextBringsAllHome) {
  std::vector<double> c;
  {
    auto context = std::make_unique<Context>(test::small_tiles(2));
    Square a(*context, 1), result(*context, 0);
    compute(*context, a, a, 0.0, result);
    fleet_matrix_destroy(a.matrix.release());
    static fleet_matrix* kept = nullptr;  // its context goes first, so nobody may destroy it
    kept = result.matrix.release();
    context.reset();
    static_cast<void>(kept);
    c = result.data;
  }
  EXPECT_EQ(c, std::vector<double>(kEdge * kEdge, 1));
}

TEST(Residency, CopiesFreesAndRegistrationsSeeWhatIsAway) {
  const Context context(test::small_tiles(2));
  Square a(context, 1), c(context, 0);
  compute(context, a, a, 0.0, c);
  std::vector<double> copy(c.data.size());
  ASSERT_EQ(fleet_copy(context.handle(), copy.data(), c.data.data(), kBytes), FLEET_OK);
  EXPECT_EQ(copy, std::vector<double>(copy.size(), 1));
  const std::vector<double> fives(copy.size(), 5);
  ASSERT_EQ(fleet_copy(context.handle(), a.data.data(), fives.data(), kBytes), FLEET_OK);
  compute(context, a, a, 0.0, c);
  ASSERT_EQ(fleet_host_register(context.handle(), c.data.data(), kBytes), FLEET_OK);
  compute(context, a, a, 1.0, c);
  ASSERT_EQ(fleet_host_unregister(context.handle(), c.data.data()), FLEET_OK);
  EXPECT_TRUE(c.is(50));
}

TEST(Residency, WhatIsNeededLastLeavesWhereMemoryIsShort) {
  // Of 32 KiB each: three matrices fit on a device, eight do not.
  const Context context(test::small_tiles(1, ";device_memory=160K"));
  std::vector<Square> all;
  for (int i = 0; i < 8; ++i) all.emplace_back(context, 1.0);
  Square sum(context, 0);
  for (int round = 0; round < 3; ++round)
    for (const Square& x : all) compute(context, x, x, 1.0, sum);
  EXPECT_EQ(sum.read(), FLEET_OK);
  EXPECT_TRUE(sum.is(24));
}

TEST(Residency, TheNextCallsArePlannedWhileOthersRun) {
  const Context context(test::small_tiles(2, ";inject=delay:host->0+0.03"));
  std::vector<Square> all;
  for (int i = 0; i < 8; ++i) all.emplace_back(context, 1.0);
  Square first(context, 0);
  ASSERT_EQ(multiply(context, all[0], all[1], 0.0, first), FLEET_OK);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));  // it runs
  for (std::size_t i = 2; i < 8; ++i)
    ASSERT_EQ(multiply(context, all[i], first, 1.0, all[(i + 1) % 8]), FLEET_OK);
  for (const Square& x : all) EXPECT_EQ(x.read(), FLEET_OK);
  EXPECT_TRUE(all[3].is(2));
  EXPECT_TRUE(all[4].is(3));
  const auto stats = nlohmann::json::parse(context.stats_json());
  EXPECT_EQ(stats["planned_ahead"], 1) << stats;
}

TEST(Residency, ALostDeviceTakesWhatItAloneHadAndSaysSo) {
  const Context context(test::small_tiles(2, ";inject=poison,lost:1@40"));
  const Square a(context, 1), b(context, 1);
  std::vector<Square> results;
  for (int i = 0; i < 8; ++i) {
    results.emplace_back(context, 0.0);
    compute(context, a, b, 0.0, results.back());
  }
  int undefined = 0;
  for (const Square& result : results) {
    const fleet_status status = result.read();
    if (status == FLEET_OK) {
      EXPECT_TRUE(result.is(1));
      continue;
    }
    EXPECT_EQ(status, FLEET_DEVICE_FAILED);
    EXPECT_NE(std::string(fleet_message()).find("undefined"), std::string::npos);
    ++undefined;
  }
  EXPECT_GT(undefined, 0);
  EXPECT_LT(undefined, 8);
}

TEST(Residency, MemoryThatIsTrackedAnewIsReadAnew) {
  const Context context(test::small_tiles(2));
  Square a(context, 1), b(context, 1), c(context, 0), other(context, 1);
  compute(context, a, b, 0.0, c);
  fleet_event* open = nullptr;  // so that calls are under way all the time
  ASSERT_EQ(fleet_event_create(&open), FLEET_OK);
  ASSERT_EQ(fleet_matrix_after(other.matrix.get(), open), FLEET_OK);
  a.matrix.reset();
  a.data.assign(a.data.size(), 5);
  a.matrix = a.wrap(context);
  compute(context, a, b, 0.0, c);
  EXPECT_EQ(c.read(), FLEET_OK);
  EXPECT_TRUE(c.is(5));
  EXPECT_EQ(fleet_event_set(open, FLEET_OK), FLEET_OK);
  fleet_event_destroy(open);
}

TEST(Residency, AnotherHandleOfAResultGoesWithoutWaiting) {
  const Context context(test::small_tiles(2, ";inject=delay:host->0+0.03"));
  Square a(context, 1), c(context, 0), d(context, 1), e(context, 0);
  compute(context, a, a, 0.0, c);
  ASSERT_EQ(multiply(context, d, d, 0.0, e), FLEET_OK);  // it runs for half a second
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto start = std::chrono::steady_clock::now();
  c.wrap(context).reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(100));
  EXPECT_EQ(to_host(context), 0);
  EXPECT_EQ(e.read(), FLEET_OK);  // its memory must live until then
}

/// Queues a call on the matrix that fails by an event, and waits for it.
void fail_on(const Context& context, const Square& a, const Square& c) {
  fleet_event *event = nullptr, *call = nullptr;
  ASSERT_EQ(fleet_event_create(&event), FLEET_OK);
  ASSERT_EQ(fleet_matrix_after(a.matrix.get(), event), FLEET_OK);
  ASSERT_EQ(fleet_dgemm_async(context.handle(), FLEET_NO_TRANS, FLEET_NO_TRANS, 1.0, a.matrix.get(),
                              a.matrix.get(), 0.0, c.matrix.get(), &call),
            FLEET_OK);
  ASSERT_EQ(fleet_event_set(event, FLEET_UNREACHABLE), FLEET_OK);
  EXPECT_EQ(fleet_event_wait(call), FLEET_UNREACHABLE);
  fleet_event_destroy(event);
  fleet_event_destroy(call);
}

TEST(Residency, CallsAndCopiesOfTheProgramSeeFailuresToo) {
  const Context context(test::small_tiles(2));
  Square a(context, 1), c(context, 0), d(context, 0);
  fail_on(context, a, c);
  const auto at_once = [&](const Square& from, Square& to) {
    return fleet_dgemm(context.handle(), FLEET_NO_TRANS, FLEET_NO_TRANS, kEdge, kEdge, kEdge, 1.0,
                       from.data.data(), kEdge, from.data.data(), kEdge, 0.0, to.data.data(),
                       kEdge);
  };
  EXPECT_EQ(at_once(a, d), FLEET_UNREACHABLE);  // what it waits for has failed
  EXPECT_EQ(at_once(c, d), FLEET_UNREACHABLE);  // the call that was to write it has
  EXPECT_EQ(fleet_copy(context.handle(), d.data.data(), c.data.data(), kBytes), FLEET_UNREACHABLE);
  EXPECT_TRUE(d.is(0));
  const std::vector<double> ones(c.data.size(), 1);
  EXPECT_EQ(fleet_copy(context.handle(), c.data.data(), ones.data(), kBytes), FLEET_OK);
  EXPECT_EQ(c.read(), FLEET_OK);
  EXPECT_EQ(fleet_matrix_wrote(a.matrix.get(), 0, 0, kEdge, kEdge), FLEET_OK);
  EXPECT_EQ(at_once(a, d), FLEET_OK);
}

TEST(Residency, WhatIsUndefinedInAVectorCanBeWrittenAgain) {
  const Context context(test::small_tiles(2));
  const Square a(context, 1);
  std::vector<double> y(kEdge, 0.0), x(kEdge, 1.0);
  fleet_matrix *of_y = nullptr, *of_x = nullptr;
  ASSERT_EQ(fleet_matrix_wrap(context.handle(), FLEET_F64, kEdge, 1, y.data(), kEdge, &of_y),
            FLEET_OK);
  ASSERT_EQ(fleet_matrix_wrap(context.handle(), FLEET_F64, kEdge, 1, x.data(), kEdge, &of_x),
            FLEET_OK);
  const Matrix owner_of_y(of_y), owner_of_x(of_x);
  for (const bool by_call : {false, true}) {
    fleet_event* event = nullptr;
    ASSERT_EQ(fleet_event_create(&event), FLEET_OK);
    ASSERT_EQ(fleet_matrix_after(of_x, event), FLEET_OK);
    const auto times = [&] {
      return fleet_dgemv_async(context.handle(), FLEET_NO_TRANS, 1.0, a.matrix.get(), of_x, 0.0,
                               of_y, nullptr);
    };
    ASSERT_EQ(times(), FLEET_OK);
    ASSERT_EQ(fleet_event_set(event, FLEET_INTERNAL), FLEET_OK);
    EXPECT_EQ(fleet_matrix_read(of_y, 0, 0, kEdge, 1), FLEET_INTERNAL);
    ASSERT_EQ(fleet_matrix_wrote(of_x, 0, 0, kEdge, 1), FLEET_OK);
    if (by_call) {
      ASSERT_EQ(times(), FLEET_OK);
    } else {
      ASSERT_EQ(fleet_matrix_wrote(of_y, 0, 0, kEdge, 1), FLEET_OK);
    }
    EXPECT_EQ(fleet_matrix_read(of_y, 0, 0, kEdge, 1), FLEET_OK) << fleet_message();
    fleet_event_destroy(event);
  }
}

TEST(Residency, ACallOrAFreeThatIsRefusedLosesNoResult) {
  const Context context(test::small_tiles(2));
  Square a(context, 1), c(context, 0);
  compute(context, a, a, 0.0, c);
  EXPECT_EQ(fleet_free(context.handle(), c.data.data()), FLEET_BAD_ARGUMENT);
  void* on_device = nullptr;
  ASSERT_EQ(fleet_alloc(context.handle(), 0, 256, &on_device), FLEET_OK);  // too small for A
  EXPECT_EQ(fleet_dgemm(context.handle(), FLEET_NO_TRANS, FLEET_NO_TRANS, kEdge, kEdge, kEdge, 1.0,
                        static_cast<double*>(on_device), kEdge, a.data.data(), kEdge, 0.0,
                        c.data.data(), kEdge),
            FLEET_BAD_ARGUMENT);
  EXPECT_EQ(c.read(), FLEET_OK);
  EXPECT_TRUE(c.is(1));
  EXPECT_EQ(fleet_free(context.handle(), on_device), FLEET_OK);
}

TEST(Residency, FailuresAreNotThoseOfTheNextMatrixAtTheAddress) {
  const Context context(test::small_tiles(2));
  Square a(context, 1), c(context, 0);
  fail_on(context, a, c);
  for (Square* x : {&a, &c}) {
    x->matrix.reset();
    x->matrix = x->wrap(context);
  }
  compute(context, a, a, 0.0, c);
  EXPECT_EQ(c.read(), FLEET_OK);
  EXPECT_TRUE(c.is(1));
}

}  // namespace
}  // namespace fleet
