// SPDX-License-Identifier: BSD-3-Clause
// test_capi_events.cpp: events between contexts, of the program and of streams, and priorities,
// through the public header, on virtual devices.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
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
using fleetblas::Event;
using test::between;
using test::chance;

constexpr std::int64_t kEdge = 48;

std::string on_devices(int devices, const std::string& more = "") {
  return test::host_options(devices) + ";inject=poison" + more + ";tile=16";
}

/// A matrix of one number in the program's memory.
struct Square {
  Square(const Context& context, double value)
      : data(kEdge * kEdge, value), matrix(context, kEdge, kEdge, data.data(), kEdge) {}
  bool is(double value) const {
    return std::ranges::all_of(data, [&](double x) { return x == value; });
  }
  std::vector<double> data;
  fleetblas::Matrix<double> matrix;
};

/// C := A*B + beta*C
Event multiply(const Context& context, const Square& a, const Square& b, double beta,
               const Square& c) {
  Event event;
  fleetblas::check(fleet_dgemm_async(context.handle(), FLEET_NO_TRANS, FLEET_NO_TRANS, 1.0,
                                     a.matrix.handle(), b.matrix.handle(), beta, c.matrix.handle(),
                                     event.receive()));
  return event;
}

/// The message of the status that waiting for the event gives.
std::string failure(const Event& event, fleet_status status) {
  EXPECT_EQ(fleet_event_wait(event.handle()), status) << fleet_message();
  return fleet_message();
}

constexpr auto kMoment = std::chrono::milliseconds(15);

TEST(Events, OfTheProgramLetCallsStart) {
  const Context context(on_devices(2));
  const Square a(context, 1), b(context, 1), c(context, 0), d(context, 0);
  const Event arrived = Event::create();
  c.matrix.after(arrived);

  const Event held = multiply(context, a, b, 1, c), other = multiply(context, a, b, 0, d);
  const Event next = multiply(context, c, b, 0, a);
  other.wait();
  std::this_thread::sleep_for(kMoment);
  d.matrix.read();

  EXPECT_FALSE(arrived.done());
  EXPECT_FALSE(held.done());
  EXPECT_FALSE(next.done());  // it reads C
  EXPECT_TRUE(d.is(kEdge));
  const_cast<Square&>(c).data.assign(kEdge * kEdge, 2.0);  // as a message would
  arrived.set();
  arrived.wait();
  next.wait();
  EXPECT_TRUE(held.done());
  c.matrix.read();
  EXPECT_TRUE(c.is(kEdge + 2));
}

TEST(Events, CountAsWritesOfTheMatrix) {
  const Context context(on_devices(2));
  const Square a(context, 1), b(context, 1), c(context, 0), read(context, 0);
  for (const Square* square : {&c, &read}) multiply(context, a, b, 0, *square).wait();
  read.matrix.read();
  const Event arrived = Event::create();
  for (const Square* square : {&c, &read}) square->matrix.after(arrived);

  arrived.set();

  c.matrix.read();
  read.matrix.read();
  EXPECT_TRUE(c.is(0));  // the result has not been read before
  EXPECT_TRUE(read.is(kEdge));
}

TEST(Events, ThatFailMakeTheCallsFailThatComeAfterThem) {
  const Context context(on_devices(2));
  const Square a(context, 1), b(context, 1), c(context, 5), d(context, 5);
  const Event arrived = Event::create();
  c.matrix.after(arrived);
  const Event held = multiply(context, a, b, 1, c);
  const Event reader = multiply(context, c, b, 1, d), other = multiply(context, a, a, 0, b);

  arrived.set(FLEET_UNREACHABLE);

  const std::string why = "the program set the event to unreachable";
  EXPECT_EQ(failure(held, FLEET_UNREACHABLE),
            "fleet_dgemm_async: what it waits for failed: " + why);
  EXPECT_NE(failure(reader, FLEET_UNREACHABLE).find(why), std::string::npos);
  EXPECT_NO_THROW(other.wait());
  EXPECT_TRUE(c.is(5) && d.is(5));
  EXPECT_EQ(fleet_matrix_read(c.matrix.handle(), 0, 0, 1, 1), FLEET_UNREACHABLE);
  EXPECT_EQ(failure(multiply(context, a, b, 0, c), FLEET_UNREACHABLE).find("fleet_dgemm_async: "),
            0u);
  c.matrix.wrote();
  d.matrix.wrote();
  c.matrix.read();
  EXPECT_NO_THROW(multiply(context, c, b, 1, d).wait());
}

TEST(Events, AreNotWaitedForWhenNobodyCanSetThem) {
  const Context context(on_devices(1));
  const Square a(context, 1), c(context, 0);
  Event arrived = Event::create();
  c.matrix.after(arrived);
  const Event held = multiply(context, a, a, 0, c);

  arrived = Event();

  EXPECT_EQ(failure(held, FLEET_UNSUPPORTED),
            "fleet_dgemm_async: what it waits for failed: the event was destroyed before it was "
            "set");
}

TEST(Events, MayBeOfAnotherContext) {
  const Context slow(on_devices(2, ",delay:host->0+0.03")), context(on_devices(2));
  const Square a(slow, 1), b(slow, 1), c(slow, 0);
  const Square a_here(context, 1), d(context, 0);
  const fleetblas::Matrix<double> c_here(context, kEdge, kEdge, const_cast<double*>(c.data.data()),
                                         kEdge);

  multiply(slow, a, b, 0, c);
  const Event first = c.matrix.read_async();
  c_here.after(first);
  Event second;
  fleetblas::check(fleet_dgemm_async(context.handle(), FLEET_NO_TRANS, FLEET_NO_TRANS, 1.0,
                                     c_here.handle(), a_here.matrix.handle(), 0.0,
                                     d.matrix.handle(), second.receive()));
  second.wait();

  EXPECT_TRUE(first.done());
  d.matrix.read();
  EXPECT_TRUE(d.is(kEdge * kEdge));
}

TEST(Events, OfACallThatFailedAreNamedByCallsOfOtherContexts) {
  const Context broken(on_devices(2, ",lost:1@2")), context(on_devices(1));
  const Square a(broken, 1), d(context, 3), e(context, 3);
  const fleetblas::Matrix<double> on_lost(broken, kEdge, kEdge, "1");
  Event first;
  fleetblas::check(fleet_dtrmm_async(broken.handle(), FLEET_LEFT, FLEET_LOWER, FLEET_NO_TRANS,
                                     FLEET_NON_UNIT, 1.0, a.matrix.handle(), on_lost.handle(),
                                     first.receive()));
  d.matrix.after(first);

  const Event second = multiply(context, d, d, 0, e);

  EXPECT_EQ(failure(second, FLEET_DEVICE_FAILED)
                .find("fleet_dgemm_async: what it waits for failed: fleet_dtrmm_async: "),
            0u)
      << fleet_message();
  EXPECT_TRUE(e.is(3));
}

TEST(Events, OfAllCallsOfAProgramThatFailedNameThem) {
  const Context context(on_devices(2, ",lost:1@2"));
  const Square a(context, 1), d(context, 3);
  const fleetblas::Matrix<double> c(context, kEdge, kEdge, "1");
  Event solve, product, reader;
  const Event go = Event::create();
  a.matrix.after(go);  // so that they are queued together
  fleetblas::check(fleet_dtrsm_async(context.handle(), FLEET_LEFT, FLEET_LOWER, FLEET_NO_TRANS,
                                     FLEET_UNIT, 1.0, a.matrix.handle(), c.handle(),
                                     solve.receive()));
  fleetblas::check(fleet_dsyrk_async(context.handle(), FLEET_LOWER, FLEET_NO_TRANS, 1.0,
                                     a.matrix.handle(), 1.0, c.handle(), product.receive()));
  go.set();
  EXPECT_EQ(failure(solve, FLEET_DEVICE_FAILED).find("fleet_dtrsm_async: "), 0u);
  EXPECT_EQ(failure(product, FLEET_DEVICE_FAILED).find("fleet_dsyrk_async: "), 0u);

  fleetblas::check(fleet_dgemm_async(context.handle(), FLEET_NO_TRANS, FLEET_NO_TRANS, 1.0,
                                     c.handle(), a.matrix.handle(), 0.0, d.matrix.handle(),
                                     reader.receive()));

  EXPECT_EQ(failure(reader, FLEET_DEVICE_FAILED).find("fleet_dgemm_async: "), 0u);
  EXPECT_NE(std::string(fleet_message()).find("fleet_dtrsm_async"), std::string::npos)
      << fleet_message();
}

TEST(Events, OfStreamsOfVirtualDevicesAreDone) {
  const Context context(on_devices(2));
  const Square a(context, 1), c(context, 0);

  const Event streams = Event::record(context, 1, nullptr);
  c.matrix.after(streams);
  multiply(context, a, a, 0, c);
  const Event event = c.matrix.read_async();
  context.stream_after(1, nullptr, event);

  EXPECT_TRUE(streams.done());
  event.wait();
  EXPECT_TRUE(c.is(kEdge));
}

TEST(Events, AreRefusedWhereTheyMeanNothing) {
  const Context context(on_devices(2));
  const Square a(context, 1), c(context, 0);
  const Event mine = Event::create(), calls = multiply(context, a, a, 0, c);
  fleet_event* event = mine.handle();
  EXPECT_EQ(fleet_event_record(context.handle(), 2, nullptr, &event), FLEET_BAD_ARGUMENT);
  EXPECT_EQ(event, nullptr);
  EXPECT_EQ(fleet_event_record(context.handle(), 0, nullptr, nullptr), FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_event_create(nullptr), FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_stream_after(context.handle(), -1, nullptr, calls.handle()), FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_stream_after(context.handle(), 0, nullptr, nullptr), FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_matrix_after(c.matrix.handle(), nullptr), FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_matrix_after(nullptr, mine.handle()), FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_event_set(nullptr, FLEET_OK), FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_event_set(calls.handle(), FLEET_OK), FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_event_set(mine.handle(), static_cast<fleet_status>(9)), FLEET_BAD_ARGUMENT);
  EXPECT_FALSE(mine.done());
  mine.set();
  EXPECT_EQ(fleet_event_set(mine.handle(), FLEET_INTERNAL), FLEET_BAD_ARGUMENT);
  EXPECT_NO_THROW(mine.wait());
  const Context simulated("backend=sim;machine=h200x4");
  EXPECT_EQ(fleet_event_record(simulated.handle(), 0, nullptr, &event), FLEET_UNSUPPORTED);
  calls.wait();
}

TEST(Events, HoldAllUsesOfTheMatrix) {
  const Context context(on_devices(2));
  const Square a(context, 1);
  Square c(context, 0);
  const Event arrived = Event::create();
  c.matrix.view(8, 8, 8, 8).after(arrived);
  std::thread message([&] {
    std::this_thread::sleep_for(kMoment);
    c.data[8 + 8 * kEdge] = 7;
    arrived.set();
  });
  double copied = 0;

  c.matrix.view(0, 0, 8, kEdge).read();
  const bool early = arrived.done();
  context.copy(&copied, &c.data[8 + 8 * kEdge], sizeof copied);

  EXPECT_FALSE(early);
  EXPECT_EQ(copied, 7);
  message.join();
}

// An event is done before everyone is told: what it brought must be noted before the calls that
// waited for it start, else their results count as older and are dropped.
TEST(Events, BringNothingNewerThanTheCallsThatWaitedForThem) {
  constexpr int kToldBefore = 300;
  const Context context(on_devices(2)), busy(on_devices(1));
  const Square a(context, 1), b(context, 1), c(context, 0), unrelated(context, 0), told(busy, 0);

  for (int round = 0; round < 20; ++round) {
    const Event arrived = Event::create();
    for (int i = 0; i < kToldBefore; ++i) told.matrix.after(arrived);
    c.matrix.after(arrived);
    const Event held = multiply(context, a, b, 0, c);
    std::thread sets([&] {  // before, while and after the queue looks for the first time
      std::this_thread::sleep_for(std::chrono::microseconds(30 * round));
      arrived.set();
    });
    while (!arrived.done()) std::this_thread::yield();
    for (int i = 0; i < 3; ++i) unrelated.matrix.read_async().wait();  // the queue looks again
    held.wait();
    sets.join();
    c.matrix.read();

    ASSERT_TRUE(c.is(kEdge)) << "round " << round;
    const_cast<Square&>(c).data.assign(kEdge * kEdge, 0.0);
    c.matrix.wrote();
  }
}

TEST(Events, OfManyThreadsAreSetOnce) {
  const Context context(on_devices(2));
  const Square a(context, 1), c(context, 0);
  for (std::int64_t round = 0; round < test::scaled(40); ++round) {
    const Event arrived = Event::create();
    std::atomic<int> set{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([&] { set += fleet_event_set(arrived.handle(), FLEET_OK) == FLEET_OK; });
    c.matrix.after(arrived);
    const Event event = multiply(context, a, a, 0, c);
    event.wait();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(set, 1);
  }
}

/// The books have calls in the order in which they were computed.
TEST(Priorities, BringCallsForward) {
  for (const bool is_urgent : {false, true}) {
    const Context context(on_devices(2));
    const Square a(context, 1), b(context, 1), c(context, 0), d(context, 0), e(context, 0);
    const Event go = Event::create();
    a.matrix.after(go);  // so that they are queued together
    Event low;
    fleetblas::check(fleet_dsyrk_async(context.handle(), FLEET_LOWER, FLEET_NO_TRANS, 1.0,
                                       a.matrix.handle(), 0.0, c.matrix.handle(), low.receive()));
    const Event dependency = multiply(context, a, b, 0, d);
    context.set_priority(is_urgent);
    const Event high = multiply(context, d, b, 0, e);

    go.set();
    high.wait();
    const bool had_its_dependency = dependency.done();
    low.wait();

    EXPECT_TRUE(had_its_dependency);
    e.matrix.read();
    EXPECT_TRUE(e.is(kEdge * kEdge));
    const auto last = nlohmann::json::parse(context.stats_json())["last"];
    EXPECT_EQ(last["symbol"], is_urgent ? "fleet_dsyrk_async" : "fleet_dgemm_async");
  }
}

/// The numbers that belong to a seed.
void fill(Square& square, std::uint64_t seed) {
  test::Generator random(seed);
  for (double& x : square.data) x = static_cast<double>(between(random, -99, 99)) / 5000;
}

/// Messages that overwrite matrices.
class Messages {
 public:
  /// A late one arrives with arrive().
  void expect(Square& to, std::uint64_t seed, bool is_late) {
    if (is_late) {
      coming_.push_back({to, seed});
      return to.matrix.after(coming_.back().arrived);
    }
    fill(to, seed);
    to.matrix.wrote();
  }
  void arrive() {
    for (const auto& [to, seed, arrived] : coming_) {
      fill(to, seed);
      arrived.set();
    }
    coming_.clear();
  }
  bool empty() const { return coming_.empty(); }

 private:
  struct Coming {
    Square& to;
    std::uint64_t seed;
    Event arrived = Event::create();
  };
  std::vector<Coming> coming_;
};

/// Of random calls and messages.
std::vector<std::vector<double>> results_of(std::uint64_t seed, bool in_order) {
  test::Generator random(seed), others(seed + 1);
  const Context context(on_devices(static_cast<int>(between(random, 1, 3))));
  std::vector<Square> squares;
  for (int s = 0; s < 6; ++s) squares.emplace_back(context, 0.0);
  for (Square& square : squares) fill(square, random());
  const auto pick = [&] { return static_cast<std::size_t>(between(random, 0, 5)); };

  Messages messages;
  const auto arrive = [&] {
    // Half of them when all calls are done that need not wait for them.
    if (!messages.empty() && chance(others, 50)) std::this_thread::sleep_for(kMoment);
    messages.arrive();
  };
  for (int call = 0; call < 30; ++call) {
    if (chance(random, 10)) {
      std::vector<std::size_t> to{pick(), pick()};
      if (to[0] == to[1]) to.pop_back();
      arrive();
      // What uses a matrix has to be done before a message overwrites it. Reads wait for that, and
      // would for a message, too.
      for (const std::size_t s : to) squares[s].matrix.read();
      for (const std::size_t s : to) messages.expect(squares[s], random(), !in_order);
    }
    const std::size_t c = pick();
    std::size_t a = pick(), b = pick();
    if (a == c) a = (c + 1) % 6;
    if (b == c) b = (c + 1) % 6;
    if (!in_order) context.set_priority(static_cast<int>(between(others, 0, 3)));
    multiply(context, squares[a], squares[b], 0.5, squares[c]);
  }
  arrive();
  std::vector<std::vector<double>> results;
  for (const Square& square : squares) {
    square.matrix.read();
    results.push_back(square.data);
  }
  return results;
}

/// With and without priorities, and with messages that come late or at once.
TEST(Priorities, ChangeNoBit) {
  test::Generator seeds(31);
  for (std::int64_t trial = 0; trial < test::scaled(8); ++trial) {
    const auto seed = seeds();
    ASSERT_EQ(results_of(seed, true), results_of(seed, false)) << trial;
  }
}

}  // namespace
}  // namespace fleet
