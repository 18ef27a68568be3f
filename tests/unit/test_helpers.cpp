// SPDX-License-Identifier: BSD-3-Clause
// test_helpers.cpp: jobs are done once each, by whomever; and a tuner's plans are those that
// it makes without helpers.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/helpers.hpp"
#include "support/scale.hpp"
#include "support/shipped.hpp"
#include "tune/tune.hpp"
#include "tune/tune_factorization.hpp"

namespace fleet {
namespace {

TEST(HelpersOf, DoEachPieceOfWorkOnce) {
  for (const int threads : {0, 1, 3}) {
    std::vector<std::atomic<int>> done(200);
    Helpers helpers(threads);

    for (int time = 1; time <= 3; ++time) {
      helpers.for_each(done.size(), [&](std::size_t i) { ++done[i]; });
      for (const std::atomic<int>& each : done) ASSERT_EQ(each, time);
    }
  }
}

TEST(HelpersOf, AreWaitedForAndThenTheFirstFailureIsThrown) {
  Helpers helpers(2);
  std::atomic<int> done{0};

  try {
    helpers.for_each(50, [&](std::size_t i) {
      ++done;
      if (i == 7 || i == 30) throw std::runtime_error(std::to_string(i));
    });
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "7");
  }
  EXPECT_EQ(done, 50);
}

TEST(HelpersOf, DoWhatIsAskedForOnceAndMayLeaveWhatIsWithdrawn) {
  std::atomic<int> done{0};
  const auto job = [&] { return std::make_shared<Helpers::Job>([&] { ++done; }); };
  auto helpers = std::make_unique<Helpers>(1);
  std::vector<std::shared_ptr<Helpers::Job>> jobs;
  for (int i = 0; i < 100; ++i) {
    jobs.push_back(job());
    helpers->offer(jobs.back());
  }
  for (const auto& each : jobs) helpers->finish(*each);
  EXPECT_EQ(done, 100);

  const auto own = job();  // never offered
  helpers->finish(*own);
  helpers->finish(*own);
  EXPECT_EQ(done, 101);

  for (int i = 0; i < 100; ++i) helpers->offer(jobs[static_cast<std::size_t>(i)] = job());
  helpers->withdraw();
  helpers.reset();
  EXPECT_LE(done, 201);
}

/// As text, with all candidates in the order in which they were considered.
std::string search_of(const Tuned& tuned) {
  std::string text;
  for (const Considered& c : tuned.search.list)
    text += std::to_string(c.tuning.tile) + " " + std::to_string(c.tuning.workers.size()) + " " +
            std::to_string(c.seconds) + " " + std::to_string(c.worst_s) + " " +
            to_string(c.verdict) + "\n";
  return text;
}

TEST(HelpersOf, ATunerChangeNeitherThePlanNorWhatWasConsidered) {
  for (const char* name : {"h200x4", "karolina"}) {
    const Machine machine = test::shipped(name);
    for (const std::int64_t size : {2048, 8192, 16384})
      for (const DeviceId home : {kHost, kFirstDevice}) {
        const Problem problem =
            make_problem({.m = size, .n = size, .k = size}, {.homes = {home, home, home}});
        TuneRequest request{.selects = true};

        const Tuned alone = tune(problem, machine, request);
        request.helpers = 3;
        const Tuned helped = tune(problem, machine, request);

        EXPECT_EQ(helped.plan, alone.plan) << name << " " << size;
        EXPECT_EQ(search_of(helped), search_of(alone)) << name << " " << size;
      }
  }
}

TEST(HelpersOf, AFactorizationsTunerChangeNothing) {
  const Machine machine = test::shipped("h200x4");
  for (const Factoring routine : test::few({Factoring::getrf, Factoring::potrf})) {
    const Factorization what = make_factorization({.routine = routine, .m = 8192, .n = 8192});
    TuneRequest request{.selects = true};

    const TunedFactorization alone = tune(what, machine, request);
    request.helpers = 3;
    const TunedFactorization helped = tune(what, machine, request);

    EXPECT_EQ(helped.stages, alone.stages);
    EXPECT_EQ(helped.planned, alone.planned);
    ASSERT_EQ(helped.tried.size(), alone.tried.size());
    for (std::size_t i = 0; i < alone.tried.size(); ++i) {
      EXPECT_EQ(helped.tried[i].width, alone.tried[i].width);
      EXPECT_EQ(helped.tried[i].value, alone.tried[i].value);
    }
  }
}

/// It is C code of a program, which may keep what it likes for the thread that called.
TEST(HelpersOf, TunersCallNoObjectiveOfTheCaller) {
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<int> by_others{0}, calls{0};
  TuneRequest request{.selects = true, .helpers = 3};
  request.goal.objective.kind = Objective::Kind::own;
  request.goal.own = [&](const Cost& cost) {
    ++calls;
    by_others += std::this_thread::get_id() != caller;
    return cost.seconds;
  };
  const Machine machine = test::shipped("h200x4");

  tune(make_problem({.m = 8192, .n = 8192, .k = 8192}, {}), machine, request);
  tune(make_factorization({.routine = Factoring::potrf, .m = 8192, .n = 8192}), machine, request);

  EXPECT_GT(calls, 20);
  EXPECT_EQ(by_others, 0);
}

}  // namespace
}  // namespace fleet
