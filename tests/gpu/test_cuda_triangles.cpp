// SPDX-License-Identifier: BSD-3-Clause
// test_cuda_triangles.cpp: single tiles of the routines with triangles, as large as what is done
// with them in parts needs, in every variant of the routine. It tries no plans.
#include <gtest/gtest.h>

#include "backend/device_library.hpp"
#include "base/error.hpp"
#include "support/level3_trial.hpp"
#include "support/random_plans.hpp"

namespace fleet {
namespace {

/// Not whole blocks, above the order from which trsm goes by inverses, and two leaves of a triangle
/// of C.
constexpr std::int64_t kOrder = 512 + 7;

class CudaTriangles : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    ASSERT_GT(device_library({}).count(why), 0) << "these tests need a GPU: " << why;
    Options options;
    options.inject.poison = true;
    backend_ = device_library({}).open(options, {0});
  }

  /// One tile of each operand, which are on the GPU, or come there and go.
  void expect_right(const CallShape& shape, DeviceId home, Conditions conditions = {}) {
    conditions.homes = {home, home, home};
    const Problem problem = make_problem(shape, conditions);
    Tuning tuning;
    tuning.workers = {kFirstDevice};
    tuning.grid = {1, 1};
    tuning.tile = std::max({problem.m, problem.n, problem.k});
    for (const Device& device : backend_->machine().devices)
      tuning.memory_cap.push_back(device.memory_bytes);
    const Plan plan = make_plan(problem, backend_->machine(), tuning);
    const std::string wrong = test::with_type(problem.type, [&]<typename T>() -> std::string {
      if constexpr (sizeof(T) == 2) {
        return "no type of BLAS";
      } else {
        test::Level3Trial<T> trial(problem, ++seed_, 1);
        const Trace trace = trial.run(plan, *backend_);
        return trace.status == Status::ok ? trial.verdict() : trace.message;
      }
    });
    EXPECT_EQ(wrong, "") << to_text(problem);
  }

  /// Both routines in all variants: side, uplo, op, diag and type.
  void expect_all_right(Routine routine, std::int64_t order, std::int64_t width, DeviceId home) {
    for (const DataType type : {DataType::f32, DataType::f64, DataType::c32, DataType::c64})
      for (const Side side : {Side::left, Side::right})
        for (const Uplo uplo : {Uplo::lower, Uplo::upper})
          for (const Op op : {Op::none, Op::transpose, Op::conjugate})
            for (const Diag diag : {Diag::non_unit, Diag::unit})
              expect_right({.routine = routine,
                            .type = type,
                            .side = side,
                            .uplo = uplo,
                            .diag = diag,
                            .op_a = op,
                            .m = side == Side::left ? order : width,
                            .n = side == Side::left ? width : order},
                           home);
  }

 private:
  std::unique_ptr<Backend> backend_;
  std::uint64_t seed_ = 0;
};

TEST_F(CudaTriangles, AreSolvedWithInEveryVariant) {
  expect_all_right(Routine::trsm, kOrder, 5, kFirstDevice);
  expect_all_right(Routine::trsm, 512, 3, kHost);
}

TEST_F(CudaTriangles, AreMultipliedWithInEveryVariant) {
  expect_all_right(Routine::trmm, kOrder, 5, kFirstDevice);
  expect_all_right(Routine::trmm, 70, 9, kHost);
}

TEST_F(CudaTriangles, AreMultipliedWithInPlaceByPanels) {
  // 64 bytes a column or row of the other matrix, of which 32 MiB fit.
  for (const Side side : {Side::left, Side::right}) {
    constexpr std::int64_t kOrderOfFew = 4, kWidth = (std::int64_t{32} << 20) / 64 + 100;
    expect_right({.routine = Routine::trmm,
                  .type = DataType::c64,
                  .side = side,
                  .m = side == Side::left ? kOrderOfFew : kWidth,
                  .n = side == Side::left ? kWidth : kOrderOfFew},
                 kFirstDevice);
  }
}

TEST_F(CudaTriangles, OfCAreUpdatedInEveryVariant) {
  for (const DataType type : {DataType::f32, DataType::f64, DataType::c32, DataType::c64})
    for (const Uplo uplo : {Uplo::lower, Uplo::upper})
      for (const Op op_a : {Op::none, Op::transpose, Op::conjugate})
        for (const Op op_b : {Op::none, Op::transpose, Op::conjugate})
          expect_right({.routine = Routine::gemmt,
                        .type = type,
                        .uplo = uplo,
                        .op_a = op_a,
                        .op_b = op_b,
                        .n = kOrder,
                        .k = 5},
                       kFirstDevice);
}

TEST_F(CudaTriangles, OfCAreUpdatedByTwoFactorsAndTheirTransposes) {
  for (const Routine routine : {Routine::syrk, Routine::herk, Routine::syr2k, Routine::her2k})
    for (const DataType type : {DataType::f32, DataType::f64, DataType::c32, DataType::c64})
      for (const Uplo uplo : {Uplo::lower, Uplo::upper})
        for (const bool turned : {false, true})
          for (const bool beta_is_zero : {false, true}) {
            const bool hermitian = traits_of(routine).hermitian;
            if (hermitian && !is_complex(type.storage)) continue;
            const Op turn = hermitian ? Op::conjugate : Op::transpose;
            expect_right({.routine = routine,
                          .type = type,
                          .uplo = uplo,
                          .op_a = turned ? turn : Op::none,
                          .n = kOrder,
                          .k = 5},
                         kFirstDevice, {.beta_is_zero = beta_is_zero});
          }
}

}  // namespace
}  // namespace fleet
