// SPDX-License-Identifier: BSD-3-Clause
// test_issuers.cpp: each thread puts what was posted to it in order, after all that it waits for.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <vector>

#include "run/issuers.hpp"

namespace fleet {
namespace {

struct Step {
  int thread = 0;
  std::vector<TaskId> earlier;
};

/// Random threads, and some waits for earlier tasks.
std::vector<Step> random_steps(std::size_t count, int threads, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Step> steps(count);
  for (std::size_t id = 0; id < count; ++id) {
    steps[id].thread = static_cast<int>(random() % static_cast<unsigned>(threads));
    for (unsigned edges = random() % 4; edges > 0 && id > 0; --edges)
      steps[id].earlier.push_back(static_cast<TaskId>(random() % id));
  }
  return steps;
}

/// Posts them all; `put` is by task, and not atomic: who reads it has waited for it.
void run(Issuers& issuers, const std::vector<Step>& steps, const std::vector<int>& threads) {
  std::vector<int> put(steps.size(), 0);
  std::vector<TaskId> last(4, kNoTask);  // by thread
  std::atomic<int> wrong{0};

  ASSERT_TRUE(issuers.begin(threads, steps.size()));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto id = static_cast<TaskId>(i);
    issuers.post(steps[i].thread, id, [&, id] {
      const Step& step = steps[static_cast<std::size_t>(id)];
      for (const TaskId earlier : step.earlier) {
        const int other = steps[static_cast<std::size_t>(earlier)].thread;
        if (other != step.thread) issuers.await(other, earlier);
        wrong += put[static_cast<std::size_t>(earlier)] == 1 ? 0 : 1;
      }
      TaskId& before = last[static_cast<std::size_t>(step.thread)];
      wrong += before < id ? 0 : 1;
      before = id;
      ++put[static_cast<std::size_t>(id)];
    });
  }
  issuers.finish(threads);

  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(put, std::vector<int>(steps.size(), 1));
}

TEST(IssuersOfDevices, PutEachTaskOnceInItsOrderAfterAllThatItWaitsFor) {
  Issuers issuers(4);
  for (unsigned seed = 1; seed <= 20; ++seed)
    run(issuers, random_steps(seed * 25, 4, seed), {0, 1, 2, 3});
}

TEST(IssuersOfDevices, ServeRunsOfOtherDevicesAtTheSameTime) {
  Issuers issuers(4);
  std::vector<Step> outer(50), inner(50);
  for (Step& step : outer) step.thread = 3;
  for (Step& step : inner) step.thread = 1;
  int done = 0;

  ASSERT_TRUE(issuers.begin({3}, outer.size()));
  for (std::size_t id = 0; id < outer.size(); ++id) {
    issuers.post(3, static_cast<TaskId>(id), [&] { ++done; });
    if (id == 20) run(issuers, inner, {1});
  }
  issuers.finish({3});
  EXPECT_EQ(done, 50);
}

}  // namespace
}  // namespace fleet
