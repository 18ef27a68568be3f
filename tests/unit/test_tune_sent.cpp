// SPDX-License-Identifier: BSD-3-Clause
// test_tune_sent.cpp: which copies between devices their sources send, and in which order.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "plan/pacing.hpp"
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

TEST(Tune, SendsInTurnFromDevicesOfASwitchWithOthersToServe) {
  const Machine h200x4 = test::shipped("h200x4"), dgx1 = test::shipped("dgx1");
  const DeviceId d = kFirstDevice, e = kFirstDevice + 1;
  EXPECT_EQ(queues_in_turn(h200x4, {d, d, d}), 4 * 3);
  // Inputs from each of the two, results to one, and what is passed on to the two by others that
  // have less.
  EXPECT_EQ(queues_in_turn(h200x4, {d, e, d}), 2 * 3 + 3 + (3 + 2));
  EXPECT_EQ(queues_in_turn(h200x4, {d, e, d}, {.workers = {d, e}}), 2 + 1 + 1);
  EXPECT_EQ(queues_in_turn(dgx1, {d, e, d}), 0);
  EXPECT_EQ(queues_in_turn(h200x4, {kHost, kHost, kHost}), 0);
  EXPECT_EQ(queues_in_turn(dgx1, {d, d, d}), 0);
  EXPECT_EQ(queues_in_turn(h200x4, {d, d, d}, {.workers = {d, e}}), 4 * 3);
  EXPECT_EQ(queues_in_turn(h200x4, {d, d, d}, {.workers = {d}}), 0);
  EXPECT_EQ(queues_in_turn(h200x4, {d, d, d}, {.workers = {e}}), 4 * 3);
  EXPECT_EQ(queues_in_turn(h200x4, {d, d, d}, {.workers = {d + 1, d + 2}}), 4 * 3);
  EXPECT_EQ(queues_in_turn(h200x4, {d, d, d}, {.rules = Rules::all().without(Rule::overlap)}), 0);
}

// What is passed on is sent where the source has less at home than the target, and fetched
// elsewhere.
TEST(Tune, SendsWhatIsReadyPassedOnAndDoneThroughQueuesOfTheirOwn) {
  const Machine machine = test::shipped("h200x4");
  const DeviceId d = kFirstDevice;
  for (const DeviceId home_of_a : {kHost, d + 1, d + 2}) {
    const Problem problem =
        make_problem({.m = 4096, .n = 4096, .k = 2048}, {.homes = {home_of_a, d + 1, d}});
    const Plan plan = tune(problem, machine, {.tile = 512}).plan;
    EXPECT_EQ(check(plan), "");
    const std::vector<DeviceId> sent_by = senders(plan);
    const auto at_home = [&](DeviceId device) {
      std::int64_t elements = 0;
      for (const Matrix& matrix : plan.program->matrices)
        if (matrix.home == device) elements += matrix.row_cuts.back() * matrix.col_cuts.back();
      return elements;
    };
    constexpr int kFetched = 3;
    int copies[kFetched + 1] = {};
    for (const Task& task : plan.tasks) {
      if (task.kind == TaskKind::compute || on_host(task.from.device) || on_host(task.to.device))
        continue;
      const Queue& queue = plan.queues[static_cast<std::size_t>(task.queue)];
      const bool is_input = task.kind == TaskKind::fetch && task.from.in_place();
      const Sent expected = task.kind == TaskKind::writeback ? Sent::results
                            : is_input                       ? Sent::inputs
                                                             : Sent::passed;
      EXPECT_EQ(queue.in_turn,
                expected != Sent::passed || at_home(task.from.device) < at_home(task.to.device));
      EXPECT_EQ(sent_by[static_cast<std::size_t>(task.queue)],
                is_input ? task.from.device : DeviceId{-1});
      ++copies[queue.in_turn ? static_cast<int>(queue.sent) : kFetched];
      EXPECT_TRUE(!queue.in_turn || queue.sent == expected);
    }
    EXPECT_GT(std::ranges::min(copies), 0);
  }
}

// Of A, a triangle, there is less than of B.
TEST(Tune, CountsATriangleAsHalfOfWhatIsAtHome) {
  const Machine machine = test::shipped("h200x4");
  const DeviceId d = kFirstDevice;
  const Problem problem =
      make_problem({.routine = Routine::trmm, .m = 4096, .n = 4096}, {.homes = {d, kHost, d + 1}});
  const Plan plan = tune(problem, machine, {.tile = 512}).plan;
  EXPECT_EQ(check(plan), "");
  const auto passes = [&](DeviceId source, DeviceId target) {
    return std::ranges::any_of(plan.queues, [&](const Queue& queue) {
      return queue.in_turn && queue.sent == Sent::passed && queue.source == source &&
             queue.device == target;
    });
  };
  EXPECT_TRUE(passes(d, d + 1));
  EXPECT_FALSE(passes(d + 1, d));
  EXPECT_TRUE(passes(d + 2, d));
}

// C is fetched anew in each cube, after what the one before has sent home.
TEST(Tune, TakesNoTargetThatComesHomeInBetweenForReady) {
  const Machine machine = test::shipped("h200x4");
  const DeviceId d = kFirstDevice;
  const Problem problem =
      make_problem({.m = 4096, .n = 4096, .k = 4096}, {.homes = {d + 1, d + 2, d}});
  Tuning tuning{.workers = {d, d + 1, d + 2, d + 3}, .grid = {2, 2}, .tile = 512};
  tuning.out_of_core = OutOfCore::cube;
  tuning.group = 1024;
  tuning.memory_cap.assign(machine.devices.size(), 96 << 20);
  const Plan plan = make_plan(problem, machine, tuning);
  EXPECT_EQ(check(plan), "");
  int again = 0;
  for (const Task& task : plan.tasks) {
    if (task.kind != TaskKind::fetch || task.tile.matrix != 2 || !task.from.in_place()) continue;
    const bool waits = std::ranges::any_of(plan.after(task), [&](TaskId after) {
      const Task& earlier = plan.tasks[static_cast<std::size_t>(after)];
      return earlier.kind == TaskKind::writeback && earlier.tile == task.tile;
    });
    // No other device has more at home, so what waits is fetched.
    const Queue& queue = plan.queues[static_cast<std::size_t>(task.queue)];
    EXPECT_EQ(queue.in_turn, !waits);
    EXPECT_TRUE(waits || queue.sent == Sent::inputs);
    again += waits;
  }
  EXPECT_GT(again, 50);
}

enum class Awaited { any, last };
/// Of the targets that are sent to workers, from the fifth of each on: those that wait for any
/// product of the fourth before, or for its last one, and all.
std::pair<int, int> paced(const Plan& plan, MatrixId targets, Awaited which = Awaited::any) {
  std::map<TileId, std::vector<const Task*>> products;
  for (const Task& task : plan.tasks)
    if (task.kind == TaskKind::compute && task.kernel != Kernel::add)
      products[task.tile].push_back(&task);
  std::map<DeviceId, std::vector<TileId>> sent;
  std::pair<int, int> count;
  for (const Task& task : plan.tasks) {
    if (task.kind != TaskKind::fetch || task.tile.matrix != targets || !task.from.in_place())
      continue;
    std::vector<TileId>& before = sent[task.device()];
    before.push_back(task.tile);
    if (before.size() <= 4) continue;
    const std::vector<const Task*>& fourth = products[before[before.size() - 5]];
    count.first += std::ranges::any_of(plan.after(task), [&](TaskId after) {
      const Task* const awaited = &plan.tasks[static_cast<std::size_t>(after)];
      if (fourth.empty()) return false;
      return which == Awaited::last ? awaited == fourth.back()
                                    : std::ranges::find(fourth, awaited) != fourth.end();
    });
    ++count.second;
  }
  return count;
}

TEST(Pacing, HasEachTargetComeAfterTheKernelOnTheFourthBefore) {
  Pacing pacing;
  std::vector<TaskId> last_kernel(8, kNoTask);
  pacing.enter(2);
  for (std::size_t target = 0; target < 4; ++target)
    EXPECT_EQ(pacing.send(1, last_kernel[target]), kNoTask);
  last_kernel[0] = 17;
  EXPECT_EQ(pacing.send(0, last_kernel[4]), kNoTask);  // another worker
  EXPECT_EQ(pacing.send(1, last_kernel[5]), 17);
  EXPECT_EQ(pacing.send(1, last_kernel[6]), kNoTask);  // none is planned yet
  pacing.enter(2);
  EXPECT_EQ(pacing.send(1, last_kernel[7]), kNoTask);
}

// What a device has to send is not ready all at once, so that other copies come in between.
TEST(Tune, SendsTargetsAFewAheadOfTheKernelsThatNeedThem) {
  const DeviceId d = kFirstDevice;
  // Where a factor comes from there too, targets come late and are added.
  for (const DeviceId home_of_a : {d + 1, d}) {
    const Problem problem =
        make_problem({.m = 16384, .n = 16384, .k = 2048}, {.homes = {home_of_a, d + 2, d}});
    const Plan plan = tune(problem, test::shipped("h200x4"), {.tile = 1024}).plan;
    EXPECT_EQ(check(plan), "");
    const bool comes_late = std::ranges::count(plan.tasks, Kernel::add, &Task::kernel) > 0;
    EXPECT_EQ(comes_late, home_of_a == d);
    const auto [waiting, all] = paced(plan, 2, comes_late ? Awaited::last : Awaited::any);
    EXPECT_EQ(waiting, all);
    EXPECT_GT(all, 10);
  }
}

TEST(Tune, HoldsUpNoTargetWhereOthersWaitForWhatIsSolved) {
  const DeviceId d = kFirstDevice;
  const Problem problem =
      make_problem({.routine = Routine::trsm, .m = 8192, .n = 8192}, {.homes = {d + 1, kHost, d}});
  const Plan plan = tune(problem, test::shipped("h200x4"), {.tile = 512}).plan;
  EXPECT_EQ(check(plan), "");
  const auto [waiting, all] = paced(plan, 2);
  EXPECT_EQ(waiting, 0);
  EXPECT_GT(all, 100);
}

}  // namespace
}  // namespace fleet
