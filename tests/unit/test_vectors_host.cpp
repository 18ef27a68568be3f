// SPDX-License-Identifier: BSD-3-Clause
// test_vectors_host.cpp: plans of gemv, axpy and dot, run on virtual devices in random legal orders
// and on threads, agree with plain sums and write nothing else.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <string>
#include <vector>

#include "support/random_runs.hpp"
#include "support/scale.hpp"
#include "support/vector_trial.hpp"

namespace fleet {
namespace {

using test::Generator;
using test::Tally;

void try_one(Generator& random, std::int64_t most, const Options& options, Tally& tally) {
  const Machine machine = test::random_node(random);
  const Problem problem = test::random_vectors(random, machine.device_count(), most);
  test::try_random_plan(random, machine, problem, most / 3, options, tally,
                        [&](const Plan& plan, Backend& backend) {
                          return test::with_type(problem.type, [&]<typename T>() {
                            return outcome(test::VectorTrial<T>(problem, random()), plan, backend);
                          });
                        });
}

TEST(VectorPlans, GiveTheRightResultsInRandomLegalOrders) {
  Generator random(31);
  Tally tally;
  Options options;
  options.inject.poison = true;
  for (int trial = 0; trial < test::scaled(1500) && tally.wrong.empty(); ++trial) {
    options.inject.order = random();
    try_one(random, 70, options, tally);
  }

  EXPECT_EQ(tally.wrong, "");
  EXPECT_GT(tally.run, 4 * tally.refused);
}

TEST(VectorPlans, GiveTheRightResultsOnThreads) {
  Generator random(32);
  Tally tally;
  Options options;
  options.inject.poison = true;
  for (int trial = 0; trial < test::scaled(100) && tally.wrong.empty(); ++trial)
    try_one(random, 700, options, tally);

  EXPECT_EQ(tally.wrong, "");
  EXPECT_GT(tally.run, 4 * tally.refused);
}

// Sums over parts of k are added in one order, whatever the order of the tasks.
TEST(VectorPlans, GiveTheSameBitsInAnyOrder) {
  const Machine machine = test::node(4);
  const Problem dot = make_problem({.routine = Routine::dot, .n = 5000});
  Tuning tuning{.grid = {4, 1}, .tile = 100};
  for (int w = 0; w < 4; ++w) tuning.workers.push_back(kFirstDevice + w);
  const Plan plan = make_plan(dot, machine, tuning);
  std::vector<double> results;

  for (const std::uint64_t order : {1, 2, 3, 4, 5}) {
    Options options;
    options.inject.order = order;
    const auto backend = make_host_backend(machine, test::shared_cpu_blas(), options);
    test::VectorTrial<double> trial(dot, 7);
    ASSERT_EQ(trial.run(plan, *backend).status, Status::ok);
    results.push_back(trial.result()[0]);
  }

  for (const double result : results) EXPECT_EQ(result, results[0]);
}

template <typename T>
std::string by_loops_and_library(const Problem& problem, std::uint64_t seed) {
  // The host is the only worker: one kernel on the operands in place.
  const Machine machine = test::node(1);
  Tuning tuning{.workers = {kHost}, .grid = {1, 1}, .tile = 1 << 20};
  const Plan plan = make_plan(problem, machine, tuning);
  for (const std::shared_ptr<CpuBlas>& blas :
       {test::shared_cpu_blas(), std::shared_ptr<CpuBlas>(std::make_shared<PlainBlas>())}) {
    const auto backend = make_host_backend(machine, blas, {});
    test::VectorTrial<T> trial(problem, seed);
    const Trace trace = trial.run(plan, *backend);
    if (trace.status != Status::ok) return trace.message;
    if (const std::string wrong = trial.verdict(); !wrong.empty())
      return blas->name() + ": " + wrong;
  }
  return "";
}

TEST(VectorKernels, GiveTheSameByLoopsAsByTheLibrary) {
  Generator random(33);
  for (int trial = 0; trial < test::scaled(200); ++trial) {
    Problem problem = test::random_vectors(random, 1, 80);
    for (Operand& operand : problem.operands) operand.home = kHost;
    ASSERT_EQ(
        test::with_type(problem.type,
                        [&]<typename T>() { return by_loops_and_library<T>(problem, random()); }),
        "");
  }
}

/// Elements in columns that begin `ld` apart, and NaN between them and after the last.
template <typename T>
class Spread {
 public:
  Spread(const std::vector<T>& elements, std::int64_t rows, std::int64_t ld, bool reversed = false)
      : rows_(rows),
        ld_(ld),
        reversed_(reversed),
        cols_(static_cast<std::int64_t>(elements.size()) / rows),
        data_(static_cast<std::size_t>(cols_ * ld), T(std::nan(""))) {
    for (std::int64_t i = 0; i < std::ssize(elements); ++i)
      data_[place_of(i)] = elements[static_cast<std::size_t>(i)];
  }
  View view() {
    return {.data = data_.data(), .rows = rows_, .cols = cols_, .ld = ld_, .reversed = reversed_};
  }
  std::vector<T> elements() const {
    std::vector<T> found;
    for (std::int64_t i = 0; i < rows_ * cols_; ++i) found.push_back(data_[place_of(i)]);
    return found;
  }

 private:
  std::size_t place_of(std::int64_t i) const {
    const std::int64_t col = i / rows_;
    return static_cast<std::size_t>(i % rows_ + (reversed_ ? cols_ - 1 - col : col) * ld_);
  }
  std::int64_t rows_, ld_;
  bool reversed_;
  std::int64_t cols_;
  std::vector<T> data_;
};

/// The result with operands without gaps and with other gaps: "" if all have the same bits.
template <typename T>
std::string by_gaps(test::Random& random, CpuBlas& blas) {
  const auto numbers = [&](std::int64_t count) {
    std::vector<T> some;
    for (std::int64_t i = 0; i < count; ++i) some.push_back(test::random_scalar<T>(random));
    return some;
  };
  // Libraries have kernels of their own for few rows or columns.
  const auto size = [&] { return random.between(1, random.chance(0.5) ? 12 : 150); };
  const std::int64_t rows = size(), cols = size();
  Launch launch{.type = {.storage = test::kTypeOf<T>.storage},
                .op_a = static_cast<Op>(random.between(0, 2)),
                .alpha = test::random_scalar<T>(random),
                .beta = random.chance(0.5) ? 1.0 : 0.0};
  constexpr Kernel kKernels[] = {Kernel::gemv, Kernel::axpy, Kernel::dot};
  launch.kernel = kKernels[random.between(0, 2)];
  const bool is_gemv = launch.kernel == Kernel::gemv, is_axpy = launch.kernel == Kernel::axpy;
  if (is_axpy) launch.beta = 1.0;
  if (is_axpy || (launch.kernel == Kernel::dot && launch.op_a == Op::transpose))
    launch.op_a = Op::none;
  const std::int64_t a_rows = is_gemv ? rows : 1;
  const std::int64_t results = is_axpy                   ? cols
                               : !is_gemv                ? 1
                               : launch.op_a == Op::none ? rows
                                                         : cols;
  const auto a = numbers(a_rows * cols), x = numbers(is_gemv && results == cols ? rows : cols),
             y = numbers(results);
  std::vector<T> first;
  for (int layout = 0; layout < 4; ++layout) {
    const auto gap = [&] { return layout == 0 ? 0 : random.between(0, 40); };
    const auto turned = [&] { return layout == 3 && random.chance(0.5); };
    Spread<T> in_a(a, a_rows, a_rows + gap(), !is_gemv && turned());
    Spread<T> in_x(x, 1, 1 + gap(), turned()), in_y(y, 1, 1 + gap(), turned());
    launch.a = in_a.view();
    launch.b = is_axpy ? View{} : in_x.view();
    launch.c = in_y.view();
    blas.multiply_vectors(launch);
    const std::vector<T> now = in_y.elements();
    if (layout == 0) first = now;
    if (std::memcmp(first.data(), now.data(), now.size() * sizeof(T)) != 0)
      return std::string(is_gemv   ? "gemv"
                         : is_axpy ? "axpy"
                                   : "dot") +
             " " + letter_of(launch.op_a) + " of " + std::to_string(rows) + " x " +
             std::to_string(cols) + " has other bits with gaps between its elements";
  }
  return "";
}

// A tile lies in a slot in one plan and in place in another.
TEST(VectorKernels, GiveTheSameBitsWhateverGapsThereAre) {
  const auto blas = test::shared_cpu_blas();
  const CpuBlas::Lease lease(*blas, 1);
  test::Random random(34);
  for (int trial = 0; trial < test::scaled(2000); ++trial) {
    ASSERT_EQ(by_gaps<float>(random, *blas), "");
    ASSERT_EQ(by_gaps<double>(random, *blas), "");
    ASSERT_EQ(by_gaps<std::complex<float>>(random, *blas), "");
    ASSERT_EQ(by_gaps<std::complex<double>>(random, *blas), "");
  }
}

TEST(VectorKernels, AllowIncrementsOfZeroWhereTheReferenceDoes) {
  double x = 3, y[3] = {1, 2, 4}, sum = 0;
  const auto vector = [](double* data, std::int64_t increment) {
    return View{.data = data, .rows = 1, .cols = 3, .ld = increment};
  };
  const auto blas = test::shared_cpu_blas();

  blas->multiply_vectors(
      {.kernel = Kernel::axpy, .alpha = 2.0, .beta = 1.0, .a = vector(&x, 0), .c = vector(y, 1)});
  blas->multiply_vectors(
      {.kernel = Kernel::axpy, .alpha = 1.0, .beta = 1.0, .a = vector(y, 1), .c = vector(&sum, 0)});

  EXPECT_EQ(y[0] + 100 * y[1] + 10000 * y[2], 7 + 800 + 100000);
  EXPECT_EQ(sum, 25);
}

}  // namespace
}  // namespace fleet
