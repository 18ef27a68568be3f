// SPDX-License-Identifier: BSD-3-Clause
// test_tune_factorization.cpp: the tuner of factorizations takes the best of what it tried, and
// says what it tried.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "support/random_plans.hpp"
#include "tune/tune_factorization.hpp"

namespace fleet {
namespace {

using test::node;

const Factorization kSquare =
    make_factorization({.routine = Factoring::getrf, .m = 4096, .n = 4096});

TEST(TuneFactorization, TakesTheBestOfWhatItTried) {
  const TunedFactorization tuned = tune(kSquare, node(4), {.selects = true});

  const auto planned = std::ranges::count(tuned.tried, "", &TriedStrips::refusal);
  EXPECT_EQ(planned, tuned.planned);
  const auto& best = *std::ranges::min_element(tuned.tried, {}, &TriedStrips::value);
  EXPECT_EQ(best.width, tuned.width);
  EXPECT_EQ(best.workers, tuned.stages.front().tuning.workers);
  EXPECT_EQ(best.cost.seconds, tuned.cost.seconds);
  EXPECT_EQ(best.stages, tuned.stages.size());
  EXPECT_EQ(best.tasks, tuned.stages.front().tasks.size());
  std::set<std::size_t> teams;
  for (const TriedStrips& tried : tuned.tried) teams.insert(tried.workers.size());
  EXPECT_EQ(teams, (std::set<std::size_t>{1, 2, 4}));
}

TEST(TuneFactorization, SaysWhatDoesNotFit) {
  const std::vector<std::int64_t> caps(6, 24 << 20);

  const TunedFactorization tuned = tune(kSquare, node(4), {.memory_cap = caps});

  const auto refused = std::ranges::count_if(
      tuned.tried, [](const TriedStrips& tried) { return !tried.refusal.empty(); });
  EXPECT_GT(refused, 0);
  EXPECT_GT(tuned.stages.size(), 1U);
  EXPECT_EQ(refused + tuned.planned, std::ssize(tuned.tried));
}

TEST(TuneFactorization, TriesTheWidthThatIsAskedForAlone) {
  const TunedFactorization tuned = tune(kSquare, node(4), {.tile = 320});

  ASSERT_EQ(tuned.tried.size(), 1U);
  EXPECT_EQ(tuned.tried.front().width, 320);
}

TEST(TuneFactorization, RefusesWhatNoWidthFits) {
  const std::vector<std::int64_t> caps(6, 1 << 16);

  EXPECT_THROW(tune(kSquare, node(4), {.memory_cap = caps}), Error);
}

}  // namespace
}  // namespace fleet
