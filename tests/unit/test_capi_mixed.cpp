// SPDX-License-Identifier: BSD-3-Clause
// test_capi_mixed.cpp: equations in mixed precision on the devices that hold the matrix in both
// precisions, and on the host where that cannot be. It knows nothing below the C API.
#include <gtest/gtest.h>

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
using test::Matrix;
using test::Placed;
using test::product;
using test::with_inverses;
using Complex = std::complex<double>;
using nlohmann::json;

constexpr std::int64_t kOrder = 150;

fleet_status mixed_gesv(fleet_context* context, std::int64_t n, std::int64_t columns, double* a,
                        std::int64_t lda, std::int64_t* pivots, const double* b, std::int64_t ldb,
                        double* x, std::int64_t ldx, std::int64_t* iter, std::int64_t* info) {
  return fleet_dsgesv(context, n, columns, a, lda, pivots, b, ldb, x, ldx, iter, info);
}
fleet_status mixed_gesv(fleet_context* context, std::int64_t n, std::int64_t columns, Complex* a,
                        std::int64_t lda, std::int64_t* pivots, const Complex* b, std::int64_t ldb,
                        Complex* x, std::int64_t ldx, std::int64_t* iter, std::int64_t* info) {
  return fleet_zcgesv(context, n, columns, a, lda, pivots, b, ldb, x, ldx, iter, info);
}

/// Random equations, and what a call made of them.
template <typename T>
struct System {
  std::mt19937 random{11};
  Matrix<T> a, b, x{0, 0};
  std::int64_t iter = -7, info = -7;
  std::vector<std::int64_t> pivots;

  explicit System(std::int64_t columns, std::int64_t n = kOrder)
      : a(n, n, random), b(n, columns, random), pivots(static_cast<std::size_t>(n)) {
    a.strengthen();
  }
  fleet_status solve(fleet_context* context, int place_of_a, int place_of_b = kOwnMemory) {
    iter = info = -7;
    Placed<T> matrix(context, a, place_of_a), right(context, b, place_of_b),
        made(context, b, place_of_b);
    const fleet_status status =
        mixed_gesv(context, a.rows, b.cols, matrix.data(), a.ld, pivots.data(), right.data(), b.ld,
                   made.data(), b.ld, &iter, &info);
    x = made.now();
    if (iter >= 0) {
      EXPECT_EQ(matrix.now().data, a.data) << "A has changed";
    }
    EXPECT_EQ(right.now().data, b.data) << "B has changed";
    return status;
  }
  double residual() const {
    return difference(product(Op::none, a, Op::none, x), b).largest() /
           (a.largest() * std::max(1.0, x.largest()));
  }
};

constexpr double kAsInDouble = 1e-13;

json books(const HostContext& context) { return json::parse(context.text(fleet_stats_json)); }

template <typename T>
void expect_refined_on_devices(const std::string& options, std::int64_t columns) {
  for (const int place : {kOwnMemory, FLEET_HOST, 0, 1}) {
    const HostContext context(options);
    System<T> system(columns);

    ASSERT_EQ(system.solve(context, place, place), FLEET_OK) << fleet_message();

    EXPECT_EQ(system.info, 0);
    EXPECT_GT(system.iter, 0);
    EXPECT_LT(system.iter, 10);
    EXPECT_LT(system.residual(), kAsInDouble);
    const json last = books(context)["last"];
    EXPECT_EQ(last["where"], "devices");
    EXPECT_EQ(last["routine"], "getrf");
    EXPECT_EQ(last["reason"], "refined in double precision") << last.dump();
  }
}

TEST(MixedEquations, AreRefinedWhereTheMatrixIsHeld) {
  for (const int devices : {2, 3}) {
    const std::string options = host_options(devices) + ";tile=16";
    expect_refined_on_devices<double>(options, 3);
    expect_refined_on_devices<Complex>(options, 2);
  }
}

TEST(MixedEquations, OfOneRightSideAreVectors) {
  expect_refined_on_devices<double>(host_options(2) + ";tile=16", 1);
  expect_refined_on_devices<Complex>(host_options(3) + ";tile=40", 1);
}

TEST(MixedEquations, OfFewerStripsThanDevices) {
  expect_refined_on_devices<double>(host_options(4) + ";tile=64", 1);
}

TEST(MixedEquations, BySolutionsWithInverses) {
  for (const std::int64_t columns : {1, 5}) {
    expect_refined_on_devices<double>(with_inverses(2) + ";tile=32", columns);
    expect_refined_on_devices<Complex>(with_inverses(2) + ";tile=72", columns);
  }
}

/// The options with a machine whose devices multiply halves 100 times as fast as floats.
std::string with_fast_halves(int devices) {
  Machine machine = host_machine(devices, 2, std::int64_t{1} << 30);
  for (Device& device : machine.devices)
    for (KernelRate& rate : device.kernels)
      if (rate.type == DataType::f16) rate.flops_per_s *= 100;
  const std::string file = test::temporary_file("halves.json");
  std::ofstream(file) << to_json(machine);
  return "backend=host;offload=always;online=off;devices=" + std::to_string(devices) +
         ";machine=" + file;
}

TEST(MixedEquations, ByProductsOfHalvesWhereTheseAreFaster) {
  for (const int devices : {1, 3}) {
    for (const std::int64_t columns : {1, 3})
      if (devices > 1)
        expect_refined_on_devices<double>(with_fast_halves(devices) + ";tile=16", columns);
    const HostContext fast(with_fast_halves(devices) + ";tile=16");
    const HostContext even(host_options(devices) + ";tile=16");
    const std::string place = devices == 1 ? "a@0" : "a@0+1+2";
    const std::string text = "sgetrf m=150 n=150 " + place;
    const auto is_in_halves = [](const HostContext& context, const std::string& problem) {
      return json::parse(context.text(fleet_plan_json, problem.c_str()))["in_halves"];
    };
    EXPECT_EQ(is_in_halves(fast, text + " refined"), true);
    EXPECT_EQ(is_in_halves(fast, text), false) << "nobody refines these factors";
    EXPECT_EQ(is_in_halves(even, text + " refined"), false);
  }
}

TEST(MixedEquations, ByProductsOfHalvesConvergeAsSoonAtAnyScale) {
  for (const double scale : {1.0, 1e25, 1e-25}) {
    System<double> system(1, 300);
    for (double& element : system.a.data) element *= scale;
    for (std::int64_t i = 0; i < 300; ++i)
      system.a.at(i, i) /= 300;  // pivots have to be looked for
    const HostContext fast(with_fast_halves(2) + ";tile=32");
    ASSERT_EQ(system.solve(fast, kOwnMemory), FLEET_OK);
    EXPECT_EQ(books(fast)["last"]["reason"], "refined in double precision");
    EXPECT_GT(system.iter, 0);
    const std::int64_t by_halves = system.iter;
    const HostContext even(host_options(2) + ";tile=32");
    ASSERT_EQ(system.solve(even, kOwnMemory), FLEET_OK);
    EXPECT_LE(by_halves, system.iter + 1) << scale;
  }
}

TEST(MixedEquations, ByProductsOfHalvesThatOverflowAreSolvedInDouble) {
  // Wilkinson's matrix: with these pivots its last column grows to 2^(n - 1).
  constexpr std::int64_t kGrowing = 60;
  System<double> system(1, kGrowing);
  for (std::int64_t col = 0; col < kGrowing; ++col)
    for (std::int64_t row = 0; row < kGrowing; ++row)
      system.a.at(row, col) = row == col || col == kGrowing - 1 ? 1 : row > col ? -1 : 0;
  const HostContext context(with_fast_halves(2) + ";tile=8");

  ASSERT_EQ(system.solve(context, kOwnMemory), FLEET_OK);

  EXPECT_EQ(system.iter, -31);
  EXPECT_EQ(system.info, 0);
  EXPECT_TRUE(std::isfinite(system.x.largest()));
}

TEST(MixedEquations, WithoutRightSidesAreFactoredAndNoMore) {
  const HostContext context(host_options(2) + ";tile=16");
  System<double> system(0);

  EXPECT_EQ(system.solve(context, kOwnMemory), FLEET_OK);

  EXPECT_EQ(system.info, 0);
  EXPECT_EQ(system.iter, 0);
}

TEST(MixedEquations, AgreeWhereverTheMatrixIsIfResultsAreDeterministic) {
  const HostContext context(host_options(2) + ";tile=16;deterministic=1");
  System<double> system(2);
  ASSERT_EQ(system.solve(context, kOwnMemory), FLEET_OK);
  const auto first = system.x.data;

  for (const int place : {0, 1, FLEET_HOST}) {
    ASSERT_EQ(system.solve(context, place), FLEET_OK);
    EXPECT_EQ(system.x.data, first) << place;
  }
}

TEST(MixedEquations, AreRefinedOnTheHostWhereDevicesHoldOnePrecisionOnly) {
  // 90 KB of floats fit into each, and 180 KB of doubles beside them do not.
  const HostContext context(host_options(1, 200 << 10) + ";tile=16");
  System<double> system(2);

  ASSERT_EQ(system.solve(context, kOwnMemory), FLEET_OK) << fleet_message();

  EXPECT_GT(system.iter, 0);
  EXPECT_LT(system.residual(), kAsInDouble);
  const json last = books(context)["last"];
  EXPECT_NE(last["reason"], "refined in double precision") << last.dump();
}

TEST(MixedEquations, MemoryIsGivenBackForOtherCalls) {
  // Room for a matrix in both precisions, or for what one more call needs, not for both.
  const HostContext context(host_options(1, 560 << 10) + ";tile=16");
  System<double> system(2);
  for (int call = 0; call < 3; ++call) {
    ASSERT_EQ(system.solve(context, kOwnMemory), FLEET_OK);
    EXPECT_EQ(books(context)["last"]["reason"], "refined in double precision") << call;
    Matrix<double> matrix = system.a;
    ASSERT_EQ(fleet_dgetrf(context, kOrder, kOrder, matrix.data.data(), matrix.ld,
                           system.pivots.data(), &system.info),
              FLEET_OK);
    EXPECT_EQ(books(context)["last"]["where"], "devices") << call;
  }
}

struct Refined {
  int faults = 0, on_devices = 0;
};

/// Solves with the n-th of something failing, for the first `count`; all results are right.
/// Returns how many solutions of two for each n were refined where the matrix is held.
Refined refined_with(const std::string& fault, int first, int last, const std::string& options) {
  Refined refined;
  for (int n = first; n <= last; n += static_cast<int>(test::scaled_step())) {
    const HostContext context(options + ";inject=" + fault + std::to_string(n));
    ++refined.faults;
    System<double> system(1, 60);
    for (int call = 0; call < 2; ++call) {
      EXPECT_EQ(system.solve(context, kOwnMemory), FLEET_OK) << fault << n << fleet_message();
      EXPECT_LT(system.residual(), kAsInDouble) << fault << n;
      EXPECT_EQ(system.info, 0);
      const json last_call = books(context)["last"];
      refined.on_devices += last_call["reason"] == "refined in double precision" ? 1 : 0;
    }
  }
  return refined;
}

TEST(MixedEquations, OutlastEveryKernelThatFails) {
  constexpr int kKernels = 120;  // more than the first call has, and fewer than both
  // One of two calls has the fault, and the other none.
  const auto refined = refined_with("launch:", 1, kKernels, host_options(2) + ";tile=16");
  EXPECT_EQ(refined.on_devices, refined.faults);
}

TEST(MixedEquations, OutlastCopiesAndAllocationsThatFail) {
  const auto refined = refined_with("copy:", 1, 16, host_options(2) + ";tile=16");
  EXPECT_GE(refined.on_devices, refined.faults);
  refined_with("alloc:", 1, 12, host_options(2) + ";tile=16");
}

TEST(MixedEquations, OutlastDevicesThatAreLost) {
  refined_with("lost:1@", 0, 60, host_options(3) + ";tile=16");
  refined_with("lost:0@", 0, 30, host_options(1) + ";tile=16");
}

TEST(MixedEquations, OfOverflowAndOfSingularMatricesFollowLapack) {
  const HostContext context(host_options(2) + ";tile=16");
  System<double> system(2);
  system.a.at(140, 3) = -1e39;
  ASSERT_EQ(system.solve(context, kOwnMemory), FLEET_OK);
  EXPECT_EQ(system.iter, -2);
  EXPECT_EQ(system.info, 0);

  System<double> singular(2);
  for (std::int64_t row = 0; row < kOrder; ++row) singular.a.at(row, 20) = 0;
  ASSERT_EQ(singular.solve(context, kOwnMemory), FLEET_OK);
  EXPECT_EQ(singular.iter, -3);
  EXPECT_EQ(singular.info, 21);
  EXPECT_EQ(singular.x.data, singular.b.data);

  System<double> unknown(1);
  unknown.a.at(70, 70) = NAN;
  ASSERT_EQ(unknown.solve(context, kOwnMemory), FLEET_OK);
  EXPECT_LT(unknown.iter, 0);
}

}  // namespace
}  // namespace fleet
