// SPDX-License-Identifier: BSD-3-Clause
// test_cuda_senders.cpp: which stream does the tasks of a queue.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "backend/cuda/senders.hpp"
#include "support/hand_plan.hpp"

namespace fleet::cuda {
namespace {

using test::HandMachine;
using test::HandPlan;

constexpr DeviceId kD0 = kFirstDevice, kD1 = kFirstDevice + 1, kD2 = kFirstDevice + 2;

/// Three devices and links between all of them and the host; devices send in turn, or do not.
struct Three {
  explicit Three(bool in_turn) : plan(machine.get(), {8}) {
    for (const DeviceId from : {kHost, kD0, kD1, kD2})
      for (const DeviceId to : {kHost, kD0, kD1, kD2})
        if (from != to) links.push_back({from, to, machine.link(from, to, 1)});
    if (in_turn) plan.send_in_turn();
  }
  TaskId copy(TaskKind kind, DeviceId from, DeviceId to) {
    const auto link = std::ranges::find_if(
        links, [&](const auto& one) { return one.from == from && one.to == to; });
    const TaskId id = plan.copy({.link = link->id});
    plan.task(id).kind = kind;
    return id;
  }
  Queue own(TaskId id) const { return plan.get().queues[queue_of(id)]; }
  Queue served(TaskId id) const { return served_by(plan.get())[queue_of(id)]; }

  struct Between {
    DeviceId from, to;
    LinkId id;
  };
  HandMachine machine{3};
  std::vector<Between> links;
  HandPlan plan;

 private:
  std::size_t queue_of(TaskId id) const {
    return static_cast<std::size_t>(plan.get().tasks[static_cast<std::size_t>(id)].queue);
  }
};

constexpr TaskKind kInput = TaskKind::fetch, kResult = TaskKind::writeback;

TEST(Senders, TakeWhatADeviceSendsToAnyOther) {
  Three three(true);
  const TaskId to_1 = three.copy(kInput, kD0, kD1), to_2 = three.copy(kInput, kD0, kD2),
               onwards = three.copy(kInput, kD1, kD2);

  EXPECT_EQ(three.served(to_1), sender_of(kD0));
  EXPECT_EQ(three.served(to_2), sender_of(kD0));
  EXPECT_EQ(three.served(onwards), sender_of(kD1));
  EXPECT_EQ(owner_of(sender_of(kD1)), kD1);
}

TEST(Senders, LeaveTheHostAndLanesAlone) {
  Three three(true);
  const TaskId in = three.copy(kInput, kHost, kD0), home = three.copy(kResult, kD0, kHost),
               product = three.plan.compute({.device = kD0});

  for (const TaskId id : {in, home, product}) {
    EXPECT_EQ(three.served(id), three.own(id)) << id;
    EXPECT_EQ(owner_of(three.own(id)), kD0) << id;
  }
}

TEST(Senders, DoNotTakeQueuesThatOnlyBringResultsHome) {
  Three three(true);
  const TaskId input = three.copy(kInput, kD1, kD2), home = three.copy(kResult, kD1, kD0),
               both = three.copy(kResult, kD2, kD0);
  three.copy(kInput, kD2, kD0);  // in the queue of `both`, which stays in order

  EXPECT_EQ(three.served(input), sender_of(kD1));
  EXPECT_EQ(three.served(home), three.own(home));
  EXPECT_EQ(owner_of(three.own(home)), kD1);
  EXPECT_EQ(three.served(both), sender_of(kD2));
}

TEST(Senders, TakeInputsOnlyOfWhatASourceSends) {
  Three three(true);
  const TaskId input = three.copy(kInput, kD0, kD1), passed = three.copy(kInput, kD0, kD2);
  Plan plan = three.plan.get();
  const auto queue_of = [&](TaskId id) {
    return static_cast<std::size_t>(plan.tasks[static_cast<std::size_t>(id)].queue);
  };
  plan.queues[queue_of(passed)].sent = Sent::passed;

  const std::vector<Queue> served = served_by(plan);
  EXPECT_EQ(served[queue_of(input)], sender_of(kD0));
  EXPECT_EQ(served[queue_of(passed)], plan.queues[queue_of(passed)]);
  EXPECT_EQ(owner_of(served[queue_of(passed)]), kD0);
}

TEST(Senders, TakeNothingWhereLinksAreIndependent) {
  Three three(false);
  const TaskId to_1 = three.copy(kInput, kD0, kD1), to_2 = three.copy(kInput, kD0, kD2);

  EXPECT_EQ(three.served(to_1), three.own(to_1));
  EXPECT_EQ(three.served(to_2), three.own(to_2));
  EXPECT_EQ(owner_of(three.own(to_2)), kD2);
}

}  // namespace
}  // namespace fleet::cuda
