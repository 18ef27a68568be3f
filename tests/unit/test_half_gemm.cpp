// SPDX-License-Identifier: BSD-3-Clause
// test_half_gemm.cpp: the number of roundings of half types in products, plans and recoveries. It
// knows no library but the CPU BLAS.
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "cpu/half_gemm.hpp"
#include "cpu/plain_gemm.hpp"
#include "probe/probe.hpp"
#include "program/decompose.hpp"
#include "support/host_trial.hpp"
#include "support/scale.hpp"
#include "tune/tune.hpp"

namespace fleet {
namespace {

using test::BF16;
using test::F16;
using test::Guarded;
using test::HostTrial;
using test::Random;

template <typename T>
class HalfGemm : public ::testing::Test {
 protected:
  /// Whole numbers of [-3, 3]: sums of up to a million products are exact in float.
  static Guarded<T> whole_numbers(Random& random, std::int64_t rows, std::int64_t cols) {
    Guarded<T> matrix(rows, cols, rows + 3);
    for (std::int64_t col = 0; col < cols; ++col)
      for (std::int64_t row = 0; row < rows; ++row)
        matrix.at(row, col) = T(static_cast<double>(random.between(-3, 3)));
    return matrix;
  }

  struct Operands {
    Guarded<T> a, b, c;
  };
  static Operands operands(std::int64_t m, std::int64_t n, std::int64_t k) {
    Random random(5);
    return {whole_numbers(random, m, k), whole_numbers(random, k, n), whole_numbers(random, m, n)};
  }
  /// C = A*B + 2*C.
  static Launch launch(Operands& x) {
    return {.kernel = Kernel::multiply,
            .type = test::kTypeOf<T>,
            .op_a = Op::none,
            .op_b = Op::none,
            .alpha = 1,
            .beta = 2,
            .a = {x.a.data(), x.a.rows(), x.a.cols(), x.a.ld()},
            .b = {x.b.data(), x.b.rows(), x.b.cols(), x.b.ld()},
            .c = {x.c.data(), x.c.rows(), x.c.cols(), x.c.ld()}};
  }
  /// Element (row, col) of the exact result, rounded once.
  static float rounded_once(Operands& x, std::int64_t row, std::int64_t col, float c) {
    float sum = 2 * c;
    for (std::int64_t l = 0; l < x.a.cols(); ++l) sum += x.a.at(row, l) * x.b.at(l, col);
    return T(static_cast<double>(sum));
  }
};
using Types = ::testing::Types<F16, BF16>;
TYPED_TEST_SUITE(HalfGemm, Types);

TYPED_TEST(HalfGemm, RoundsEachElementOnceHoweverManyPiecesThereAre) {
  // Two pieces of 1024 in each dimension; sums of some hundreds, beyond the 8 bits of a bf16.
  auto x = this->operands(1030, 1025, 1500);
  const Guarded<TypeParam> c = x.c;
  int products = 0;

  const bool done = gemm_by_floats(this->launch(x), [&](const Launch& floats) {
    ++products;
    EXPECT_EQ(floats.type, DataType::f32);
    test::shared_cpu_blas()->gemm(floats);
  });

  EXPECT_TRUE(done);
  EXPECT_EQ(products, 8);
  EXPECT_EQ(x.c.broken_guard(), "");
  Random random(6);
  for (int sample = 0; sample < 2000; ++sample) {
    const std::int64_t row = random.between(0, 1029), col = random.between(0, 1024);
    ASSERT_EQ(x.c.at(row, col), this->rounded_once(x, row, col, c.data()[row + col * c.ld()]))
        << row << ", " << col;
  }
}

TYPED_TEST(HalfGemm, RoundsEachElementOnceInThePlainLoop) {
  auto x = this->operands(70, 37, 500);
  const Guarded<TypeParam> c = x.c;

  plain_gemm(this->launch(x));

  EXPECT_EQ(x.c.broken_guard(), "");
  for (std::int64_t col = 0; col < 37; ++col)
    for (std::int64_t row = 0; row < 70; ++row)
      ASSERT_EQ(x.c.at(row, col), this->rounded_once(x, row, col, c.data()[row + col * c.ld()]));
}

TYPED_TEST(HalfGemm, ScalesAndAddsInFloats) {
  // 3 * 1.0039 and 1 + 3 * 1.0039 need more bits than either type has.
  Guarded<TypeParam> x(5, 3, 7), c(5, 3, 6);
  x.fill(TypeParam(1.01));
  c.fill(TypeParam(1.0));
  const float value = TypeParam(1.01);

  add_scaled({.kernel = Kernel::add,
              .type = test::kTypeOf<TypeParam>,
              .beta = 3,
              .a = {x.data(), 5, 3, 7},
              .c = {c.data(), 5, 3, 6}});
  scale({.kernel = Kernel::scale,
         .type = test::kTypeOf<TypeParam>,
         .beta = 1.7,
         .c = {x.data(), 5, 3, 7}});

  for (std::int64_t col = 0; col < 3; ++col)
    for (std::int64_t row = 0; row < 5; ++row) {
      EXPECT_EQ(c.at(row, col), TypeParam(1 + 3 * value));
      EXPECT_EQ(x.at(row, col), TypeParam(1.7F * value));
    }
  EXPECT_EQ(x.broken_guard(), "");
  EXPECT_EQ(c.broken_guard(), "");
}

TEST(HalfSteps, AreFourTilesLong) {
  Tuning tuning;
  tuning.workers = {kFirstDevice};
  tuning.tile = 256;
  const auto steps = [&](DataType type) {
    return tile_count(
        decompose(make_problem({.type = type, .m = 512, .n = 512, .k = 4096}), tuning).cuts.k);
  };

  EXPECT_EQ(steps(DataType::f32), 16);
  EXPECT_EQ(steps(DataType::tf32), 16);
  EXPECT_EQ(steps(DataType::f16), 4);
  EXPECT_EQ(steps(DataType::bf16), 4);
}

TEST(HalfSteps, OfATunedPlanAreFewOnAMeasuredMachine) {
  const Machine machine = load_machine(FLEETBLAS_SOURCE_DIR "/machines/h200x8.json", "");
  const Problem problem = make_problem({.type = DataType::f16, .m = 16384, .n = 16384, .k = 16384});

  const Tuned tuned = tune(problem, machine, {});

  EXPECT_LE(tile_count(tuned.plan.cuts().k), 8);
  EXPECT_EQ(check(tuned.plan), "");
}

TEST(HalfFaults, AreFinishedOnTheCpu) {
  const Machine machine = test::virtual_devices(2);
  int failures = 0;
  for (int copy = 1; copy < 30; ++copy) {
    const Problem problem = make_problem(
        {.type = copy % 2 == 0 ? DataType::f16 : DataType::bf16, .m = 61, .n = 45, .k = 150},
        {.homes = {kHost, kPageable, kHost}});
    Tuning tuning;
    tuning.workers = {kFirstDevice, kFirstDevice + 1};
    tuning.grid = {2, 1};
    tuning.tile = 16;
    tuning.memory_cap.assign(machine.devices.size(), std::int64_t{1} << 26);
    const Plan plan = make_plan(problem, machine, tuning);
    Options options;
    options.inject.copy = copy;
    const auto backend = make_host_backend(machine, test::shared_cpu_blas(), options);
    const auto verdict = test::with_type(problem.type, [&]<typename T>() {
      HostTrial<T> trial(problem, static_cast<std::uint64_t>(copy), 2);
      failures += trial.run(plan, *backend, true).status != Status::ok;
      return trial.verdict();
    });
    EXPECT_EQ(verdict, "") << copy;
  }
  EXPECT_GT(failures, 20);
}

}  // namespace
}  // namespace fleet
