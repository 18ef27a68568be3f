// SPDX-License-Identifier: BSD-3-Clause
// test_goal.cpp: objectives as words and as numbers, plans chosen by them, and their lower bounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "plan/bound.hpp"
#include "support/random_plans.hpp"
#include "support/scale.hpp"
#include "support/shipped.hpp"
#include "tune/goal_bound.hpp"
#include "tune/limits.hpp"
#include "tune/teams.hpp"
#include "tune/tune.hpp"

namespace fleet {
namespace {

using test::all_of;
using test::between;
using test::shipped;
using test::square;
using Random = test::Generator;
using Kind = Objective::Kind;

Tuned tuned(const Problem& problem, const Machine& machine, const Goal& goal, bool selects = true) {
  return tune(problem, machine, {.selects = selects, .goal = goal});
}

Goal goal_of(const char* text) { return {.objective = parse_objective(text)}; }

TEST(Objective, HasAWordForEachKind) {
  for (const char* word : {"time", "edp", "energy", "energy@1.1", "energy@1"})
    EXPECT_EQ(to_string(parse_objective(word)), word);
  EXPECT_EQ(parse_objective("pdp"), parse_objective("energy"));
  EXPECT_EQ(parse_objective("pdp@2").most_time, 2);
  for (const char* word : {"", "watts", "time@2", "edp@1.1", "energy@", "energy@0.9", "energy@nan",
                           "energy@inf", "energy@1.1x", "Energy"})
    EXPECT_THROW(parse_objective(word), Error) << word;
}

TEST(Goal, WeighsJoulesAndWithoutKnownWattsTheTimeOfDevices) {
  const Cost known{.seconds = 2, .devices = 3, .joules = 50};
  const Cost unknown{.seconds = 2, .devices = 3};
  EXPECT_EQ(goal_of("time").value(known), 2);
  EXPECT_EQ(goal_of("edp").value(known), 100);
  EXPECT_EQ(goal_of("energy").value(known), 50);
  EXPECT_EQ(goal_of("edp").value(unknown), 12);
  EXPECT_EQ(goal_of("energy@3").value(unknown), 6);
  const Goal own{.objective = {.kind = Kind::own},
                 .own = [](const Cost& c) { return c.joules > 0 ? -c.joules : std::nan(""); }};
  EXPECT_EQ(own.value(known), -50);
  EXPECT_EQ(own.value(unknown), std::numeric_limits<double>::infinity());
}

/// The value of what each objective chooses is the least of all that were planned for any of them.
TEST(Goal, IsWhatTheChoiceIsBestAt) {
  for (const char* name : test::few({"clx-ai", "h200x4"})) {
    const Machine machine = shipped(name);
    for (const std::int64_t n : test::few({512, 2048, 8192}))
      for (const DeviceId home : {kHost, kFirstDevice}) {
        const Problem problem = square(n, home);
        const Cost fastest = tuned(problem, machine, {}).cost;
        for (const char* word : {"edp", "energy", "energy@1.1"}) {
          const Goal goal = goal_of(word);
          const Tuned chosen = tuned(problem, machine, goal);
          EXPECT_LE(goal.value(chosen.cost), limits::kNear * goal.value(fastest))
              << name << n << word;
          EXPECT_EQ(check(chosen.plan), "");
          // The search for other values may also find a plan that is faster by a little.
          EXPECT_GE(chosen.cost.seconds, 0.9 * fastest.seconds) << name << n << word;
          if (std::isfinite(goal.objective.most_time)) {
            EXPECT_LE(chosen.cost.seconds, 1.1 * fastest.seconds * (1 + 1e-9)) << name << n;
          }
        }
      }
  }
}

TEST(Goal, EnergyTakesFewDevicesWhereMoreOnlyWait) {
  const Machine machine = shipped("clx-ai");
  const Problem problem = square(2048, kFirstDevice);
  const Tuned fastest = tuned(problem, machine, {}),
              frugal = tuned(problem, machine, goal_of("energy"));
  EXPECT_LT(frugal.plan.tuning.workers.size(), fastest.plan.tuning.workers.size());
  EXPECT_LT(frugal.cost.joules, fastest.cost.joules);
  EXPECT_FALSE(frugal.search.left_out().empty());
  const auto verdict = [&](Considered::Verdict v) {
    return std::ranges::count(frugal.search.list, v, &Considered::verdict);
  };
  EXPECT_GT(verdict(Considered::Verdict::worse), 0);
  EXPECT_EQ(verdict(Considered::Verdict::slower), 0);
}

TEST(Goal, EnergyWithinATimeSaysWhatIsTooSlow) {
  const Machine machine = shipped("clx-ai");
  const Tuned chosen = tuned(square(4096, kFirstDevice), machine, goal_of("energy@1.05"));
  double least_s = chosen.cost.seconds;
  bool seen = false;
  for (const Considered& c : chosen.search.list)
    if (c.is_planned()) least_s = std::min(least_s, c.seconds);
  EXPECT_LE(chosen.cost.seconds, 1.05 * least_s);
  for (const Considered& c : chosen.search.list) {
    if (!c.is_planned()) continue;
    EXPECT_EQ(c.verdict == Considered::Verdict::too_slow, c.seconds > 1.05 * least_s);
    if (c.verdict == Considered::Verdict::too_slow && !seen) {
      seen = true;
      EXPECT_NE(chosen.search.reason(c).find("times the least time, at most 1.05 is allowed"),
                std::string::npos)
          << chosen.search.reason(c);
    }
  }
  EXPECT_TRUE(seen);
}

TEST(Goal, OfTheCallerMayBeNegativeOrRefuseCosts) {
  const Machine machine = shipped("clx-ai");
  const Problem problem = square(2048, kFirstDevice);
  const auto own = [&](auto f) { return Goal{.objective = {.kind = Kind::own}, .own = f}; };
  // Most GFLOPS per watt is least energy.
  const Tuned frugal = tuned(problem, machine, goal_of("energy"));
  const Tuned negative = tuned(problem, machine, own([](const Cost& c) { return -1 / c.joules; }));
  EXPECT_EQ(negative.cost.joules, frugal.cost.joules);
  const Tuned pair =
      tuned(problem, machine,
            own([](const Cost& c) { return c.devices == 2 ? c.seconds : std::nan(""); }));
  EXPECT_EQ(pair.cost.devices, 2);
  EXPECT_THROW(tuned(problem, machine, own([](const Cost&) { return std::nan(""); })), Error);
}

// Sets of one size differ by the ports and links that their devices share; products with a long k
// are estimated with long steps of it.
TEST(Goal, ChoosesASetNearlyAsGoodAsTheBestOfAll) {
  const Machine machine = shipped("clx-ai");
  const Goal goal = goal_of("edp");
  for (const auto& [mn, k] :
       test::few({std::pair{384, 12288}, std::pair{4096, 4096}, std::pair{3584, 28672}})) {
    const Problem problem = make_problem({.m = mn, .n = mn, .k = k});
    double least = std::numeric_limits<double>::infinity();
    for (const Team& team : all_sets(problem, machine, all_of(machine)))
      least =
          std::min(least, goal.value(tune(problem, machine, {.workers = team, .goal = goal}).cost));
    EXPECT_LE(goal.value(tuned(problem, machine, goal).cost), 1.09 * least) << to_text(problem);
  }
}

// By its time, for which it is tried first, the set is far behind.
TEST(Goal, VariesSetsThatWereTriedForTheirTime) {
  const Machine machine = shipped("clx-ai");
  const Goal goal = goal_of("edp");
  const Problem problem = square(8192, kHost);
  const Team by_hand{kFirstDevice, kFirstDevice + 2, kFirstDevice + 4, kFirstDevice + 6};
  const Cost cost = tune(problem, machine, {.workers = by_hand, .goal = goal}).cost;
  EXPECT_LE(goal.value(tuned(problem, machine, goal).cost), 1.02 * goal.value(cost));
}

TEST(GoalBound, IsBelowEveryPlanOfEverySet) {
  Random random(7);
  for (const char* name : test::few({"clx-ai", "h200x4", "dgx1"})) {
    const Machine machine = shipped(name);
    const Team all = all_of(machine);
    for (int trial = 0; trial < test::scaled(6); ++trial) {
      const auto edge = [&] { return between(random, 1, 12) * 512; };
      const auto home = [&] {
        return static_cast<DeviceId>(between(random, 0, 1) == 0 ? kHost
                                                                : between(random, kFirstDevice, 5));
      };
      const Problem problem = make_problem({.m = edge(), .n = edge(), .k = edge()},
                                           {.homes = {home(), home(), home()}});
      for (const char* word : {"time", "edp", "energy"}) {
        const Goal goal = goal_of(word);
        const double least = goal_bound(problem, machine, all, goal).value();
        EXPECT_GT(least, 0);
        for (const Team& team : teams(problem, machine, all, goal)) {
          const Cost cost = tune(problem, machine, {.workers = team, .goal = goal}).cost;
          EXPECT_LE(least, goal.value(cost)) << name << " " << to_text(problem) << " " << word;
          EXPECT_LE(goal_bound(problem, machine, team, goal).value(), goal.value(cost));
        }
      }
    }
  }
}

TEST(GoalBound, IsBelowPlansThatLeaveWorkersWithoutWork) {
  const Machine machine = shipped("h200x8");
  const Problem problem = make_problem({.m = 1, .n = 1, .k = 50'000'000}, {});
  for (const char* word : {"edp", "energy"}) {
    const Goal goal = goal_of(word);
    EXPECT_LE(goal_bound(problem, machine, all_of(machine), goal).value(),
              goal.value(tuned(problem, machine, goal, false).cost))
        << word;
  }
}

TEST(GoalBound, ByTheNumberOfDevicesIsBelowThatBySets) {
  const Machine eight = shipped("clx-ai");
  Machine nine = eight;
  nine.devices.push_back(nine.devices.back());
  nine.devices.back().name = "8";
  for (const Link& link : eight.links) {
    Link to_ninth = link;
    if (link.target == kFirstDevice + 7) to_ninth.target = kFirstDevice + 8;
    if (link.source == kFirstDevice + 7) to_ninth.source = kFirstDevice + 8;
    if (!(to_ninth == link)) nine.links.push_back(to_ninth);
  }
  for (const std::int64_t n : {1024, 8192}) {
    const Problem problem = square(n, kHost);
    for (const char* word : {"edp", "energy"}) {
      const Goal goal = goal_of(word);
      const double by_sets = goal_bound(problem, eight, all_of(eight), goal).value();
      const double by_number = goal_bound(problem, nine, all_of(nine), goal).value();
      EXPECT_LE(by_number, by_sets * (1 + 1e-9));
      EXPECT_GT(by_number, 0.3 * by_sets);
    }
  }
  EXPECT_FALSE(
      goal_bound(square(64, kHost), eight, all_of(eight),
                 {.objective = {.kind = Kind::own}, .own = [](const Cost&) { return 1; }}));
}

TEST(Goal, IsUsedForVectorsToo) {
  const Machine machine = shipped("h200x4");
  const Problem problem = make_problem({.routine = Routine::gemv, .m = 1, .n = 8192, .k = 8192},
                                       {.homes = {kHost, kHost, kHost}});
  const Cost fastest = tuned(problem, machine, {}).cost;
  const Cost frugal = tuned(problem, machine, goal_of("energy")).cost;
  EXPECT_LE(frugal.joules, fastest.joules);
  EXPECT_GE(frugal.seconds, fastest.seconds);
  EXPECT_GT(frugal.joules, 0);
}

}  // namespace
}  // namespace fleet
