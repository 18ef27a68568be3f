// SPDX-License-Identifier: BSD-3-Clause
// test_capi_level3.cpp: the routines other than gemm through the public headers, on virtual devices
// with poisoned memory: random calls against the oracle, and illegal ones. It knows no plan.
#include <gtest/gtest.h>

#include <complex>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "fleetblas/fleetblas.hpp"
#include "support/host_context.hpp"
#include "support/level3_operands.hpp"
#include "support/reference_level3.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using test::Level3;
using test::Level3Call;

constexpr std::int64_t kCallsPerType = 120;
constexpr std::int64_t kLargestSize = 90;
constexpr std::int64_t kTile = 32;

std::string options(int devices) {
  return test::host_options(devices) + ";inject=poison;tile=" + std::to_string(kTile);
}

fleet_op flag(Op op) { return static_cast<fleet_op>(letter_of(op)); }

/// `out` is the output of the routine.
template <typename T>
void compute(const fleetblas::Context& on, const Level3Call<T>& x, T* out) {
  const auto side = static_cast<fleet_side>(test::letter_of(x.side));
  const auto uplo = static_cast<fleet_uplo>(test::letter_of(x.uplo));
  const auto diag = static_cast<fleet_diag>(test::letter_of(x.diag));
  const fleet_op op = flag(x.op_a);
  using namespace fleetblas;
  if (x.routine == Level3::trmm)
    return trmm(on, side, uplo, op, diag, x.m, x.n, x.alpha, x.a, x.lda, out, x.ldb);
  if (x.routine == Level3::trsm)
    return trsm(on, side, uplo, op, diag, x.m, x.n, x.alpha, x.a, x.lda, out, x.ldb);
  if (x.routine == Level3::gemmt)
    return gemmt(on, uplo, op, flag(x.op_b), x.n, x.k, x.alpha, x.a, x.lda, x.b, x.ldb, x.beta, out,
                 x.ldc);
  if (x.routine == Level3::symm)
    return symm(on, side, uplo, x.m, x.n, x.alpha, x.a, x.lda, x.b, x.ldb, x.beta, out, x.ldc);
  if (x.routine == Level3::syrk)
    return syrk(on, uplo, op, x.n, x.k, x.alpha, x.a, x.lda, x.beta, out, x.ldc);
  if (x.routine == Level3::syr2k)
    return syr2k(on, uplo, op, x.n, x.k, x.alpha, x.a, x.lda, x.b, x.ldb, x.beta, out, x.ldc);
  if constexpr (test::Scalar<T>::kComplex) {
    const auto alpha = x.alpha.real(), beta = x.beta.real();
    if (x.routine == Level3::hemm)
      return hemm(on, side, uplo, x.m, x.n, x.alpha, x.a, x.lda, x.b, x.ldb, x.beta, out, x.ldc);
    if (x.routine == Level3::herk)
      return herk(on, uplo, op, x.n, x.k, alpha, x.a, x.lda, beta, out, x.ldc);
    return her2k(on, uplo, op, x.n, x.k, x.alpha, x.a, x.lda, x.b, x.ldb, beta, out, x.ldc);
  }
}

/// Random sizes and scalars that include the special values.
template <typename T>
Level3Call<T> random_call(Level3 routine, test::Random& random) {
  const auto size = [&] { return random.chance(0.1) ? 0 : random.between(1, kLargestSize); };
  const auto scalar = [&] {
    return random.chance(0.2) ? T(0) : random.chance(0.2) ? T(1) : test::random_scalar<T>(random);
  };
  const bool by_itself = routine != Level3::gemmt && !has_side(routine);
  const auto op = [&] { return static_cast<Op>(random.between(0, 2)); };
  Level3Call<T> x;
  x.routine = routine;
  x.side = random.chance(0.5) ? Side::left : Side::right;
  x.uplo = random.chance(0.5) ? Uplo::lower : Uplo::upper;
  x.diag = random.chance(0.5) ? Diag::unit : Diag::non_unit;
  x.op_a = op();
  x.op_b = op();
  if (by_itself && x.op_a != Op::none && test::Scalar<T>::kComplex)
    x.op_a = has_hermitian_c(routine) ? Op::conjugate : Op::transpose;
  x.m = size();
  x.n = size();
  x.k = size();
  x.alpha = scalar();
  x.beta = scalar();
  return x;
}

template <typename T>
class Level3OfTheCApi : public ::testing::Test {};
using Types = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(Level3OfTheCApi, Types);

TYPED_TEST(Level3OfTheCApi, GivesWhatTheOracleGivesAndTouchesNothingElse) {
  std::vector<Level3> routines = {Level3::gemmt, Level3::symm, Level3::syrk,
                                  Level3::syr2k, Level3::trmm, Level3::trsm};
  if (test::Scalar<TypeParam>::kComplex)
    for (const Level3 routine : {Level3::hemm, Level3::herk, Level3::her2k})
      routines.push_back(routine);
  std::vector<fleetblas::Context> contexts;
  for (int devices = 2; devices <= 4; ++devices) contexts.emplace_back(options(devices));
  test::Random random(2026);

  for (std::int64_t i = 0; i < test::scaled(kCallsPerType); ++i) {
    const auto at = static_cast<std::size_t>(i);
    test::Level3Operands<TypeParam> operands(
        random_call<TypeParam>(routines[at % routines.size()], random), random.between(0, 3),
        random);
    const Level3Call<TypeParam> call = operands.call();
    const auto expected = expect_level3(call);

    compute(contexts[at / routines.size() % contexts.size()], call, operands.output());

    ASSERT_EQ(first_difference(expected, operands.output(), operands.output_ld()), "")
        << to_text(call);
    ASSERT_EQ(operands.first_overwritten(), "") << to_text(call);
  }
  EXPECT_NE(contexts[0].stats_json().find("\"where\":\"devices\""), std::string::npos);
}

/// The arguments of all routines, legal for each of them.
struct Given {
  int side = 'l', uplo = 'u', transa = 'n', transb = 'n', diag = 'n';
  std::int64_t m = 4, n = 4, k = 4, lda = 4, ldb = 4, ldc = 4;
  const void* a;
  const void* b;
  void* c;
};

/// Calls the routine in the one type that all routines have.
fleet_status call_z(const std::string& routine, fleet_context* on, const Given& x) {
  const auto side = static_cast<fleet_side>(x.side);
  const auto uplo = static_cast<fleet_uplo>(x.uplo);
  const auto transa = static_cast<fleet_op>(x.transa), transb = static_cast<fleet_op>(x.transb);
  const auto diag = static_cast<fleet_diag>(x.diag);
  const std::complex<double> one = 1;
  if (routine == "gemmt")
    return fleet_zgemmt(on, uplo, transa, transb, x.n, x.k, &one, x.a, x.lda, x.b, x.ldb, &one, x.c,
                        x.ldc);
  if (routine == "symm" || routine == "hemm")
    return (routine == "symm" ? fleet_zsymm : fleet_zhemm)(on, side, uplo, x.m, x.n, &one, x.a,
                                                           x.lda, x.b, x.ldb, &one, x.c, x.ldc);
  if (routine == "syrk")
    return fleet_zsyrk(on, uplo, transa, x.n, x.k, &one, x.a, x.lda, &one, x.c, x.ldc);
  if (routine == "herk")
    return fleet_zherk(on, uplo, transa, x.n, x.k, 1, x.a, x.lda, 1, x.c, x.ldc);
  if (routine == "syr2k")
    return fleet_zsyr2k(on, uplo, transa, x.n, x.k, &one, x.a, x.lda, x.b, x.ldb, &one, x.c, x.ldc);
  if (routine == "her2k")
    return fleet_zher2k(on, uplo, transa, x.n, x.k, &one, x.a, x.lda, x.b, x.ldb, 1, x.c, x.ldc);
  return (routine == "trmm" ? fleet_ztrmm : fleet_ztrsm)(on, side, uplo, transa, diag, x.m, x.n,
                                                         &one, x.a, x.lda, x.c, x.ldc);
}

/// The arguments after the context; the output B of trmm and trsm is "c" here.
const std::map<std::string, std::string> kArguments = {
    {"gemmt", "uplo transa transb n k alpha a lda b ldb beta c ldc"},
    {"symm", "side uplo m n alpha a lda b ldb beta c ldc"},
    {"hemm", "side uplo m n alpha a lda b ldb beta c ldc"},
    {"syrk", "uplo transa n k alpha a lda beta c ldc"},
    {"herk", "uplo transa n k alpha a lda beta c ldc"},
    {"syr2k", "uplo transa n k alpha a lda b ldb beta c ldc"},
    {"her2k", "uplo transa n k alpha a lda b ldb beta c ldc"},
    {"trmm", "side uplo transa diag m n alpha a lda c ldc"},
    {"trsm", "side uplo transa diag m n alpha a lda c ldc"}};

/// Makes this argument illegal; false if every value is legal.
bool spoil(Given& x, const std::string& argument) {
  const std::map<std::string, int*> flags = {{"side", &x.side},
                                             {"uplo", &x.uplo},
                                             {"transa", &x.transa},
                                             {"transb", &x.transb},
                                             {"diag", &x.diag}};
  const std::map<std::string, std::int64_t*> sizes = {{"m", &x.m}, {"n", &x.n}, {"k", &x.k}};
  const std::map<std::string, std::int64_t*> lds = {
      {"lda", &x.lda}, {"ldb", &x.ldb}, {"ldc", &x.ldc}};
  if (const auto at = flags.find(argument); at != flags.end()) return *at->second = 'x', true;
  if (const auto at = sizes.find(argument); at != sizes.end()) return *at->second = -1, true;
  if (const auto at = lds.find(argument); at != lds.end()) return *at->second = 3, true;
  if (argument == "a") return x.a = nullptr, true;
  if (argument == "b") return x.b = nullptr, true;
  if (argument == "c") return x.c = nullptr, true;
  return false;
}

TEST(IllegalArguments, AreNamedByRoutineAndPositionAndNothingIsTouched) {
  const test::HostContext context(options(2));
  const std::vector<std::complex<double>> ones(16, 1);
  std::vector<std::complex<double>> c = ones;
  const Given fine{.a = ones.data(), .b = ones.data(), .c = c.data()};

  for (const auto& [routine, arguments] : kArguments) {
    std::istringstream words(arguments);
    std::string argument;
    for (int position = 2; words >> argument; ++position) {
      Given given = fine;
      if (!spoil(given, argument)) continue;
      EXPECT_EQ(call_z(routine, context, given), FLEET_BAD_ARGUMENT) << routine << " " << argument;
      const std::string start =
          "fleet_z" + routine + ": argument " + std::to_string(position) + " (";
      EXPECT_EQ(std::string(fleet_message()).substr(0, start.size()), start) << argument;
    }
    EXPECT_EQ(c, ones) << routine;
    EXPECT_EQ(call_z(routine, context, fine), FLEET_OK) << routine << ": " << fleet_message();
    c = ones;
  }
}

TEST(IllegalArguments, IncludeTheTransposeThatAComplexRoutineDoesNotHave) {
  const test::HostContext context(options(2));
  const std::vector<std::complex<double>> ones(16, 1);
  std::vector<std::complex<double>> c = ones;
  Given given{.a = ones.data(), .b = ones.data(), .c = c.data()};

  for (const auto& [routine, transa] :
       std::map<std::string, char>{{"syrk", 'c'}, {"syr2k", 'c'}, {"herk", 't'}, {"her2k", 't'}}) {
    given.transa = transa;
    EXPECT_EQ(call_z(routine, context, given), FLEET_BAD_ARGUMENT) << routine;
    EXPECT_NE(std::string(fleet_message()).find("argument 3 (trans"), std::string::npos)
        << fleet_message();
  }
  EXPECT_EQ(c, ones);
}

}  // namespace
}  // namespace fleet
