// SPDX-License-Identifier: BSD-3-Clause
// test_tile_program.cpp: the ops of an expanded problem, run in order, compute the routine,
// whatever the cuts. It makes no plans.
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "program/expand.hpp"
#include "support/interpreter.hpp"
#include "support/level3_trial.hpp"
#include "support/random_plans.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using test::between;
using test::chance;
using test::Generator;
using test::Guarded;
using test::Stored;

Cuts random_cuts(Generator& random, std::int64_t size) {
  Cuts cuts{0};
  if (size == 0) return cuts;
  for (std::int64_t at = 1; at < size; ++at)
    if (chance(random, 12)) cuts.push_back(at);
  cuts.push_back(size);
  return cuts;
}

/// Random cuts that the routine allows: a routine with a side has equal cuts along it and along k,
/// and a symmetric result has equal cuts in both directions.
CallCuts random_cuts(Generator& random, const Problem& problem) {
  CallCuts cuts{random_cuts(random, problem.m), random_cuts(random, problem.n),
                random_cuts(random, problem.k)};
  if (problem.traits().triangle) cuts.m = cuts.n;
  if (problem.traits().has_side() && problem.k > 0)
    cuts.k = problem.side == Side::left ? cuts.m : cuts.n;
  return cuts;
}

/// A change of the program before it is run, or none.
using Change = void (*)(TileProgram&);
constexpr Change kAsItIs = [](TileProgram&) {};

template <typename T>
std::string fault_of_gemm(const Problem& problem, const CallCuts& cuts, std::uint64_t seed,
                          Change change) {
  TileProgram program = expand(problem, cuts);
  change(program);
  test::Random random(seed);
  const T alpha = test::random_scalar<T>(random);
  const bool updates = problem.operands[kC].access == Access::update;
  const T beta = updates ? test::random_scalar<T>(random) : T(0);
  std::vector<Guarded<T>> operands;
  for (const Operand& o : problem.operands) {
    const std::int64_t ld = std::max<std::int64_t>(1, o.rows + 2);
    operands.emplace_back(o.rows, o.cols, ld, o.shared ? 1 : problem.batch, ld * o.cols + 5);
  }
  for (const std::size_t x : {kA, kB, kC})
    if (x != kC || updates) operands[x].fill_random(random);  // else it stays NaN
  std::vector<test::Expected> expected;
  for (std::int64_t item = 0; item < problem.batch; ++item) {
    const auto of = [&](std::size_t x) {
      return operands[x].item(problem.operands[x].shared ? 0 : item);
    };
    expected.push_back(test::expect_gemm<T>({.op_a = problem.op_a,
                                             .op_b = problem.op_b,
                                             .m = problem.m,
                                             .n = problem.n,
                                             .k = problem.k,
                                             .alpha = alpha,
                                             .a = of(kA),
                                             .lda = operands[kA].ld(),
                                             .b = of(kB),
                                             .ldb = operands[kB].ld(),
                                             .beta = beta,
                                             .c = of(kC),
                                             .ldc = operands[kC].ld()}));
  }
  std::vector<Stored<T>> stored;
  for (Guarded<T>& o : operands) stored.push_back({o.data(), o.ld(), o.stride()});
  const std::pair<std::complex<double>, std::complex<double>> call(alpha, beta);
  test::interpret<T>(program, stored, test::scalars_of({&call, 1}));
  for (std::int64_t item = 0; item < problem.batch; ++item)
    if (std::string wrong = test::first_difference(expected[static_cast<std::size_t>(item)],
                                                   operands[kC].item(item), operands[kC].ld());
        !wrong.empty())
      return wrong;
  return operands[kC].broken_guard();
}

template <typename T>
std::string fault_of_level3(const Problem& problem, const CallCuts& cuts, std::uint64_t seed,
                            Change change) {
  TileProgram program = expand(problem, cuts);
  change(program);
  test::Random random(seed);
  test::Level3Call<T> shape = test::call_of<T>(problem, random);
  if (problem.k == 0) shape.alpha = T(0);
  test::Level3Operands<T> operands(shape, 2, random);
  const test::Level3Call<T> call = operands.call();
  const auto expected = test::expect_level3(call);
  std::complex<double> alpha(call.alpha), beta(call.beta);
  if (call.routine == test::Level3::herk) alpha = alpha.real();
  if (test::has_hermitian_c(call.routine)) beta = beta.real();
  const std::vector<Stored<T>> stored{{const_cast<T*>(call.a), call.lda},
                                      {const_cast<T*>(call.b), call.ldb},
                                      {operands.output(), operands.output_ld()}};
  const std::pair scalars(alpha, beta);
  test::interpret<T>(program, stored, test::scalars_of({&scalars, 1}));
  std::string wrong = test::first_difference(expected, operands.output(), operands.output_ld());
  return wrong.empty() ? operands.first_overwritten() : wrong;
}

/// The vector routines as products of columns, since a vector of increment 1 is a column.
template <typename T>
std::string fault_of_vectors(const Problem& problem, const CallCuts& cuts, std::uint64_t seed,
                             Change change) {
  TileProgram program = expand(problem, cuts);
  change(program);
  test::Random random(seed);
  const bool is_axpy = problem.routine == Routine::axpy, is_dot = problem.routine == Routine::dot;
  const bool updates = problem.operands[kC].access == Access::update;
  const T alpha = is_dot ? T(1) : test::random_scalar<T>(random);
  const T beta = !updates ? T(0) : is_axpy ? T(1) : test::random_scalar<T>(random);
  std::vector<Guarded<T>> operands;
  for (const Operand& o : problem.operands) operands.emplace_back(o.rows, o.cols);
  for (const std::size_t x : {kA, kB, kC})
    if (x != kC || updates) operands[x].fill_random(random);
  const T one(1);
  // x of dot is a row that counts as a column.
  const Op op = !is_dot ? problem.op_a : problem.op_a == Op::none ? Op::transpose : Op::conjugate;
  const bool is_row = is_axpy || is_dot;
  const auto expected = test::expect_gemm<T>(
      {.op_a = op,
       .m = problem.n,
       .n = 1,
       .k = problem.k,
       .alpha = alpha,
       .a = operands[kA].data(),
       .lda = is_row ? std::max<std::int64_t>(1, problem.operands[kA].cols) : operands[kA].ld(),
       .b = is_axpy ? &one : operands[kB].data(),
       .ldb = std::max<std::int64_t>(1, problem.k),
       .beta = beta,
       .c = operands[kC].data(),
       .ldc = std::max<std::int64_t>(1, problem.n)});
  std::vector<Stored<T>> stored;
  for (Guarded<T>& o : operands) stored.push_back({o.data(), o.ld(), o.stride()});
  const std::pair<std::complex<double>, std::complex<double>> call(alpha, beta);
  test::interpret<T>(program, stored, test::scalars_of({&call, 1}));
  std::string wrong =
      test::first_difference(expected, operands[kC].data(), std::max<std::int64_t>(1, problem.n));
  return wrong.empty() ? operands[kC].broken_guard() : wrong;
}

std::string fault_of(const Problem& problem, const CallCuts& cuts, std::uint64_t seed,
                     Change change = kAsItIs) {
  return test::with_blas_type(problem.type, [&]<typename T>() {
    if (problem.routine == Routine::gemm) return fault_of_gemm<T>(problem, cuts, seed, change);
    if (problem.traits().vectors) return fault_of_vectors<T>(problem, cuts, seed, change);
    return fault_of_level3<T>(problem, cuts, seed, change);
  });
}

constexpr DataType kTypes[] = {DataType::f32, DataType::f64, DataType::c32, DataType::c64};
constexpr Op kOps[] = {Op::none, Op::transpose, Op::conjugate};

/// `problem` under several random cuts.
void expect_right(Generator& random, const Problem& problem) {
  for (int trial = 0; trial < 3; ++trial) {
    const CallCuts cuts = random_cuts(random, problem);
    EXPECT_EQ(fault_of(problem, cuts, random()), "") << to_text(problem);
  }
}

std::int64_t size(Generator& random) { return between(random, 1, 34); }

TEST(TileProgram, OfGemmIsGemmForEveryOpTypeAndBatch) {
  Generator random(1);
  for (const DataType type : kTypes)
    for (const Op op_a : kOps)
      for (const Op op_b : kOps)
        for (const bool beta_is_zero : {false, true})
          for (const std::int64_t batch : {1, 3})
            for (const int shared : {0, 1, 2, 3})
              if (batch > 1 || shared == 0)
                expect_right(random, make_problem({.type = type,
                                                   .op_a = op_a,
                                                   .op_b = op_b,
                                                   .m = size(random),
                                                   .n = size(random),
                                                   .k = size(random),
                                                   .batch = batch},
                                                  {.beta_is_zero = beta_is_zero,
                                                   .share_a = (shared & 1) != 0,
                                                   .share_b = (shared & 2) != 0}));
}

TEST(TileProgram, OfEachRoutineWithTrianglesIsThatRoutineForEveryFlagAndType) {
  Generator random(2);
  int problems = 0;
  for (int r = 1; r < kLevel3Routines; ++r)
    for (const DataType type : kTypes)
      for (const Side side : {Side::left, Side::right})
        for (const Uplo uplo : {Uplo::lower, Uplo::upper})
          for (const Diag diag : {Diag::non_unit, Diag::unit})
            for (const Op op_a : kOps)
              for (const Op op_b : kOps)
                for (const bool beta_is_zero : {false, true}) {
                  const auto routine = static_cast<Routine>(r);
                  const RoutineTraits& traits = traits_of(routine);
                  const Op turned = traits.hermitian ? Op::conjugate : Op::transpose;
                  // Varies only the flags that the routine has.
                  if (traits.hermitian && !is_complex(type.storage)) continue;
                  if (!traits.has_side() && side == Side::right) continue;
                  if (!traits.triangular && diag == Diag::unit) continue;
                  if (traits.triangular && beta_is_zero) continue;
                  if (traits.symmetric && op_a != Op::none) continue;
                  if (traits.by_itself && op_a != Op::none && op_a != turned) continue;
                  if (routine != Routine::gemmt && op_b != Op::none) continue;
                  ++problems;
                  expect_right(random, make_problem({.routine = routine,
                                                     .type = type,
                                                     .side = side,
                                                     .uplo = uplo,
                                                     .diag = diag,
                                                     .op_a = op_a,
                                                     .op_b = op_b,
                                                     .m = size(random),
                                                     .n = size(random),
                                                     .k = size(random)},
                                                    {.beta_is_zero = beta_is_zero}));
                }
  EXPECT_GT(problems, 400);
}

TEST(TileProgram, OfRoutinesWithVectorsIsThatRoutine) {
  Generator random(3);
  for (int r = kLevel3Routines; r < kRoutines; ++r)
    for (const DataType type : kTypes)
      for (const Op op : kOps)
        for (const bool beta_is_zero : {false, true})
          expect_right(random, make_problem({.routine = static_cast<Routine>(r),
                                             .type = type,
                                             .op_a = op,
                                             .m = size(random),
                                             .n = size(random)},
                                            {.beta_is_zero = beta_is_zero}));
}

// Calls with alpha == 0, and sizes of 0.
TEST(TileProgram, ScalesWhatHasNoProducts) {
  Generator random(4);
  for (int r = 0; r < kLevel3Routines; ++r)
    for (const bool beta_is_zero : {false, true}) {
      const auto routine = static_cast<Routine>(r);
      if (routine == Routine::gemm)
        expect_right(random,
                     make_problem({.m = 9, .n = 7, .k = 0}, {.beta_is_zero = beta_is_zero}));
      else
        expect_right(
            random,
            make_problem({.routine = routine, .type = DataType::c64, .m = 9, .n = 7, .k = 5},
                         {.alpha_is_zero = true, .beta_is_zero = beta_is_zero}));
    }
  EXPECT_TRUE(expand(make_problem({.m = 0, .n = 5, .k = 3}), {{0}, {0, 5}, {0, 3}}).ops.empty());
}

TEST(TileProgram, AppendRefusesAMatrixThatIsCutOrStoredOtherwiseOrWrittenWhileRead) {
  const Cuts cuts{0, 3, 8};
  const Problem gemm = make_problem({.m = 8, .n = 8, .k = 8});
  const Problem trsm = make_problem({.routine = Routine::trsm, .m = 8, .n = 8});
  const auto refused = [&](const Problem& second, const CallCuts& second_cuts,
                           const std::array<MatrixId, 3>& matrices) {
    TileProgram program = expand(gemm, {cuts, cuts, cuts});
    const TileProgram before = program;
    try {
      append(program, second, second_cuts, matrices);
    } catch (const Error& error) {
      EXPECT_EQ(program, before);
      return error.status() == Status::bad_argument;
    }
    return false;
  };
  EXPECT_FALSE(refused(gemm, {cuts, cuts, cuts}, {kC, kB, kNoMatrix}));
  EXPECT_FALSE(refused(trsm, {cuts, cuts, cuts}, {kNoMatrix, kNoMatrix, kC}));
  EXPECT_TRUE(refused(gemm, {{0, 4, 8}, cuts, cuts}, {kC, kNoMatrix, kNoMatrix})) << "other cuts";
  EXPECT_TRUE(refused(trsm, {cuts, cuts, cuts}, {kA, kNoMatrix, kC})) << "a triangle";
  EXPECT_TRUE(refused(gemm, {cuts, cuts, cuts}, {3, kNoMatrix, kNoMatrix})) << "no such matrix";
  EXPECT_TRUE(refused(gemm, {cuts, cuts, cuts}, {kC, kNoMatrix, kC})) << "read and written";
}

// The interpreter notices a wrong op: the program no longer computes the routine.
TEST(TileProgram, WithAWrongOpIsAnotherRoutine) {
  Generator random(5);
  const CallCuts cuts{{0, 4, 8, 12}, {0, 4, 8, 12}, {0, 4, 8, 12}};
  std::vector<Problem> problems{make_problem({.m = 12, .n = 12, .k = 12})};
  for (int r = 1; r < kLevel3Routines; ++r)
    problems.push_back(make_problem(
        {.routine = static_cast<Routine>(r), .type = DataType::c64, .m = 12, .n = 12, .k = 12}));
  for (const Problem& problem : problems) {
    ASSERT_EQ(fault_of(problem, cuts, 7), "");
    EXPECT_NE(fault_of(problem, cuts, 7,
                       [](TileProgram& program) {
                         // The transpose of a symmetric tile would be the same.
                         for (TileOp& op : program.ops)
                           for (Factor& input : op.inputs)
                             if (input.tile.exists() && input.tile.row != input.tile.col) {
                               input.op = input.op == Op::transpose ? Op::none : Op::transpose;
                               return;
                             }
                       }),
              "")
        << to_text(problem);
    EXPECT_NE(fault_of(problem, cuts, 7, [](TileProgram& program) { --program.chains.back().ops; }),
              "")
        << to_text(problem);
    EXPECT_NE(
        fault_of(problem, cuts, 7,
                 [](TileProgram& program) { std::swap(program.ops.front(), program.ops.back()); }),
        "")
        << to_text(problem);
  }
}

}  // namespace
}  // namespace fleet
