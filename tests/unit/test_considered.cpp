// SPDX-License-Identifier: BSD-3-Clause
// test_considered.cpp: the tuner's verdicts on its candidates are true.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.hpp"
#include "sim/simulate.hpp"
#include "support/random_plans.hpp"
#include "tune/limits.hpp"
#include "tune/tune.hpp"

namespace fleet {
namespace {

using test::node;
using Verdict = Considered::Verdict;

Considered planned(double seconds, std::int64_t tasks) {
  return {.seconds = seconds, .value = seconds, .tasks = tasks};
}

int count(const Search& search, Verdict verdict) {
  return static_cast<int>(std::ranges::count(search.list, verdict, &Considered::verdict));
}

/// A tuning, and the data that its verdicts are checked against.
struct Trial {
  const Tuned& tuned;
  const Problem& problem;
  const Machine& machine;

  const Search& search() const { return tuned.search; }
  const Considered& best() const { return search().list.at(search().chosen); }
  double fastest_s() const {
    double fastest = best().seconds;
    for (const Considered& c : search().list)
      if (c.is_planned()) fastest = std::min(fastest, c.seconds);
    return fastest;
  }
  /// Of the nearly fastest plans those with the least of these are examined. Of these the one with
  /// the least worst case is chosen.
  double issued_s(const Considered& c) const {
    return std::max(c.seconds, limits::kSame * fastest_s()) +
           machine.issue_s * static_cast<double>(c.tasks);
  }
};

void expect_true_verdict(const Trial& trial, const Considered& c) {
  const Considered& best = trial.best();
  switch (c.verdict) {
    case Verdict::chosen:
      EXPECT_EQ(&c, &best);
      break;
    case Verdict::slower:
      EXPECT_GT(c.seconds, best.seconds);
      EXPECT_TRUE(c.seconds > limits::kNear * trial.fastest_s() ||
                  trial.issued_s(c) >= trial.issued_s(best) || c.worst_s >= best.worst_s);
      break;
    case Verdict::less_robust:
      EXPECT_LE(c.seconds, best.seconds);
      EXPECT_GT(c.worst_s, best.worst_s);
      break;
    case Verdict::little_gain:
    case Verdict::without_cpu:
      ADD_FAILURE() << "the CPU takes no part";
      break;
    case Verdict::worse:
    case Verdict::too_slow:
      ADD_FAILURE() << "time is the objective";
      break;
    case Verdict::more_issuing:
      EXPECT_LE(c.seconds, best.seconds);
      EXPECT_GT(c.tasks, best.tasks);
      EXPECT_GE(trial.issued_s(c), trial.issued_s(best));
      break;
    case Verdict::alike:
      EXPECT_LE(c.seconds, best.seconds);
      EXPECT_TRUE(trial.issued_s(c) == trial.issued_s(best) || c.worst_s == best.worst_s);
      EXPECT_GT(&c, &best);
      break;
    case Verdict::refused:
      try {
        make_plan(trial.problem, trial.machine, c.tuning);
        ADD_FAILURE() << "the planner finds a plan";
      } catch (const Error& e) {
        EXPECT_EQ(c.refusal, e.what());
      }
      break;
    case Verdict::over_budget:
      EXPECT_GT(c.tasks, c.limit);
      break;
    case Verdict::enough_plans:
      EXPECT_EQ(c.limit, limits::kMostPlanned);
      break;
    case Verdict::too_large:
      EXPECT_GT(streamed_bytes(trial.problem, std::min(c.tuning.tile, trial.problem.n),
                               std::min(c.tuning.edge_k(), trial.problem.k)),
                c.limit);
      break;
  }
}

/// Plans each candidate again, and compares the plan with the record and the verdict.
void expect_true(const Trial& trial) {
  const Search& search = trial.search();
  const Considered& best = trial.best();
  EXPECT_EQ(count(search, Verdict::chosen), 1);
  EXPECT_EQ(best.verdict, Verdict::chosen);
  EXPECT_EQ(best.tuning, trial.tuned.plan.tuning);
  EXPECT_EQ(best.seconds, trial.tuned.cost.seconds);
  EXPECT_EQ(std::ranges::count_if(search.list, &Considered::is_planned), trial.tuned.planned);
  EXPECT_LE(best.seconds, limits::kNear * trial.fastest_s());
  for (const Considered& c : search.list) {
    SCOPED_TRACE(search.reason(c));
    if (c.is_planned()) {
      const Plan plan = make_plan(trial.problem, trial.machine, c.tuning);
      EXPECT_EQ(c.seconds, simulate(plan, trial.machine).seconds);
      EXPECT_EQ(c.tasks, std::ssize(plan.tasks));
    }
    expect_true_verdict(trial, c);
  }
}

TEST(Considered, IsTrueForProductsOfEveryKind) {
  const DeviceId owner = kFirstDevice + 2;
  int verdicts[kVerdicts] = {};
  for (const int devices : {1, 4, 8})
    for (const DeviceId home : {kHost, devices > 2 ? owner : kFirstDevice})
      for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{8192, 8192, 8192},
                                    {16384, 16384, 512},
                                    {65536, 1024, 4096},
                                    {300, 200, 0}}) {
        Machine machine = node(devices);
        machine.issue_s = 2e-6;
        const Problem problem =
            make_problem({.m = m, .n = n, .k = k}, {.homes = {home, home, home}});
        const Tuned tuned = tune(problem, machine, {});
        SCOPED_TRACE(to_text(problem) + " on " + std::to_string(devices));
        expect_true({tuned, problem, machine});
        for (const Considered& c : tuned.search.list)
          ++verdicts[static_cast<std::size_t>(c.verdict)];
      }
  for (const Verdict verdict :
       {Verdict::chosen, Verdict::slower, Verdict::more_issuing, Verdict::over_budget})
    EXPECT_GT(verdicts[static_cast<std::size_t>(verdict)], 0) << to_string(verdict);
}

// The tuner tries larger parts for the owner of C, which do not fit.
TEST(Considered, HasTheMessageOfThePlannerThatRefused) {
  const Machine machine = node(4, 50e9, 100e9);
  const Problem tall = make_problem({.m = 65536, .n = 2048, .k = 4096},
                                    {.homes = {kFirstDevice, kFirstDevice, kFirstDevice}});
  const Tuned equal = tune(tall, machine, {.rules = Rules::all().without(Rule::grid)});
  TuneRequest request{.grid = {2, 2}};
  request.memory_cap.assign(machine.devices.size(),
                            std::ranges::max(equal.plan.arena_bytes) * 105 / 100);
  request.memory_cap[kHost] = 1LL << 40;

  const Tuned capped = tune(tall, machine, request);

  expect_true({capped, tall, machine});
  EXPECT_GT(count(capped.search, Verdict::refused), 0);
}

TEST(Considered, IsTrueForVectors) {
  const Machine machine = node(4);
  const Problem axpy = make_problem({.routine = Routine::axpy, .n = std::int64_t{1} << 24},
                                    {.homes = {kFirstDevice, kFirstDevice, kHost}});

  TuneRequest request;
  request.selects = true;

  const Tuned tuned = tune(axpy, machine, request);

  expect_true({tuned, axpy, machine});
  EXPECT_GT(count(tuned.search, Verdict::too_large), 0);
  EXPECT_GT(count(tuned.search, Verdict::slower), 0);
  EXPECT_TRUE(std::ranges::any_of(tuned.search.list, [](const Considered& c) {
    return c.tuning.workers == std::vector<DeviceId>{kFirstDevice};
  }));
}

TEST(Considered, SaysInOneSentenceWhatItLostBy) {
  Search search;
  search.list = {planned(1.01, 500), planned(1.02, 400), planned(1.025, 390), planned(2.04, 100),
                 planned(1.02, 400), planned(1.02, 401), planned(1.015, 300)};
  search.list[1].worst_s = 1.2;
  search.list.back().worst_s = 1.26;
  search.pass_over({.estimate_s = 3, .tasks = 900}, Verdict::over_budget, 800);
  search.pass_over({.estimate_s = 2, .refusal = "no room"}, Verdict::refused);
  search.pass_over({.estimate_s = 4}, Verdict::enough_plans, 32);
  search.list[1].estimate_s = 2;

  search.choose(1, 1e-6);

  const std::vector<const Considered*> sorted = search.best_first();
  const std::vector<std::string> sentences = {
      "chosen",
      "faster by 0.99 %, but more tasks to issue (+100)",
      "better by 0.49 %, but 5.0 % slower in its worst case",
      "as fast within 0.5 %: the one planned first was kept",
      "as fast, but more tasks to issue (+1)",
      "slower by 0.49 %, with fewer tasks to issue (-10)",
      "slower by 100 %",
      "refused: no room",
      "not planned: its tasks exceed the 800 left in the budget; estimate 1.50 times that of the "
      "chosen",
      "not planned: 32 plans were made before its turn; estimate 2.00 times that of the chosen",
  };
  ASSERT_EQ(sorted.size(), sentences.size());
  for (std::size_t i = 0; i < sentences.size(); ++i)
    EXPECT_EQ(search.reason(*sorted[i]), sentences[i]);
}

TEST(Considered, KeepsSoManyWithoutAPlanAndCountsTheRest) {
  Search search;
  for (std::size_t i = 0; i < limits::kMostPassedOver + 12; ++i)
    search.pass_over({.estimate_s = 1}, Verdict::over_budget);

  EXPECT_EQ(search.list.size(), limits::kMostPassedOver);
  EXPECT_EQ(search.not_kept, 12);
}

}  // namespace
}  // namespace fleet
