// SPDX-License-Identifier: BSD-3-Clause
// test_problem.cpp: building problems, and writing and reading them as text.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "base/error.hpp"
#include "preload/routines.hpp"
#include "problem/problem.hpp"
#include "support/random_plans.hpp"
#include "support/refusal.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

std::string refusal(const std::function<void()>& act) {
  return test::refusal(Status::bad_argument, act);
}

std::string refusal_of_text(const std::string& text) {
  return refusal([&] { parse_problem(text); });
}

TEST(MakeGemm, GivesEveryOperandItsStoredShape) {
  const Problem p = make_problem({.op_a = Op::transpose, .m = 5, .n = 7, .k = 3, .batch = 2},
                                 {.homes = {kHost, kPageable, 4}});

  EXPECT_EQ(p.operands[kA], (Operand{.rows = 3, .cols = 5, .home = kHost}));
  EXPECT_EQ(p.operands[kB], (Operand{.rows = 3, .cols = 7, .home = kPageable}));
  EXPECT_EQ(p.operands[kC], (Operand{.rows = 5, .cols = 7, .access = Access::update, .home = 4}));
  EXPECT_EQ(p.batch, 2);
}

TEST(MakeGemm, DoesNotReadAnOutputWhoseBetaIsZero) {
  const Problem p = make_problem({.m = 5, .n = 7, .k = 3}, {.beta_is_zero = true});
  EXPECT_EQ(p.operands[kC].access, Access::write);
}

TEST(MakeGemm, CountsFourTimesTheFlopsForComplexTypes) {
  EXPECT_EQ(flops(make_problem({.m = 5, .n = 7, .k = 3})), 210);
  EXPECT_EQ(flops(make_problem({.m = 5, .n = 7, .k = 3, .batch = 10})), 2100);
  EXPECT_EQ(flops(make_problem({.type = DataType::c32, .m = 5, .n = 7, .k = 3})), 840);
  EXPECT_EQ(flops(make_problem({.m = 5, .n = 7, .k = 0})), 0);
}

TEST(MakeGemm, NamesTheSizeThatIsNegative) {
  EXPECT_EQ(refusal([] { make_problem({.m = -1}); }), "gemm: m = -1 is negative");
  EXPECT_EQ(refusal([] { make_problem({.n = -2}); }), "gemm: n = -2 is negative");
  EXPECT_EQ(refusal([] { make_problem({.k = -3}); }), "gemm: k = -3 is negative");
  EXPECT_EQ(refusal([] { make_problem({.batch = -4}); }), "gemm: batch = -4 is negative");
  EXPECT_EQ(refusal([] {
              make_problem({}, {.homes = {0, -5, 0}});
            }),
            "gemm: location -5 is negative");
}

TEST(MakeGemm, RefusesOperandsWhoseBytesDoNotFit64Bits) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 30;  // 2^30 x 2^30 doubles are 2^63 bytes
  const std::string end = " has more bytes than 64 bits can count";

  EXPECT_EQ(refusal([] { make_problem({.m = kLarge, .n = 1, .k = kLarge}); }), "gemm: A" + end);
  EXPECT_EQ(refusal([] { make_problem({.m = 1, .n = kLarge, .k = kLarge}); }), "gemm: B" + end);
  EXPECT_EQ(refusal([] { make_problem({.m = kLarge, .n = kLarge, .k = 1}); }), "gemm: C" + end);
  EXPECT_EQ(refusal([] { make_problem({.m = 1, .n = 1, .k = 1, .batch = kMost}); }),
            "gemm: A" + end);
  EXPECT_NO_THROW(make_problem({.m = kLarge - 1, .n = 1, .k = kLarge}));
  EXPECT_NO_THROW(make_problem({.m = kMost, .n = 0, .k = 0}));  // nothing is stored
}

TEST(Place, IsAWordForEveryLocation) {
  EXPECT_EQ(place_word(kHost), "h");
  EXPECT_EQ(place_word(kPageable), "p");
  EXPECT_EQ(place_word(kFirstDevice), "0");
  for (const DeviceId location : {0, 1, 2, 3, 11, 102})
    EXPECT_EQ(parse_place(place_word(location)), location);
}

TEST(Place, RefusesAnyOtherWord) {
  for (const char* word : {"", "x", "H", "-1", "+1", "01", "1 ", " 1", "4096", "99999999999", "h0"})
    EXPECT_EQ(refusal([&] { parse_place(word); }),
              "place '" + std::string(word) + "' is none of h, p, or a device number");
}

TEST(ProblemText, LeavesOutWhatIsUsual) {
  const Problem p =
      make_problem({.m = 8192, .n = 4096, .k = 2048}, {.homes = {kFirstDevice, kHost, kPageable}});
  EXPECT_EQ(to_text(p), "dgemm m=8192 n=4096 k=2048 a@0 b@h c@p");
}

TEST(ProblemText, NamesEveryTypeByItsWord) {
  constexpr std::array<const char*, kDataTypes.size()> kTexts{
      "sgemm", "dgemm", "cgemm", "zgemm", "hgemm", "bf16gemm", "tf32gemm"};
  for (std::size_t t = 0; t < kDataTypes.size(); ++t) {
    const Problem p = make_problem({.type = kDataTypes[t], .m = 1, .n = 2, .k = 3});
    EXPECT_EQ(to_text(p), std::string(kTexts[t]) + " m=1 n=2 k=3 a@h b@h c@h");
    EXPECT_EQ(parse_problem(to_text(p)), p);
  }
}

TEST(DataTypes, HalvesHaveTwoBytesAndTf32IsStoredAsAFloat) {
  EXPECT_EQ(bytes_of(Storage::f16), 2);
  EXPECT_EQ(bytes_of(Storage::bf16), 2);
  EXPECT_EQ(DataType::tf32.storage, Storage::f32);
  EXPECT_NE(DataType::tf32, DataType::f32);
  EXPECT_TRUE(is_half(Storage::f16) && is_half(Storage::bf16) && !is_half(Storage::f32));
  EXPECT_EQ(flops(make_problem({.type = DataType::f16, .m = 5, .n = 7, .k = 3})), 210);
}

TEST(ProblemText, SaysWhatIsNotUsual) {
  const Problem p = make_problem(
      {.type = DataType::c64,
       .op_a = Op::transpose,
       .op_b = Op::conjugate,
       .m = 1,
       .n = 2,
       .k = 3,
       .batch = 16},
      {.homes = {kFirstDevice + 12, kHost, kHost}, .beta_is_zero = true, .share_a = true});
  EXPECT_EQ(to_text(p), "zgemm m=1 n=2 k=3 a@12* b@h c@h transa=t transb=c beta=0 batch=16");
}

TEST(ProblemText, GivesBackEveryProblem) {
  test::Generator random(1);
  for (int trial = 0; trial < test::scaled(5000); ++trial) {
    const Problem p = test::random_gemm(random, 8, std::int64_t{1} << 26);
    EXPECT_EQ(parse_problem(to_text(p)), p) << to_text(p);
  }
}

TEST(ProblemText, GivesBackEveryRoutine) {
  test::Generator random(2);
  for (int trial = 0; trial < test::scaled(5000); ++trial) {
    const Problem p = test::random_level3(random, 8, std::int64_t{1} << 26);
    EXPECT_EQ(parse_problem(to_text(p)), p) << to_text(p);
  }
}

TEST(ProblemText, SaysOfOtherRoutinesWhatTheyHave) {
  EXPECT_EQ(to_text(parse_problem("dsyrk size=64 c@0 uplo=u transa=t")),
            "dsyrk n=64 k=64 a@h c@0 uplo=u transa=t");
  EXPECT_EQ(to_text(parse_problem("zhemm size=64 side=r")), "zhemm m=64 n=64 a@h b@h c@h side=r");
  const std::string begin = "problem text: ";
  EXPECT_EQ(to_text(parse_problem("ctrsm m=64 n=8 c@1 side=r uplo=u transa=c diag=u alpha=0")),
            "ctrsm m=64 n=8 a@h c@1 side=r uplo=u transa=c diag=u alpha=0");

  EXPECT_EQ(refusal_of_text("dtrmm m=8 n=8 beta=0"), begin + "does not understand 'beta=0'");
  EXPECT_EQ(refusal_of_text("dsyrk n=8 k=8 b@0"), begin + "'b@0': syrk has no B");
  EXPECT_EQ(refusal_of_text("dsyrk n=8 k=8 m=8"), begin + "does not understand 'm=8'");
  EXPECT_EQ(refusal_of_text("dsyrk n=8 k=8 batch=2"), begin + "does not understand 'batch=2'");
  EXPECT_EQ(refusal_of_text("dsymm m=8 n=8 side=x"), begin + "'side=x' needs l or r");
  EXPECT_EQ(refusal_of_text("dsymm m=8"), "problem text 'dsymm m=8' gives no n");
  EXPECT_EQ(refusal_of_text("dherk n=8 k=8"), "there is no routine dherk");
  EXPECT_EQ(refusal_of_text("zherk n=8 k=8 transa=t"), "zherk: transa is none of n, c");
}

TEST(MakeLevel3, CountsWhatATriangleTakes) {
  EXPECT_EQ(flops(parse_problem("dsyrk n=10 k=3")), 300);
  EXPECT_EQ(flops(parse_problem("zher2k n=10 k=3")), 2400);
  EXPECT_EQ(flops(parse_problem("dsymm m=10 n=3")), 600);
  EXPECT_EQ(flops(parse_problem("dtrsm m=10 n=3")), 300);
  EXPECT_EQ(flops(parse_problem("ztrmm m=10 n=3 side=r")), 360);
  EXPECT_EQ(flops(parse_problem("dsymm m=10 n=3 side=r")), 180);
  EXPECT_EQ(bytes_that_count(parse_problem("dsyrk n=10 k=3"), kC), 55 * 8);
  EXPECT_EQ(bytes_that_count(parse_problem("dsyrk n=10 k=3"), kB), 0);
}

TEST(ProblemText, TakesWordsInAnyOrderAndWithAnySpace) {
  EXPECT_EQ(parse_problem("  sgemm\tc@1 size=64\nbatch=3  "),
            make_problem({.type = DataType::f32, .m = 64, .n = 64, .k = 64, .batch = 3},
                         {.homes = {kHost, kHost, kFirstDevice + 1}}));
}

TEST(ProblemText, NamesTheWordThatItDoesNotUnderstand) {
  const std::string begin = "problem text: ";
  EXPECT_EQ(refusal_of_text(""), "problem text is empty");
  EXPECT_EQ(refusal_of_text(" \n"), "problem text is empty");
  EXPECT_EQ(
      refusal_of_text("dger m=1"),
      "problem text begins with 'dger'; the routines are gemm, gemmt, symm, hemm, syrk, herk, "
      "syr2k, her2k, trmm, trsm, gemv and axpy with s, d, c or z before them, sdot, ddot, "
      "cdotu, cdotc, zdotu, zdotc, hgemm, bf16gemm and tf32gemm; outside programs also "
      "potrf, getrf and geqrf with s, d, c or z before them");
  EXPECT_EQ(refusal_of_text("dgemm"), "problem text 'dgemm' gives no sizes");
  EXPECT_EQ(refusal_of_text("dgemm m=8 k=8"), "problem text 'dgemm m=8 k=8' gives no n");
  EXPECT_EQ(refusal_of_text("dgemm m=8 fast"), begin + "does not understand 'fast'");
  EXPECT_EQ(refusal_of_text("dgemm m=8 lda=8"), begin + "does not understand 'lda=8'");
  EXPECT_EQ(refusal_of_text("dgemm m=8 d@0"), begin + "does not understand 'd@0'");
  EXPECT_EQ(refusal_of_text("dgemm m=8x"), begin + "'m=8x' needs a whole number");
  EXPECT_EQ(refusal_of_text("dgemm m="), begin + "'m=' needs a whole number");
  EXPECT_EQ(refusal_of_text("dgemm size=9223372036854775808"),
            begin + "'size=9223372036854775808' is too large");
  EXPECT_EQ(refusal_of_text("dgemm m=8 transa=x"), begin + "'transa=x' needs n, t or c");
  EXPECT_EQ(refusal_of_text("dgemm m=8 transb="), begin + "'transb=' needs n, t or c");
  EXPECT_EQ(refusal_of_text("dgemm m=8 beta=2"), begin + "'beta=2' needs 0 or 1");
  EXPECT_EQ(refusal_of_text("dgemm m=8 c@0*"), begin + "'c@0*': C cannot be shared by a batch");
  EXPECT_EQ(refusal_of_text("dgemm m=8 a@x"), "place 'x' is none of h, p, or a device number");
  EXPECT_EQ(refusal_of_text("dgemm m=-8"), "gemm: m = -8 is negative");
}

TEST(Routines, AreTheSameForTheDropin) {
  for (int r = 0; r <= fleet_dropin_trsm; ++r) {
    const RoutineTraits& traits = traits_of(static_cast<Routine>(r));
    const auto routine = static_cast<fleet_dropin_routine>(r);
    fleet_dropin_call call{};
    call.routine = routine;
    call.type = 'd';
    call.m = call.n = call.k = 1;

    EXPECT_EQ(preload::has_symmetric_a(routine), traits.symmetric) << traits.word;
    EXPECT_EQ(preload::has_triangular_a(routine), traits.triangular) << traits.word;
    EXPECT_EQ(preload::is_by_itself(routine), traits.by_itself) << traits.word;
    EXPECT_EQ(preload::is_twice(routine), traits.twice) << traits.word;
    EXPECT_EQ(preload::writes_triangle(routine), traits.triangle) << traits.word;
    EXPECT_EQ(preload::is_hermitian(routine), traits.hermitian) << traits.word;
    EXPECT_EQ(preload::flops_of(call), 2 * traits.part_of_products()) << traits.word;
  }
}

}  // namespace
}  // namespace fleet
