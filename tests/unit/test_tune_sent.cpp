// SPDX-License-Identifier: BSD-3-Clause
// test_tune_sent.cpp: which copies between devices their sources send, and in which order.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "plan/plan.hpp"
#include "support/shipped.hpp"
#include "tune/tune.hpp"

namespace fleet {
namespace {

/// The queues that go in turn, each of which is between devices.
int queues_in_turn(const Machine& machine, const std::array<DeviceId, 3>& homes,
                   const TuneRequest& request = {.tile = 256}) {
  const Problem problem = make_problem({.m = 512, .n = 512, .k = 512}, {.homes = homes});
  int count = 0;
  for (const Queue& queue : tune(problem, machine, request).plan.queues) {
    count += queue.in_turn;
    if (!queue.in_turn) continue;
    EXPECT_EQ(queue.kind, Queue::Kind::link);
    EXPECT_FALSE(on_host(queue.device) || on_host(queue.source));
  }
  return count;
}

TEST(Tune, SendsInTurnWhereAllDataLieOnOneDeviceOfASwitch) {
  const Machine h200x4 = test::shipped("h200x4"), dgx1 = test::shipped("dgx1");
  const DeviceId d = kFirstDevice, e = kFirstDevice + 1;
  EXPECT_EQ(queues_in_turn(h200x4, {d, d, d}), 4 * 3);
  // Inputs from each of the two, results to each, and what any passes on.
  EXPECT_EQ(queues_in_turn(h200x4, {d, e, d}), 2 * 3 + 2 * 3 + 4 * 3);
  EXPECT_EQ(queues_in_turn(h200x4, {d, e, d}, {.workers = {d, e}}), 0);
  EXPECT_EQ(queues_in_turn(dgx1, {d, e, d}), 0);
  EXPECT_EQ(queues_in_turn(h200x4, {kHost, kHost, kHost}), 0);
  EXPECT_EQ(queues_in_turn(dgx1, {d, d, d}), 0);
  // Of two workers one sends to a single other.
  EXPECT_EQ(queues_in_turn(h200x4, {d, d, d}, {.workers = {d, e}}), 0);
  EXPECT_EQ(queues_in_turn(h200x4, {d, d, d}, {.workers = {d + 1, d + 2}}), 4 * 3);
  EXPECT_EQ(queues_in_turn(h200x4, {d, d, d}, {.rules = Rules::all().without(Rule::overlap)}), 0);
}

TEST(Tune, SendsWhatIsReadyPassedOnAndDoneThroughQueuesOfTheirOwn) {
  const Machine machine = test::shipped("h200x4");
  const DeviceId d = kFirstDevice;
  for (const DeviceId home_of_a : {kHost, d + 1, d + 2}) {
    const Problem problem =
        make_problem({.m = 4096, .n = 4096, .k = 2048}, {.homes = {home_of_a, d + 1, d}});
    const Plan plan = tune(problem, machine, {.tile = 512}).plan;
    EXPECT_EQ(check(plan), "");
    const std::vector<DeviceId> sent_by = senders(plan);
    int copies[3] = {};
    for (const Task& task : plan.tasks) {
      if (task.kind == TaskKind::compute || on_host(task.from.device) || on_host(task.to.device))
        continue;
      const Queue& queue = plan.queues[static_cast<std::size_t>(task.queue)];
      const bool is_input = task.kind == TaskKind::fetch && task.from.in_place();
      const Sent expected = task.kind == TaskKind::writeback ? Sent::results
                            : is_input                       ? Sent::inputs
                                                             : Sent::passed;
      EXPECT_TRUE(queue.in_turn);
      EXPECT_EQ(queue.sent, expected);
      EXPECT_EQ(sent_by[static_cast<std::size_t>(task.queue)],
                is_input ? task.from.device : DeviceId{-1});
      ++copies[static_cast<int>(queue.sent)];
    }
    EXPECT_GT(std::ranges::min(copies), 0);
  }
}

// What a device has to send is not ready all at once, so that other copies come in between.
TEST(Tune, SendsTargetsAFewAheadOfTheKernelsThatNeedThem) {
  const Machine machine = test::shipped("h200x4");
  const DeviceId d = kFirstDevice;
  const Problem problem =
      make_problem({.m = 16384, .n = 16384, .k = 512}, {.homes = {d + 1, d + 2, d}});
  const Plan plan = tune(problem, machine, {.tile = 1024}).plan;
  std::map<DeviceId, std::vector<TaskId>> sent;
  int waiting = 0;
  for (TaskId id = 0; id < std::ssize(plan.tasks); ++id) {
    const Task& task = plan.tasks[static_cast<std::size_t>(id)];
    if (task.kind != TaskKind::fetch || task.from != Where{d, -1}) continue;
    std::vector<TaskId>& before = sent[task.device()];
    if (before.size() >= 4) {
      const Where earlier = plan.tasks[static_cast<std::size_t>(*(before.end() - 4))].to;
      const bool waits = std::ranges::any_of(plan.after(task), [&](TaskId after) {
        const Task& kernel = plan.tasks[static_cast<std::size_t>(after)];
        return kernel.kind == TaskKind::compute && kernel.to == earlier;
      });
      EXPECT_TRUE(waits) << "task " << id;
      waiting += waits;
    }
    before.push_back(id);
  }
  EXPECT_GT(waiting, 20);
}

}  // namespace
}  // namespace fleet
