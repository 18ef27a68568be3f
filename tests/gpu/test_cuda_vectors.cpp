// SPDX-License-Identifier: BSD-3-Clause
// test_cuda_vectors.cpp: plans of gemv, axpy and dot give the right results on the GPUs of this
// machine, with NaN in all memory that was not written, and write nothing else.
#include <gtest/gtest.h>

#include "backend/device_library.hpp"
#include "base/error.hpp"
#include "support/scale.hpp"
#include "support/vector_trial.hpp"

namespace fleet {
namespace {

using test::between;

TEST(CudaVectors, RandomPlansGiveTheRightResults) {
  std::string why;
  std::vector<int> all;
  for (int id = 0; id < device_library({}).count(why); ++id) all.push_back(id);
  ASSERT_FALSE(all.empty()) << "these tests need a GPU: " << why;
  Options options;
  options.inject.poison = true;
  const auto backend = device_library({}).open(options, all);
  test::Generator random(20261123);
  int run = 0, refused = 0;
  for (int trial = 0; trial < test::scaled(600); ++trial) {
    const std::int64_t most = trial % 8 == 0 ? 3000 : 90;
    const int devices = backend->machine().device_count();
    const Problem problem = test::random_vectors(random, devices, most);
    const Tuning tuning = test::random_tuning(random, backend->machine(), problem, most / 3);
    const auto plan = test::plan_if_any(problem, backend->machine(), tuning);
    if (!plan) {
      ++refused;
      continue;
    }
    ++run;
    const std::string wrong = test::with_type(problem.type, [&]<typename T>() {
      test::VectorTrial<T> trial_of(problem, random());
      const Trace trace = trial_of.run(*plan, *backend);
      return trace.status == Status::ok ? trial_of.verdict() : trace.message;
    });
    ASSERT_EQ(wrong, "") << to_text(problem) << " rules " << to_string(tuning.rules) << " trial "
                         << trial;
  }
  EXPECT_GT(run, refused);
}

}  // namespace
}  // namespace fleet
