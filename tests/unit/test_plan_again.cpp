// SPDX-License-Identifier: BSD-3-Clause
// test_plan_again.cpp: one problem at a time is planned beside its caller, and each outcome is
// given once, unless it is not wanted any more. It plans nothing.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <new>
#include <thread>

#include "core/plan_again.hpp"

namespace fleet {
namespace {

Problem cube(std::int64_t edge) { return make_problem({.m = edge, .n = edge, .k = edge}); }
PlanAgain::Work plans(int number) {
  return [number](const auto&) {
    return Tuned{.plan = {}, .cost = {}, .planned = number, .search = {}};
  };
}
std::optional<PlanAgain::Outcome> wait_for(PlanAgain& again) {
  while (again.is_busy()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return again.take();
}

TEST(PlanAgain, GivesEachOutcomeOnce) {
  PlanAgain again;
  EXPECT_FALSE(again.take());
  for (int number = 1; number <= 3; ++number) {
    again.begin(cube(number), 10 + number, plans(number));

    const auto outcome = wait_for(again);
    ASSERT_TRUE(outcome && outcome->tuned);
    EXPECT_EQ(outcome->problem, cube(number));
    EXPECT_EQ(outcome->tuned->planned, number);
    EXPECT_EQ(outcome->made_for, 10u + static_cast<unsigned>(number));
    EXPECT_GE(outcome->plan_s, 0);
    EXPECT_FALSE(again.take());
  }
}

TEST(PlanAgain, TakesOneProblemAtATime) {
  PlanAgain again;
  std::promise<void> go;
  again.begin(cube(1), 0, [&, wait = go.get_future().share()](const auto& gives_up) {
    return wait.wait(), plans(1)(gives_up);
  });
  EXPECT_TRUE(again.is_busy());
  EXPECT_FALSE(again.can_begin());
  again.begin(cube(2), 0, plans(2));
  EXPECT_FALSE(again.take());
  go.set_value();

  const auto outcome = wait_for(again);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->problem, cube(1));
  EXPECT_TRUE(again.can_begin());
}

TEST(PlanAgain, LeavesWhatIsNotWantedAnyMore) {
  PlanAgain again;
  std::promise<void> go;
  again.begin(cube(1), 0, [&, wait = go.get_future().share()](const auto& gives_up) {
    return wait.wait(), plans(1)(gives_up);
  });
  again.forget();
  go.set_value();
  EXPECT_FALSE(wait_for(again));

  again.begin(cube(2), 0, plans(2));
  const auto outcome = wait_for(again);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->problem, cube(2));
}

/// It would go on for ever.
TEST(PlanAgain, EndsWhatIsNotWantedAnyMore) {
  const auto until_given_up = [](const auto& gives_up) -> Tuned {
    while (!gives_up()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    throw GaveUp();
  };
  std::promise<void> begun;
  std::atomic<bool> has_ended{false};
  {
    PlanAgain again;
    again.begin(cube(1), 0, until_given_up);
    again.forget();
    EXPECT_FALSE(wait_for(again));
    EXPECT_TRUE(again.can_begin());

    again.begin(cube(2), 0, [&](const auto& gives_up) -> Tuned {
      struct Note {
        std::atomic<bool>& ended;
        ~Note() { ended = true; }
      } note{has_ended};
      begun.set_value();
      return until_given_up(gives_up);
    });
    begun.get_future().wait();
  }
  EXPECT_TRUE(has_ended);  // with its owner
}

TEST(PlanAgain, HasNoPlanWherePlanningThrows) {
  PlanAgain again;
  again.begin(cube(1), 0, [](const auto&) -> Tuned { throw std::bad_alloc(); });

  const auto outcome = wait_for(again);
  ASSERT_TRUE(outcome);
  EXPECT_FALSE(outcome->tuned);
}

TEST(PlanAgain, BeginsNothingInAForkedChild) {
  PlanAgain again;
  again.begin(cube(1), 0, plans(1));
  ASSERT_TRUE(wait_for(again));

  const pid_t child = fork();
  if (child == 0) {
    const bool could = again.can_begin();
    again.begin(cube(2), 0, plans(2));
    _exit(could || again.take() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace fleet
