// SPDX-License-Identifier: BSD-3-Clause
// test_capi_held.cpp: solve, inverse and slogdet, whose matrix is only read: with factors that stay
// on devices, and with factors at home where they cannot. It knows nothing below the C API.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "support/host_context.hpp"
#include "support/lapack_api.hpp"
#include "support/scale.hpp"

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
/// So many right sides of 150 rows go from strip to strip; for more, each device has some of them.
constexpr std::int64_t kFew = 2;
constexpr const char* kHeld = "factors stay on devices";

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
  unsigned turn = 0;
  for (const Op op : {Op::none, Op::transpose, Op::conjugate})
    for (const std::int64_t columns : {std::int64_t{1}, kFew, kFew + 1, kOrder + 1})
      for (const bool in_place : {false, true}) {
        if (!test::has_turn(turn++)) continue;
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
  expect_held<double>(host_options(2) + ";tile=15");  // strips that cannot lie side by side
}

TEST(HeldFactors, SolveWithInverses) {
  expect_held<double>(test::with_inverses(2) + ";tile=32");
  expect_held<Complex>(test::with_inverses(2) + ";tile=72");
}

TEST(HeldFactors, AreOfMatricesOnTheHost) {
  const HostContext context(host_options(2) + ";tile=16");
  for (const int place_of_a : {kOwnMemory, FLEET_HOST, 0, 1})
    for (const int place_of_b : {kOwnMemory, FLEET_HOST, 1})
      for (const std::int64_t columns : {std::int64_t{0}, kFew, kFew + 1})
        for (const bool in_place : {false, true}) {
          Equations<double> equations(columns);

          ASSERT_EQ(equations.solve(context, Op::transpose, place_of_a, place_of_b, in_place),
                    FLEET_OK)
              << fleet_message();

          EXPECT_EQ(equations.info, 0);
          if (columns > 0) {
            EXPECT_LT(equations.error(Op::transpose), kMostError);
          }
          EXPECT_EQ(last_of(context)["reason"] == kHeld, place_of_a < 0);
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
  for (const std::int64_t columns : {std::int64_t{1}, kFew + 1}) {
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

TEST(HeldFactors, OfOneDeviceSolveForAnyNumberOfRightSides) {
  const HostContext context(host_options(1) + ";tile=16");
  Equations<double> equations(10 * kFew);
  ASSERT_EQ(equations.solve(context, Op::none), FLEET_OK) << fleet_message();
  EXPECT_LT(equations.error(Op::none), kMostError);
  EXPECT_EQ(last_of(context)["reason"], kHeld);
}

TEST(HeldFactors, OfSeveralDevicesHaveRoomForAllOnEachWhereRightSidesAreMany) {
  // Beside slots there is room for half of 180 KB of doubles, and not for all.
  const HostContext context(host_options(2, 320 << 10) + ";tile=16");
  for (const std::int64_t columns : {std::int64_t{1}, kFew + 1}) {
    Equations<double> equations(columns);
    ASSERT_EQ(equations.solve(context, Op::none), FLEET_OK) << fleet_message();
    EXPECT_LT(equations.error(Op::none), kMostError);
    EXPECT_EQ(last_of(context)["reason"] == kHeld, columns == 1) << columns;
  }
}

/// The sign and the logarithm that LAPACK's factors of a have.
template <typename T>
std::pair<std::complex<double>, double> log_det(fleet_context* context, const Matrix<T>& a) {
  Matrix<T> factors = a;
  std::vector<std::int64_t> pivots(static_cast<std::size_t>(a.rows));
  std::int64_t info = -7;
  EXPECT_EQ(Lapack<T>::getrf(context, a.rows, a.rows, factors.data.data(), factors.ld,
                             pivots.data(), &info),
            FLEET_OK);
  std::complex<double> sign = 1;
  double log = 0;
  for (std::int64_t i = 0; i < a.rows; ++i) {
    const std::complex<double> element = factors.at(i, i);
    sign *=
        (pivots[static_cast<std::size_t>(i)] == i + 1 ? 1.0 : -1.0) * element / std::abs(element);
    log += std::log(std::abs(element));
  }
  return {sign, log};
}

/// The columns of the inverse are solutions.
template <typename T>
void expect_inverse(fleet_context* context, const Matrix<T>& a, const std::string& where,
                    int place = kOwnMemory, bool in_place = false) {
  Placed<T> matrix(context, a, place), made(context, a, place);
  T* const found = in_place ? matrix.data() : made.data();
  std::int64_t info = -7;
  ASSERT_EQ(Lapack<T>::inverse(context, a.rows, matrix.data(), a.ld, found, a.ld, &info), FLEET_OK)
      << where << fleet_message();
  EXPECT_EQ(info, 0) << where;
  const Matrix<T> x = in_place ? matrix.now() : made.now();
  if (!in_place) {
    EXPECT_EQ(matrix.now().data, a.data) << where << ": A has changed";
  }
  Matrix<T> unit = a;
  for (std::int64_t col = 0; col < a.cols; ++col)
    for (std::int64_t row = 0; row < a.rows; ++row) unit.at(row, col) = row == col ? T(1) : T(0);
  EXPECT_LT(difference(product(Op::none, a, Op::none, x), unit).largest() /
                (a.largest() * x.largest() * static_cast<double>(a.rows) * epsilon<T>()),
            kMostError)
      << where;
}

struct Held {
  int faults = 0, calls = 0;
};

/// Calls with the n-th of something failing, two for each n: all results are right. Returns how
/// many calls had held factors.
Held held_with(const std::string& fault, int first, int last, const std::string& options) {
  Held held;
  const HostContext cpu("offload=never");
  for (int n = first; n <= last; n += static_cast<int>(test::scaled_step())) {
    ++held.faults;
    const HostContext context(options + ";inject=" + fault + std::to_string(n));
    Equations<double> equations(1, 60);
    const auto [expected_sign, expected_log] = log_det(cpu, equations.a);
    const bool has_determinant = held.faults % 2 == 0;
    if (has_determinant) {
      double sign = 7, log = 7;
      EXPECT_EQ(fleet_dslogdet(context, 60, equations.a.data.data(), equations.a.ld, &sign, &log),
                FLEET_OK)
          << fault << n << fleet_message();
      EXPECT_EQ(sign, expected_sign.real()) << fault << n;
      EXPECT_NEAR(log, expected_log, 1e-10) << fault << n;
      held.calls += last_of(context)["reason"] == kHeld ? 1 : 0;
    }
    for (const Op op : {Op::none, Op::transpose}) {
      if (op == Op::transpose && has_determinant) continue;
      EXPECT_EQ(equations.solve(context, op), FLEET_OK) << fault << n << fleet_message();
      EXPECT_LT(equations.error(op), kMostError) << fault << n;
      EXPECT_EQ(equations.info, 0);
      held.calls += last_of(context)["reason"] == kHeld ? 1 : 0;
    }
    const HostContext again(options + ";inject=" + fault + std::to_string(n));
    expect_inverse(again, equations.a, fault + std::to_string(n));
  }
  return held;
}

TEST(HeldFactors, OutlastEveryKernelThatFails) {
  constexpr int kKernels = 60;
  // One of two calls has the fault, and the other none.
  for (const std::string& options : {host_options(2), test::with_inverses(2)}) {
    const Held held = held_with("launch:", 1, kKernels, options + ";tile=16");
    EXPECT_GE(held.calls, held.faults);
  }
}

TEST(HeldFactors, OutlastCopiesAllocationsAndDevicesThatFail) {
  const Held held = held_with("copy:", 1, 20, host_options(2) + ";tile=16");
  EXPECT_GE(held.calls, held.faults);
  held_with("alloc:", 1, 12, host_options(2) + ";tile=16");
  held_with("lost:1@", 0, 60, host_options(3) + ";tile=16");
  held_with("lost:0@", 0, 30, host_options(1) + ";tile=16");
}

// ---- inverses -----------------------------------------------------------------------------------

TEST(Inverses, AreOfMatricesAnywhere) {
  std::mt19937 random{29};
  for (const std::string& options :
       {host_options(2) + ";tile=16", host_options(1) + ";tile=64", test::with_inverses(3),
        host_options(2) + ";tile=15", std::string("offload=never")}) {
    const HostContext context(options);
    const bool has_devices = options != "offload=never";
    for (const int place : {kOwnMemory, FLEET_HOST, 1}) {
      if (place != kOwnMemory && options.find("devices=2") == std::string::npos) continue;
      for (const bool in_place : {false, true}) {
        expect_inverse(context, Matrix<double>(kOrder, kOrder, random), options, place, in_place);
        if (has_devices) {
          EXPECT_EQ(last_of(context)["reason"] == kHeld, place < 0 && !in_place) << options;
        }
        expect_inverse(context, Matrix<Complex>(kOrder, kOrder, random), options, place, in_place);
      }
    }
    expect_inverse(context, Matrix<float>(70, 70, random), options);
    expect_inverse(context, Matrix<std::complex<float>>(1, 1, random), options);
  }
}

TEST(Inverses, OfSingularAndOfEmptyMatrices) {
  const HostContext context(host_options(2) + ";tile=16");
  std::mt19937 random{5};
  Matrix<double> a(kOrder, kOrder, random), x = a;
  for (std::int64_t row = 0; row < kOrder; ++row) a.at(row, 20) = 0;
  std::int64_t info = -7;
  ASSERT_EQ(fleet_dinverse(context, kOrder, a.data.data(), a.ld, x.data.data(), x.ld, &info),
            FLEET_OK);
  EXPECT_EQ(info, 21);
  ASSERT_EQ(fleet_dinverse(context, 0, nullptr, 1, nullptr, 1, &info), FLEET_OK);
  EXPECT_EQ(info, 0);
}

// ---- determinants -------------------------------------------------------------------------------

template <typename T>
void expect_determinants(fleet_context* context, int place) {
  for (const unsigned seed : test::few({1u, 2u, 3u, 4u})) {
    std::mt19937 random{seed};
    const Matrix<T> a(kOrder, kOrder, random);
    const auto [expected_sign, expected_log] = log_det(context, a);
    Placed<T> matrix(context, a, place);
    T sign = 7;
    double log = 7;

    ASSERT_EQ(Lapack<T>::slogdet(context, kOrder, matrix.data(), a.ld, &sign, &log), FLEET_OK)
        << fleet_message();

    EXPECT_EQ(matrix.now().data, a.data);
    const double most = 100 * kOrder * epsilon<T>();
    EXPECT_LT(std::abs(std::complex<double>(sign) - expected_sign), most);
    EXPECT_NEAR(log, expected_log, most);
  }
}

TEST(Determinants, AreThoseOfTheFactorsWhereverTheMatrixIs) {
  for (const std::string& options : {host_options(2) + ";tile=16", std::string("offload=never")})
    for (const int place : {kOwnMemory, 0}) {
      if (place == 0 && options == "offload=never") continue;
      const HostContext context(options);
      expect_determinants<float>(context, place);
      expect_determinants<double>(context, place);
      expect_determinants<std::complex<float>>(context, place);
      expect_determinants<Complex>(context, place);
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

TEST(Determinants, OfInfiniteDiagonalsHaveTheirSign) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const std::string& options : {host_options(1), std::string("offload=never")}) {
    const HostContext context(options);
    double sign = 7, log = 7;
    for (const double first : {infinity, -infinity}) {
      const double a[4] = {first, 0, 0, 1};
      ASSERT_EQ(fleet_dslogdet(context, 2, a, 2, &sign, &log), FLEET_OK);
      EXPECT_EQ(sign, first > 0 ? 1 : -1);
      EXPECT_EQ(log, infinity);
    }
    const double a[4] = {std::nan(""), 0, 0, 1};
    ASSERT_EQ(fleet_dslogdet(context, 2, a, 2, &sign, &log), FLEET_OK);
    EXPECT_TRUE(std::isnan(log));
  }
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
  EXPECT_EQ(refusal(fleet_dsolve(c, n, 0, 2, nullptr, 1, nullptr, 1, nullptr, 5, &info)),
            "accepted");
  EXPECT_EQ(info, 0);
  EXPECT_EQ(refusal(fleet_dsolve(c, n, 3, 2, a, 3, b, 3, x, 3, nullptr)),
            "fleet_dsolve: argument 11 (info) is NULL");
  EXPECT_EQ(refusal(fleet_dinverse(c, 3, a, 2, b, 3, &info)),
            "fleet_dinverse: argument 4 (lda) is 2, expected at least 3");
  EXPECT_EQ(refusal(fleet_dinverse(c, 2, a, 2, a, 3, &info)),
            "fleet_dinverse: argument 6 (ldx) is 3, expected that of A where X is A, 2");
  EXPECT_EQ(refusal(fleet_dslogdet(c, 3, a, 3, nullptr, b)),
            "fleet_dslogdet: argument 5 (sign) is NULL");
}

}  // namespace
}  // namespace fleet
