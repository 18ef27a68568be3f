// SPDX-License-Identifier: BSD-3-Clause
// test_capi_held.cpp: solve and slogdet, whose matrix is only read: with factors that stay on
// devices, and with factors at home where they cannot. It knows nothing below the C API.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "support/host_context.hpp"
#include "support/lapack_api.hpp"

namespace fleet {
namespace {

using test::difference;
using test::host_options;
using test::HostContext;
using test::kOwnMemory;
using test::Lapack;
using test::Matrix;
using test::Placed;
using test::product;
using Complex = std::complex<double>;
using nlohmann::json;

constexpr std::int64_t kOrder = 150;
/// So many right sides devices solve for with what they hold of 150 rows; not for more.
constexpr std::int64_t kMostHeld = 2;
constexpr const char* kHeld = "solved with factors on devices";

json last_of(const HostContext& context) {
  return json::parse(context.text(fleet_stats_json))["last"];
}

template <typename T>
double epsilon() {
  return std::numeric_limits<decltype(std::abs(T()))>::epsilon();
}

/// Random equations, and what a call made of them.
template <typename T>
struct Equations {
  std::mt19937 random{23};
  Matrix<T> a, b, x{0, 0};
  std::int64_t info = -7;

  explicit Equations(std::int64_t columns, std::int64_t n = kOrder)
      : a(n, n, random), b(n, columns, random) {}

  fleet_status solve(fleet_context* context, Op op, int place_of_a = kOwnMemory,
                     int place_of_b = kOwnMemory, bool in_place = false) {
    info = -7;
    Placed<T> matrix(context, a, place_of_a), right(context, b, place_of_b),
        made(context, b, place_of_b);
    T* const found = in_place ? right.data() : made.data();
    const auto trans = static_cast<fleet_op>(letter_of(op));
    const fleet_status status = Lapack<T>::solve(context, trans, a.rows, b.cols, matrix.data(),
                                                 a.ld, right.data(), b.ld, found, b.ld, &info);
    x = in_place ? right.now() : made.now();
    EXPECT_EQ(matrix.now().data, a.data) << "A has changed";
    if (!in_place) {
      EXPECT_EQ(right.now().data, b.data) << "B has changed";
    }
    return status;
  }
  /// The backward error by that of one rounding of each row.
  double error(Op op) const {
    return difference(product(op, a, Op::none, x), b).largest() /
           (a.largest() * x.largest() * static_cast<double>(a.rows) * epsilon<T>());
  }
};

constexpr double kMostError = 4;

template <typename T>
void expect_held(const std::string& options) {
  for (const Op op : {Op::none, Op::transpose, Op::conjugate})
    for (std::int64_t columns = 1; columns <= kMostHeld; ++columns)
      for (const bool in_place : {false, true}) {
        const HostContext context(options);
        Equations<T> equations(columns);

        ASSERT_EQ(equations.solve(context, op, kOwnMemory, kOwnMemory, in_place), FLEET_OK)
            << fleet_message();

        EXPECT_EQ(equations.info, 0);
        EXPECT_LT(equations.error(op), kMostError);
        const json last = last_of(context);
        EXPECT_EQ(last["where"], "devices");
        EXPECT_EQ(last["routine"], "getrf");
        EXPECT_EQ(last["reason"], kHeld) << last.dump();
      }
}

TEST(HeldFactors, SolveInAllTypesAndTurnedRound) {
  const std::string options = host_options(2) + ";tile=16";
  expect_held<float>(options);
  expect_held<double>(options);
  expect_held<std::complex<float>>(options);
  expect_held<Complex>(options);
}

TEST(HeldFactors, SolveOnOneDeviceAndOnMoreThanThereAreStrips) {
  expect_held<double>(host_options(1) + ";tile=40");
  expect_held<double>(host_options(4) + ";tile=64");
  expect_held<double>(host_options(3));
}

TEST(HeldFactors, SolveWithInverses) {
  expect_held<double>(test::with_inverses(2) + ";tile=32");
  expect_held<Complex>(test::with_inverses(2) + ";tile=72");
}

TEST(HeldFactors, AreOfMatricesOnTheHostAndOfFewRightSides) {
  const HostContext context(host_options(2) + ";tile=16");
  for (const int place_of_a : {kOwnMemory, FLEET_HOST, 0, 1})
    for (const int place_of_b : {kOwnMemory, FLEET_HOST, 1})
      for (const std::int64_t columns : {std::int64_t{0}, kMostHeld, kMostHeld + 1})
        for (const bool in_place : {false, true}) {
          Equations<double> equations(columns);

          ASSERT_EQ(equations.solve(context, Op::transpose, place_of_a, place_of_b, in_place),
                    FLEET_OK)
              << fleet_message();

          EXPECT_EQ(equations.info, 0);
          if (columns > 0) {
            EXPECT_LT(equations.error(Op::transpose), kMostError);
          }
          const bool is_held = last_of(context)["reason"] == kHeld;
          EXPECT_EQ(is_held, place_of_a < 0 && columns <= kMostHeld);
        }
}

TEST(HeldFactors, StayOnTheirDevices) {
  const HostContext context(host_options(2) + ";tile=16");
  Equations<double> equations(1);
  ASSERT_EQ(equations.solve(context, Op::none), FLEET_OK);
  const double home = last_of(context)["bytes_by_kind"]["d2h"];
  EXPECT_LT(home, 0.1 * 8 * kOrder * kOrder);  // pivots

  Matrix<double> factors = equations.a;
  std::vector<std::int64_t> pivots(kOrder);
  ASSERT_EQ(Lapack<double>::getrf(context, kOrder, kOrder, factors.data.data(), factors.ld,
                                  pivots.data(), &equations.info),
            FLEET_OK);
  EXPECT_GE(last_of(context)["bytes_by_kind"]["d2h"], 8 * kOrder * kOrder);
}

TEST(HeldFactors, OfSingularMatricesLeaveTheSolutionAlone) {
  for (const std::int64_t columns : {std::int64_t{1}, kMostHeld + 1}) {
    const HostContext context(host_options(2) + ";tile=16");
    Equations<double> equations(columns);
    for (std::int64_t row = 0; row < kOrder; ++row) equations.a.at(row, 20) = 0;
    for (const bool in_place : {false, true}) {
      ASSERT_EQ(equations.solve(context, Op::none, kOwnMemory, kOwnMemory, in_place), FLEET_OK);
      EXPECT_EQ(equations.info, 21);
      EXPECT_EQ(equations.x.data, equations.b.data);
    }
  }
}

TEST(HeldFactors, WithoutRoomOnTheDevicesComeHome) {
  // 180 KB of doubles do not fit, and out of core they do.
  const HostContext context(host_options(1, 160 << 10) + ";tile=16");
  Equations<double> equations(1);
  ASSERT_EQ(equations.solve(context, Op::none), FLEET_OK) << fleet_message();
  EXPECT_LT(equations.error(Op::none), kMostError);
  EXPECT_NE(last_of(context)["reason"], kHeld);
}

TEST(HeldFactors, GiveTheirMemoryBack) {
  const HostContext context(host_options(1, 400 << 10) + ";tile=16");
  Equations<double> equations(1);
  for (int call = 0; call < 3; ++call) {
    ASSERT_EQ(equations.solve(context, Op::none), FLEET_OK);
    EXPECT_EQ(last_of(context)["reason"], kHeld) << call;
    Matrix<double> factors = equations.a;
    std::vector<std::int64_t> pivots(kOrder);
    ASSERT_EQ(Lapack<double>::getrf(context, kOrder, kOrder, factors.data.data(), factors.ld,
                                    pivots.data(), &equations.info),
              FLEET_OK);
    EXPECT_EQ(last_of(context)["where"], "devices") << call;
  }
}

/// The options with a machine whose CPU is faster than its devices.
std::string with_a_fast_cpu() {
  Machine machine = host_machine(2, 2, std::int64_t{1} << 30);
  machine.devices[kHost].kernels = {{DataType::f64, 1024, 1e15}};
  const std::string file = test::temporary_file("fast_cpu.json");
  std::ofstream(file) << to_json(machine);
  return "backend=host;devices=2;offload=auto;online=off;machine=" + file;
}

TEST(HeldFactors, AreNotMadeWhereTheCpuIsFasterOrDevicesAreForbidden) {
  for (const std::string& options :
       {host_options(2) + ";offload=never", host_options(2) + ";offload=auto;min_flops=1e9",
        with_a_fast_cpu()}) {
    const HostContext context(options);
    Equations<double> equations(1);
    ASSERT_EQ(equations.solve(context, Op::transpose), FLEET_OK) << fleet_message();
    EXPECT_LT(equations.error(Op::transpose), kMostError);
    EXPECT_EQ(last_of(context)["where"], "cpu") << options;
  }
}

/// Solves with the n-th of something failing: all results are right. Returns how often factors were
/// held.
int held_with(const std::string& fault, int first, int last, const std::string& options) {
  int held = 0;
  for (int n = first; n <= last; ++n) {
    const HostContext context(options + ";inject=" + fault + std::to_string(n));
    Equations<double> equations(1, 60);
    for (const Op op : {Op::none, Op::transpose}) {
      EXPECT_EQ(equations.solve(context, op), FLEET_OK) << fault << n << fleet_message();
      EXPECT_LT(equations.error(op), kMostError) << fault << n;
      EXPECT_EQ(equations.info, 0);
      held += last_of(context)["reason"] == kHeld ? 1 : 0;
    }
  }
  return held;
}

TEST(HeldFactors, OutlastEveryKernelThatFails) {
  constexpr int kKernels = 60;
  // One of two calls has the fault, and the other none.
  EXPECT_GE(held_with("launch:", 1, kKernels, host_options(2) + ";tile=16"), kKernels);
}

TEST(HeldFactors, OutlastCopiesAllocationsAndDevicesThatFail) {
  EXPECT_GT(held_with("copy:", 1, 20, host_options(2) + ";tile=16"), 19);
  held_with("alloc:", 1, 12, host_options(2) + ";tile=16");
  held_with("lost:1@", 0, 60, host_options(3) + ";tile=16");
  held_with("lost:0@", 0, 30, host_options(1) + ";tile=16");
}

// ---- determinants -------------------------------------------------------------------------------

template <typename T>
void expect_determinant(fleet_context* context, int place) {
  std::mt19937 random{5};
  const Matrix<T> a(kOrder, kOrder, random);
  Matrix<T> factors = a;
  std::vector<std::int64_t> pivots(kOrder);
  std::int64_t info = -7;
  ASSERT_EQ(Lapack<T>::getrf(context, kOrder, kOrder, factors.data.data(), factors.ld,
                             pivots.data(), &info),
            FLEET_OK);
  std::complex<double> expected_sign = 1;
  double expected_log = 0;
  for (std::int64_t i = 0; i < kOrder; ++i) {
    const std::complex<double> element = factors.at(i, i);
    expected_sign *=
        (pivots[static_cast<std::size_t>(i)] == i + 1 ? 1.0 : -1.0) * element / std::abs(element);
    expected_log += std::log(std::abs(element));
  }
  Placed<T> matrix(context, a, place);
  T sign = 7;
  double log = 7;

  ASSERT_EQ(Lapack<T>::slogdet(context, kOrder, matrix.data(), a.ld, &sign, &log), FLEET_OK)
      << fleet_message();

  EXPECT_EQ(matrix.now().data, a.data);
  const double most = 1e4 * kOrder * epsilon<T>();
  EXPECT_LT(std::abs(std::complex<double>(sign) - expected_sign), most);
  EXPECT_NEAR(log, expected_log, most);
}

TEST(Determinants, AreThoseOfTheFactorsWhereverTheMatrixIs) {
  for (const std::string& options : {host_options(2) + ";tile=16", std::string("offload=never")})
    for (const int place : {kOwnMemory, 0}) {
      if (place == 0 && options == "offload=never") continue;
      const HostContext context(options);
      expect_determinant<float>(context, place);
      expect_determinant<double>(context, place);
      expect_determinant<std::complex<float>>(context, place);
      expect_determinant<Complex>(context, place);
      if (place == kOwnMemory && options != "offload=never") {
        EXPECT_EQ(last_of(context)["reason"], kHeld);
      }
    }
}

TEST(Determinants, OfSingularAndOfEmptyMatrices) {
  const HostContext context(host_options(2) + ";tile=16");
  std::mt19937 random{5};
  Matrix<double> a(kOrder, kOrder, random);
  for (std::int64_t col = 0; col < kOrder; ++col) a.at(77, col) = 0;
  double sign = 7, log = 7;
  ASSERT_EQ(fleet_dslogdet(context, kOrder, a.data.data(), a.ld, &sign, &log), FLEET_OK);
  EXPECT_EQ(sign, 0);
  EXPECT_EQ(log, -INFINITY);

  ASSERT_EQ(fleet_dslogdet(context, 0, nullptr, 1, &sign, &log), FLEET_OK);
  EXPECT_EQ(sign, 1);
  EXPECT_EQ(log, 0);
}

// ---- arguments ----------------------------------------------------------------------------------

std::string refusal(fleet_status status) {
  return status == FLEET_BAD_ARGUMENT ? fleet_message() : "accepted";
}

TEST(HeldFactors, AreAskedForWithLegalArguments) {
  const HostContext context(host_options(1));
  double a[9] = {}, b[6] = {}, x[6] = {};
  std::int64_t info = 0;
  fleet_context* c = context;
  const auto n = FLEET_NO_TRANS;
  EXPECT_EQ(refusal(fleet_dsolve(c, static_cast<fleet_op>('x'), 3, 2, a, 3, b, 3, x, 3, &info)),
            "fleet_dsolve: argument 2 (trans) is 120, expected 'n', 't' or 'c'");
  EXPECT_EQ(refusal(fleet_dsolve(c, n, -1, 2, a, 3, b, 3, x, 3, &info)),
            "fleet_dsolve: argument 3 (n) is -1, expected at least 0");
  EXPECT_EQ(refusal(fleet_dsolve(c, n, 3, 2, a, 2, b, 3, x, 3, &info)),
            "fleet_dsolve: argument 6 (lda) is 2, expected at least 3");
  EXPECT_EQ(refusal(fleet_dsolve(c, n, 3, 2, a, 3, b, 3, x, 2, &info)),
            "fleet_dsolve: argument 10 (ldx) is 2, expected at least 3");
  EXPECT_EQ(refusal(fleet_dsolve(c, n, 3, 2, a, 3, b, 3, b, 4, &info)),
            "fleet_dsolve: argument 10 (ldx) is 4, expected that of B where X is B, 3");
  EXPECT_EQ(refusal(fleet_dsolve(c, n, 3, 2, a, 3, b, 3, x, 3, nullptr)),
            "fleet_dsolve: argument 11 (info) is NULL");
  EXPECT_EQ(refusal(fleet_dslogdet(c, 3, a, 3, nullptr, b)),
            "fleet_dslogdet: argument 5 (sign) is NULL");
}

}  // namespace
}  // namespace fleet
