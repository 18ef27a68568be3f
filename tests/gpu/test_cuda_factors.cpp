// SPDX-License-Identifier: BSD-3-Clause
// test_cuda_factors.cpp: plans of factorizations give the factors of random matrices on the GPUs of
// this machine, with NaN in all memory that was not written; again as graphs, with the same bits.
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "gpu/gpus.hpp"
#include "support/factor_trial.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using test::Generator;
using test::gpus;

void expect_right(std::uint64_t seed, std::int64_t trials, std::int64_t most,
                  Options options = {}) {
  Generator random(seed);
  options.inject.poison = true;
  const auto backend = gpus(options);
  for (std::int64_t trial = 0; trial < test::scaled(trials); ++trial) {
    const test::FactorCase made = test::random_factor_case(random, backend->machine(), most);
    ASSERT_EQ(test::verdict_of_factors(made.what, made.plans, *backend, random), "")
        << trial << ": " << made.text;
  }
}

TEST(CudaFactors, OfSmallMatricesAreRight) { expect_right(1, 300, 60); }

TEST(CudaFactors, OfLargerMatricesAreRight) { expect_right(2, 16, 300); }

TEST(CudaFactors, WithoutCusolverAreRight) {
  Options options;
  options.cusolver = false;
  expect_right(4, 150, 60, options);
  expect_right(5, 8, 300, options);
}

TEST(CudaFactors, ThatAThreadForEachDeviceHandsOverAreRight) {
  Options options;
  options.inject.issuers = true;
  expect_right(6, 150, 60, options);
  expect_right(7, 8, 300, options);
}

/// Without cuSOLVER, which is not captured.
TEST(CudaFactors, AreTheSameAsGraphs) {
  Generator random(3);
  Options options;
  options.cusolver = false;
  const auto backend = gpus(options);
  for (const Factoring routine : {Factoring::potrf, Factoring::getrf, Factoring::geqrf}) {
    const Factorization what = make_factorization({.routine = routine, .m = 260, .n = 200});
    Tuning tuning{.workers = {kFirstDevice}, .grid = {1, 1}, .tile = 64};
    const auto plans = test::plans_of_stages(strips_of(what, 64), 100, backend->machine(), tuning);
    test::FactorTrial<double> trial(what, random);
    std::vector<double> first;
    constexpr int kRuns = 8;  // as streams and as graphs
    for (int run = 0; run < kRuns; ++run) {
      trial.begin_again();
      const Trace trace = trial.trace(plans.front(), *backend, 77);
      ASSERT_EQ(trace.status, Status::ok) << trace.message;
      ASSERT_EQ(trial.verdict(*plans.front().program->strips), "") << word_of(routine);
      if (run == 0) first = trial.values();
      EXPECT_EQ(trial.values(), first) << word_of(routine) << ", run " << run;
    }
  }
}

TEST(CudaFactors, OfOneMatrixAreTheSameAgainByCusolver) {
  Generator random(6);
  const auto backend = gpus();
  const Factorization what = make_factorization({.routine = Factoring::potrf, .m = 260, .n = 260});
  Tuning tuning{.workers = {kFirstDevice}, .grid = {1, 1}, .tile = 130};
  const auto plans = test::plans_of_stages(strips_of(what, 130), 100, backend->machine(), tuning);
  test::FactorTrial<double> trial(what, random);
  std::vector<double> first;
  constexpr int kRuns = 8;  // more than others take until they are graphs
  for (int run = 0; run < kRuns; ++run) {
    trial.begin_again();
    const Trace trace = trial.trace(plans.front(), *backend, 78);
    ASSERT_EQ(trace.status, Status::ok) << trace.message;
    ASSERT_EQ(trial.verdict(*plans.front().program->strips), "");
    if (run == 0) first = trial.values();
    EXPECT_EQ(trial.values(), first) << "run " << run;
  }
}

}  // namespace
}  // namespace fleet
