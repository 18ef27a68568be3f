// SPDX-License-Identifier: BSD-3-Clause
// test_sim.cpp: simulated times against times computed by hand. Links move 1 element per second
// unless a test says otherwise, so that most numbers are both seconds and elements.
#include <gtest/gtest.h>

#include "sim/kernel_pool.hpp"
#include "sim/simulate.hpp"
#include "support/hand_plan.hpp"

namespace fleet::test {
namespace {

constexpr DeviceId kOne = kFirstDevice, kTwo = kFirstDevice + 1, kThree = kFirstDevice + 2;

double stop_s(const Trace& trace, TaskId task) {
  return trace.spans[static_cast<std::size_t>(task)].stop_s;
}
double start_s(const Trace& trace, TaskId task) {
  return trace.spans[static_cast<std::size_t>(task)].start_s;
}

TEST(Simulate, AnEmptyPlanTakesNoTime) {
  HandMachine machine(1);
  const HandPlan plan(machine.get(), {4});

  const Trace trace = simulate(plan.get(), machine.get());

  EXPECT_EQ(trace.source, CostSource::simulated);
  EXPECT_EQ(trace.status, Status::ok);
  EXPECT_EQ(trace.seconds, 0);
  EXPECT_TRUE(trace.spans.empty());
}

TEST(Simulate, OneCopyTakesLatencyPerChunkAndItsBytes) {
  HandMachine machine(1);
  const LinkId in = machine.link(kHost, kOne, 2, {}, 0.25);
  HandPlan plan(machine.get(), {8});
  const TaskId whole = plan.copy({.link = in});
  const TaskId pieces = plan.copy({.link = in, .chunks = 4});

  const Trace trace = simulate(plan.get(), machine.get());

  EXPECT_DOUBLE_EQ(stop_s(trace, whole), 0.25 + 4);
  EXPECT_DOUBLE_EQ(start_s(trace, pieces), 4.25);
  EXPECT_DOUBLE_EQ(stop_s(trace, pieces), 4.25 + 4 * 0.25 + 4);
}

// Two tiles of 4 rows of a matrix of 8 rows: their columns are strided on the host only.
TEST(Simulate, ColumnsThatLieApartTravelAtTheRateOfTheirLength) {
  HandMachine machine(2);
  const LinkId in = machine.link(kHost, kOne, 2, {}, 0.25);
  const LinkId on = machine.link(kOne, kTwo, 2);
  for (Link& link : machine.get().links) link.columns = {{4 * 8, 0.25}};
  HandPlan plan(machine.get(), {4, 4});
  const TaskId apart = plan.copy({.link = in});
  const TaskId dense = plan.copy({.link = on, .after = {apart}});
  HandPlan one(machine.get(), {4});
  const TaskId whole = one.copy({.link = in});

  const Trace trace = simulate(plan.get(), machine.get());

  EXPECT_DOUBLE_EQ(stop_s(trace, apart), 0.25 + 4 / (0.25 * 2));
  EXPECT_DOUBLE_EQ(stop_s(trace, dense), 0.25 + 8 + 2);
  EXPECT_DOUBLE_EQ(stop_s(simulate(one.get(), machine.get()), whole), 0.25 + 2);
}

TEST(Simulate, TwoCopiesSplitAPortAndTheLongerOneGetsItAllInTheEnd) {
  HandMachine machine(2);
  const PortId memory = machine.port(1);
  const LinkId a = machine.link(kHost, kOne, 1, {{memory, 1}});
  const LinkId b = machine.link(kHost, kTwo, 1, {{memory, 1}});
  HandPlan plan(machine.get(), {2, 6});
  const TaskId small = plan.copy({.link = a, .tile = 0});
  const TaskId large = plan.copy({.link = b, .tile = 1});

  const Trace trace = simulate(plan.get(), machine.get());

  EXPECT_DOUBLE_EQ(stop_s(trace, small), 4);  // 2 at half the rate
  EXPECT_DOUBLE_EQ(stop_s(trace, large), 8);  // 2 by then, the other 4 alone
  EXPECT_DOUBLE_EQ(trace.seconds, 8);
}

TEST(Simulate, WritesThatWeighTwiceLeaveLessOfThePortToBoth) {
  HandMachine machine(1);
  const PortId memory = machine.port(6);
  const LinkId read = machine.link(kHost, kOne, 10, {{memory, 1}});
  const LinkId write = machine.link(kOne, kHost, 10, {{memory, 2}});
  HandPlan plan(machine.get(), {4, 10});
  const TaskId in = plan.copy({.link = read, .tile = 1});
  const TaskId out = plan.copy({.link = write, .tile = 0});

  const Trace trace = simulate(plan.get(), machine.get());

  EXPECT_DOUBLE_EQ(stop_s(trace, out), 2);     // 6 = 2 + 2*2: both at 2 elements per second
  EXPECT_DOUBLE_EQ(stop_s(trace, in), 2 + 1);  // 6 of 10 left, now alone at the port
}

TEST(Simulate, ASlowLinkLeavesTheRestOfThePortToTheOthers) {
  HandMachine machine(3);
  const PortId memory = machine.port(10);
  const LinkId slow = machine.link(kHost, kOne, 2, {{memory, 1}});
  const LinkId fast = machine.link(kHost, kTwo, 8, {{memory, 1}});
  const LinkId other = machine.link(kHost, kThree, 8, {{memory, 1}});
  HandPlan plan(machine.get(), {4, 8});
  const TaskId a = plan.copy({.link = slow, .tile = 0});
  const TaskId b = plan.copy({.link = fast, .tile = 1});
  const TaskId c = plan.copy({.link = other, .tile = 1});

  const Trace trace = simulate(plan.get(), machine.get());

  EXPECT_DOUBLE_EQ(stop_s(trace, a), 2);
  EXPECT_DOUBLE_EQ(stop_s(trace, b), 2);  // 2 + 4 + 4 = 10
  EXPECT_DOUBLE_EQ(stop_s(trace, c), 2);
}

TEST(Simulate, AChainOfThreeHopsInEightChunksTakesTwoChunksMoreThanOneHop) {
  HandMachine machine(3);
  const LinkId first = machine.link(kHost, kOne, 1);
  const LinkId second = machine.link(kOne, kTwo, 1);
  const LinkId third = machine.link(kTwo, kThree, 1);
  HandPlan plan(machine.get(), {8});
  const TaskId a = plan.copy({.link = first, .chunks = 8});
  const TaskId b = plan.copy({.link = second, .chunks = 8, .upstream = a});
  const TaskId c = plan.copy({.link = third, .chunks = 8, .upstream = b});

  const Trace trace = simulate(plan.get(), machine.get());

  EXPECT_DOUBLE_EQ(stop_s(trace, a), 8);
  EXPECT_DOUBLE_EQ(start_s(trace, b), 1);
  EXPECT_DOUBLE_EQ(stop_s(trace, c), 8 * (1 + 2.0 / 8));
}

TEST(Simulate, AChainPaysTheLatencyOfEachChunkInEachHop) {
  HandMachine machine(2);
  const LinkId first = machine.link(kHost, kOne, 1, {}, 0.5);
  const LinkId second = machine.link(kOne, kTwo, 1, {}, 0.5);
  HandPlan plan(machine.get(), {4});
  const TaskId a = plan.copy({.link = first, .chunks = 4});
  const TaskId b = plan.copy({.link = second, .chunks = 4, .upstream = a});

  const Trace trace = simulate(plan.get(), machine.get());

  EXPECT_DOUBLE_EQ(stop_s(trace, a), 4 * 1.5);
  EXPECT_DOUBLE_EQ(start_s(trace, b), 1.5);
  EXPECT_DOUBLE_EQ(stop_s(trace, b), 5 * 1.5);
}

// Tiles of 4 and 8 elements: side by side they share the port, the first until 8 s.
TEST(Simulate, ADeviceSendsInTurnWithALatencyOfItsOwn) {
  HandMachine machine(3);
  const PortId out = machine.port(1);
  const LinkId two = machine.link(kOne, kTwo, 1, {{out, 1}}, 2);
  const LinkId three = machine.link(kOne, kThree, 1, {{out, 1}}, 2);
  for (Link& link : machine.get().links) link.sent_latency_s = 0.5;
  HandPlan side_by_side(machine.get(), {4, 8});
  side_by_side.copy({.link = two, .tile = 0});
  side_by_side.copy({.link = three, .tile = 1});
  HandPlan in_turn(machine.get(), {4, 8});
  in_turn.send_in_turn();
  const TaskId first = in_turn.copy({.link = two, .tile = 0});
  const TaskId second = in_turn.copy({.link = three, .tile = 1, .chunks = 2});

  EXPECT_DOUBLE_EQ(stop_s(simulate(side_by_side.get(), machine.get()), 0), 8);
  const Trace trace = simulate(in_turn.get(), machine.get());
  EXPECT_DOUBLE_EQ(stop_s(trace, first), 0.5 + 4);
  EXPECT_DOUBLE_EQ(start_s(trace, second), 4.5);
  EXPECT_DOUBLE_EQ(stop_s(trace, second), 4.5 + 2 * 0.5 + 8);
}

// A copy that waits for its upstream holds up what its source sends after it, but no result.
TEST(Simulate, WhatIsSentInTurnWaitsForWhatIsSentBefore) {
  HandMachine machine(3);
  const LinkId in = machine.link(kHost, kOne, 1), out = machine.link(kOne, kHost, 1);
  const LinkId two = machine.link(kOne, kTwo, 1), three = machine.link(kOne, kThree, 1);
  HandPlan plan(machine.get(), {4, 1});
  plan.send_in_turn();
  const TaskId fetched = plan.copy({.link = in, .tile = 0});
  const TaskId passed = plan.copy({.link = two, .tile = 0, .upstream = fetched});
  const TaskId later = plan.copy({.link = three, .tile = 1});
  const TaskId result = plan.copy({.link = out, .tile = 1});

  const Trace trace = simulate(plan.get(), machine.get());

  EXPECT_DOUBLE_EQ(start_s(trace, later), stop_s(trace, passed));
  EXPECT_DOUBLE_EQ(start_s(trace, result), 0);
}

TEST(Simulate, AFastHopIsHeldBackByItsSlowUpstream) {
  HandMachine machine(3);
  const PortId out = machine.port(4);
  const LinkId first = machine.link(kHost, kOne, 1);
  const LinkId second = machine.link(kOne, kTwo, 4, {{out, 1}});
  const LinkId other = machine.link(kOne, kThree, 4, {{out, 1}});
  HandPlan plan(machine.get(), {8, 21});
  const TaskId a = plan.copy({.link = first, .tile = 0, .chunks = 8});
  const TaskId b = plan.copy({.link = second, .tile = 0, .chunks = 8, .upstream = a});
  const TaskId c = plan.copy({.link = other, .tile = 1});

  const Trace trace = simulate(plan.get(), machine.get());

  // c has the port alone for 1 s (4 elements), then 3 of 4, because b cannot use more than 1: 17/3
  // s more.
  EXPECT_DOUBLE_EQ(stop_s(trace, c), 1 + 17.0 / 3);
  EXPECT_NEAR(stop_s(trace, b), 8 + 0.25, 1e-9);  // the last chunk at its own speed
}

TEST(Simulate, AHopThatStartsLateCatchesUpThenKeepsBehindItsUpstream) {
  HandMachine machine(2);
  const LinkId first = machine.link(kHost, kOne, 1);
  const LinkId second = machine.link(kOne, kTwo, 2);
  HandPlan plan(machine.get(), {16, 8});
  const TaskId busy = plan.copy({.link = second, .tile = 1});  // until 4
  const TaskId a = plan.copy({.link = first, .tile = 0, .chunks = 16});
  const TaskId b = plan.copy({.link = second, .tile = 0, .chunks = 16, .upstream = a});

  const Trace trace = simulate(plan.get(), machine.get());

  EXPECT_DOUBLE_EQ(stop_s(trace, busy), 4);
  EXPECT_DOUBLE_EQ(start_s(trace, b), 4);
  EXPECT_DOUBLE_EQ(stop_s(trace, a), 16);
  EXPECT_NEAR(stop_s(trace, b), 16.5, 1e-9);  // catches up at 7, then stays one chunk behind
}

TEST(Simulate, AHopWhoseUpstreamIsLongDoneRunsAtItsOwnSpeed) {
  HandMachine machine(2);
  const LinkId first = machine.link(kHost, kOne, 1);
  const LinkId second = machine.link(kOne, kTwo, 2);
  HandPlan plan(machine.get(), {4, 24});
  plan.copy({.link = second, .tile = 1});  // until 12
  const TaskId a = plan.copy({.link = first, .tile = 0, .chunks = 4});
  const TaskId b = plan.copy({.link = second, .tile = 0, .chunks = 4, .upstream = a});

  const Trace trace = simulate(plan.get(), machine.get());

  EXPECT_DOUBLE_EQ(stop_s(trace, b), 12 + 2);
}

TEST(Simulate, TwoKernelsOfOneDeviceShareIt) {
  HandMachine machine(1);
  HandPlan plan(machine.get(), {2, 3});
  const TaskId a = plan.compute({.tile = 0, .lane = 0});
  const TaskId b = plan.compute({.tile = 1, .lane = 1});

  const Trace trace = simulate(plan.get(), machine.get());

  EXPECT_DOUBLE_EQ(stop_s(trace, a), 4);
  EXPECT_DOUBLE_EQ(stop_s(trace, b), 5);
}

TEST(Simulate, KernelsOfOneLaneFollowEachOther) {
  HandMachine machine(2);
  HandPlan plan(machine.get(), {2, 3});
  const TaskId a = plan.compute({.tile = 0});
  const TaskId b = plan.compute({.tile = 1});
  const TaskId elsewhere = plan.compute({.device = kTwo, .tile = 1});

  const Trace trace = simulate(plan.get(), machine.get());

  EXPECT_DOUBLE_EQ(stop_s(trace, a), 2);
  EXPECT_DOUBLE_EQ(start_s(trace, b), 2);
  EXPECT_DOUBLE_EQ(stop_s(trace, b), 5);
  EXPECT_DOUBLE_EQ(stop_s(trace, elsewhere), 3);
}

TEST(Simulate, LaunchesOfSeveralLanesOverlapWithArithmetic) {
  HandMachine machine(1);
  machine.get().devices[kOne].launch_s = 1;
  HandPlan plan(machine.get(), {4});
  const TaskId a = plan.compute({.lane = 0});
  const TaskId b = plan.compute({.lane = 1, .after = {}});
  const TaskId c = plan.compute({.lane = 0});

  const Trace trace = simulate(plan.get(), machine.get());

  EXPECT_DOUBLE_EQ(stop_s(trace, a), 9);  // 1 + 4 at half speed
  EXPECT_DOUBLE_EQ(stop_s(trace, b), 9);
  EXPECT_DOUBLE_EQ(stop_s(trace, c), 14);  // 1 + 4 alone
}

TEST(Simulate, StreamingKernelsAreBoundByMemory) {
  HandMachine machine(1);
  HandPlan plan(machine.get(), {4});
  const TaskId scale = plan.compute({.kernel = Kernel::scale});
  const TaskId add = plan.compute({.kernel = Kernel::add});

  const Trace trace = simulate(plan.get(), machine.get());

  EXPECT_DOUBLE_EQ(stop_s(trace, scale), 2 * 4);    // read and written
  EXPECT_DOUBLE_EQ(stop_s(trace, add), 8 + 3 * 4);  // two read, one written
}

// A virtual device: one thread computes its kernels and makes the copies into it.
struct ThreadOfOneDevice : ::testing::Test {
  ThreadOfOneDevice() {
    thread = machine.port(1.0 / 8, "thread 0");  // capacity 1: busy seconds
    in = machine.link(kHost, kOne, 2, {{thread, 1.0 / 16}});
    machine.get().devices[kOne].ports = {{thread, 1}};
  }
  HandMachine machine{1};
  PortId thread = 0;
  LinkId in = 0;
};

TEST_F(ThreadOfOneDevice, IsSharedHalfAndHalfByAKernelAndACopy) {
  HandPlan plan(machine.get(), {3, 10});
  const TaskId kernel = plan.compute({.tile = 0});
  const TaskId copy = plan.copy({.link = in, .tile = 1});

  const Trace trace = simulate(plan.get(), machine.get());

  EXPECT_DOUBLE_EQ(stop_s(trace, kernel), 6);  // half the thread
  EXPECT_DOUBLE_EQ(stop_s(trace, copy), 8);    // 6 elements by then, 4 more at 2 per second
}

TEST_F(ThreadOfOneDevice, BelongsToWhoeverIsAlone) {
  HandPlan plan(machine.get(), {3, 10});
  const TaskId kernel = plan.compute({.tile = 0});
  const TaskId copy = plan.copy({.link = in, .tile = 1, .after = {kernel}});

  const Trace trace = simulate(plan.get(), machine.get());

  EXPECT_DOUBLE_EQ(stop_s(trace, kernel), 3);
  EXPECT_DOUBLE_EQ(stop_s(trace, copy), 3 + 5);
}

TEST(Simulate, FourVirtualDevicesOnTwoCoresRunAtHalfSpeed) {
  HandMachine machine(4);
  const PortId cores = machine.port(2.0 / 8, "cores");
  for (DeviceId d = kFirstDevice; d < kFirstDevice + 4; ++d) {
    machine.get().devices[static_cast<std::size_t>(d)].ports = {{cores, 1}};
    machine.get().devices[static_cast<std::size_t>(d)].launch_s = 0.5;
  }
  HandPlan plan(machine.get(), {2});
  for (DeviceId d = kFirstDevice; d < kFirstDevice + 4; ++d) plan.compute({.device = d});

  const Trace trace = simulate(plan.get(), machine.get());

  for (TaskId task = 0; task < 4; ++task) EXPECT_DOUBLE_EQ(stop_s(trace, task), 0.5 + 4);
}

TEST(Simulate, ADeviceQueueDoesCopiesAndKernelsOneByOne) {
  HandMachine machine(1);
  const LinkId in = machine.link(kHost, kOne, 1);
  HandPlan plan(machine.get(), {2, 3});
  const TaskId kernel = plan.compute({.tile = 0, .queue = Queue::Kind::device});
  const TaskId copy = plan.copy({.link = in, .tile = 1});
  plan.task(copy).queue = plan.task(kernel).queue;

  const Trace trace = simulate(plan.get(), machine.get());

  EXPECT_DOUBLE_EQ(stop_s(trace, kernel), 2);
  EXPECT_DOUBLE_EQ(start_s(trace, copy), 2);
  EXPECT_DOUBLE_EQ(stop_s(trace, copy), 5);
}

TEST(Simulate, TasksStartNoEarlierThanTheyAreIssued) {
  HandMachine machine(2);
  const LinkId in = machine.link(kHost, kOne, 8);
  machine.get().issue_s = 0.5;
  HandPlan plan(machine.get(), {8, 1});
  const TaskId copy = plan.copy({.link = in, .tile = 0});
  const TaskId kernel = plan.compute({.device = kTwo, .tile = 1});
  const TaskId short_copy = plan.copy({.link = in, .tile = 1});
  const TaskId late = plan.compute({.device = kTwo, .tile = 1, .lane = 1});

  const Trace trace = simulate(plan.get(), machine.get());

  EXPECT_DOUBLE_EQ(start_s(trace, copy), 0);
  EXPECT_DOUBLE_EQ(start_s(trace, kernel), 0.5);
  EXPECT_DOUBLE_EQ(start_s(trace, short_copy),
                   1);  // after the first copy, and as soon as it is issued
  EXPECT_DOUBLE_EQ(start_s(trace, late), 1.5);
  EXPECT_DOUBLE_EQ(stop_s(trace, late), 2.5);
}

TEST(Simulate, RefusesAPlanThatWaitsForItself) {
  HandMachine machine(1);
  const LinkId in = machine.link(kHost, kOne, 1);
  HandPlan plan(machine.get(), {2});
  plan.copy({.link = in, .after = {0}});

  EXPECT_THROW(simulate(plan.get(), machine.get()), Error);
}

TEST(Simulate, RefusesAKernelThatTheDeviceCannotDo) {
  HandMachine machine(1);
  machine.get().devices[kOne].kernels.clear();
  HandPlan plan(machine.get(), {2});
  plan.compute({});

  EXPECT_THROW(simulate(plan.get(), machine.get()), Error);
}

TEST(Simulate, RefusesAPlanMadeForALargerMachine) {
  HandMachine large(2), small(1);
  HandPlan plan(large.get(), {2});
  plan.compute({.device = kTwo});

  EXPECT_THROW(simulate(plan.get(), small.get()), Error);
}

TEST(KernelPool, HasTheKernelWithTheShorterDelayFirst) {
  KernelPool pool;
  pool.start(/*queue=*/0, /*delay_s=*/2, /*work_s=*/2, /*now_s=*/0);
  pool.start(1, 1, 2, 0);  // alone from 1 to 2, then both at half their speed

  EXPECT_EQ(pool.next_event_s(), 4);
  EXPECT_EQ(pool.take_finished(4), 1);
  EXPECT_EQ(pool.take_finished(4), KernelPool::kNone);
  EXPECT_EQ(pool.next_event_s(), 5);
  EXPECT_EQ(pool.take_finished(5), 0);
  EXPECT_EQ(pool.next_event_s(), KernelPool::kIdle);
}

TEST(KernelPool, LeavesTheDeviceToOthersDuringADelay) {
  KernelPool pool;
  pool.start(0, 4, 1, 0);
  pool.start(1, 1, 2, 0);

  EXPECT_EQ(pool.next_event_s(), 3);
  EXPECT_EQ(pool.take_finished(3), 1);
  EXPECT_EQ(pool.next_event_s(), 5);
  EXPECT_EQ(pool.take_finished(5), 0);
}

}  // namespace
}  // namespace fleet::test
