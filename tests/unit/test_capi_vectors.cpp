// SPDX-License-Identifier: BSD-3-Clause
// test_capi_vectors.cpp: gemv, axpy and dot by the C API: results on devices and on the CPU, the
// arguments that the reference BLAS allows and forbids, and calls during which devices fail. It
// knows nothing below the C API.
#include <gtest/gtest.h>

#include <complex>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "fleetblas/fleetblas.h"
#include "support/host_context.hpp"

namespace fleet {
namespace {

using test::host_options;
using test::HostContext;
using Complex = std::complex<double>;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::vector<double> counted(std::int64_t n) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(static_cast<double>(i % 17) - 8);
  return values;
}

/// Options for virtual devices that are always used, and for the CPU.
std::vector<std::string> both_ways() {
  return {host_options(3), "backend=host;offload=never;devices=1"};
}

TEST(Axpy, AddsOnDevicesAndOnTheCpu) {
  for (const std::string& options : both_ways()) {
    const HostContext context(options);
    const std::int64_t n = 1000;
    const std::vector<double> x = counted(2 * n);
    std::vector<double> y = counted(3 * n), expected = y;
    for (std::int64_t i = 0; i < n; ++i)
      expected[static_cast<std::size_t>(3 * (n - 1 - i))] += 2 * x[static_cast<std::size_t>(2 * i)];

    EXPECT_EQ(fleet_daxpy(context, n, 2.0, x.data(), 2, y.data(), -3), FLEET_OK) << fleet_message();

    EXPECT_EQ(y, expected);
  }
}

TEST(Axpy, ReadsNothingWithoutAnAlphaOrElements) {
  const HostContext context(host_options(1));
  double y = 3;

  EXPECT_EQ(fleet_daxpy(context, 1, 0.0, nullptr, 1, &y, 1), FLEET_OK);
  EXPECT_EQ(fleet_daxpy(context, 0, 1.0, nullptr, 1, nullptr, 1), FLEET_OK);
  EXPECT_EQ(fleet_daxpy(context, -5, 1.0, nullptr, 1, nullptr, 1), FLEET_OK);
  EXPECT_EQ(y, 3);
  EXPECT_EQ(fleet_daxpy(context, 1, 1.0, nullptr, 1, &y, 1), FLEET_BAD_ARGUMENT);
  EXPECT_STREQ(fleet_message(), "fleet_daxpy: argument 4 (x) is NULL");
}

TEST(Axpy, TakesIncrementsOfZeroAndVectorsThatOverlap) {
  const HostContext context(host_options(2));
  double x = 3, y[3] = {1, 2, 4};

  EXPECT_EQ(fleet_daxpy(context, 3, 2.0, &x, 0, y, 1), FLEET_OK);
  EXPECT_EQ(std::vector<double>(y, y + 3), (std::vector<double>{7, 8, 10}));
  EXPECT_EQ(fleet_daxpy(context, 3, 1.0, y, 1, y, 1), FLEET_OK);
  EXPECT_EQ(std::vector<double>(y, y + 3), (std::vector<double>{14, 16, 20}));
}

TEST(Dot, SumsOnDevicesAndOnTheCpu) {
  for (const std::string& options : both_ways()) {
    const HostContext context(options);
    const std::int64_t n = 5000;
    const std::vector<double> x = counted(n), y(2 * n, 0.5);
    double expected = 0, result = kNaN;
    for (const double value : x) expected += value / 2;

    EXPECT_EQ(fleet_ddot(context, n, x.data(), 1, y.data(), -2, &result), FLEET_OK);

    EXPECT_EQ(result, expected);  // halves of small whole numbers: exact in any order
  }
}

TEST(Dot, ConjugatesTheFirstVectorOnlyIfAsked) {
  for (const std::string& options : both_ways()) {
    const HostContext context(options);
    const std::vector<Complex> x{{1, 2}, {3, -1}}, y{{2, 0}, {0, 1}};
    Complex with{kNaN, kNaN}, without = with;

    EXPECT_EQ(fleet_zdotc(context, 2, x.data(), 1, y.data(), 1, &with), FLEET_OK);
    EXPECT_EQ(fleet_zdotu(context, 2, x.data(), 1, y.data(), 1, &without), FLEET_OK);

    EXPECT_EQ(with, Complex(1, -1));
    EXPECT_EQ(without, Complex(3, 7));
  }
}

TEST(Dot, IsZeroWithoutElementsAndTheSquareOfAVectorWithItself) {
  const HostContext context(host_options(2));
  const std::vector<double> x{1, 2, 3};
  double result = kNaN;

  EXPECT_EQ(fleet_ddot(context, 0, nullptr, 1, nullptr, 1, &result), FLEET_OK);
  EXPECT_EQ(result, 0);
  EXPECT_EQ(fleet_ddot(context, 3, x.data(), 1, x.data(), 1, &result), FLEET_OK);
  EXPECT_EQ(result, 14);
  EXPECT_EQ(fleet_ddot(context, 3, x.data(), 1, x.data(), 1, nullptr), FLEET_BAD_ARGUMENT);
}

TEST(Gemv, MultipliesEachWayOnDevicesAndOnTheCpu) {
  // A = [1 2 3; 4 5 6+i] with one extra row, x = (1, i, 2) or (1, i).
  const std::vector<Complex> a{1, 4, kNaN, 2, 5, kNaN, 3, {6, 1}, kNaN};
  const std::vector<Complex> x{1, {0, 1}, 2};
  const Complex one = 1, zero = 0;
  for (const std::string& options : both_ways()) {
    const HostContext context(options);
    const auto product = [&](fleet_op op, std::size_t size) {
      std::vector<Complex> y(size, Complex(kNaN, kNaN));
      EXPECT_EQ(fleet_zgemv(context, op, 2, 3, &one, a.data(), 3, x.data(), 1, &zero, y.data(), 1),
                FLEET_OK)
          << fleet_message();
      return y;
    };

    EXPECT_EQ(product(FLEET_NO_TRANS, 2), (std::vector<Complex>{{7, 2}, {16, 7}}));
    EXPECT_EQ(product(FLEET_TRANS, 3), (std::vector<Complex>{{1, 4}, {2, 5}, {2, 6}}));
    EXPECT_EQ(product(FLEET_CONJ_TRANS, 3), (std::vector<Complex>{{1, 4}, {2, 5}, {4, 6}}));
  }
}

TEST(Gemv, ChangesNothingOfNoSizeAndScalesWithoutAlpha) {
  const HostContext context(host_options(2));
  double y[2] = {3, 5};

  EXPECT_EQ(fleet_dgemv(context, FLEET_NO_TRANS, 2, 0, 1, nullptr, 2, nullptr, 1, 0, y, 1),
            FLEET_OK);
  EXPECT_EQ(y[0] + 10 * y[1], 53);
  EXPECT_EQ(fleet_dgemv(context, FLEET_NO_TRANS, 2, 2, 0, nullptr, 2, nullptr, 1, 2, y, 1),
            FLEET_OK);
  EXPECT_EQ(y[0] + 10 * y[1], 106);
}

TEST(Gemv, NamesTheFirstIllegalArgument) {
  const HostContext context(host_options(1));
  std::vector<double> a(6, 1.0), x(3, 1.0), y(2, 1.0);
  const auto refusal = [&](int op, std::int64_t m, std::int64_t n, std::int64_t lda,
                           std::int64_t incx, std::int64_t incy) {
    EXPECT_EQ(fleet_dgemv(context, static_cast<fleet_op>(op), m, n, 1.0, a.data(), lda, x.data(),
                          incx, 1.0, y.data(), incy),
              FLEET_BAD_ARGUMENT);
    EXPECT_EQ(y, std::vector<double>(2, 1.0));
    return std::string(fleet_message());
  };

  EXPECT_EQ(refusal('x', 2, 3, 2, 1, 1),
            "fleet_dgemv: argument 2 (trans) is 120, expected 'n', 't' or 'c'");
  EXPECT_EQ(refusal('n', -2, 3, 2, 1, 1), "fleet_dgemv: argument 3 (m) is -2, expected at least 0");
  EXPECT_EQ(refusal('n', 2, -3, 2, 1, 1), "fleet_dgemv: argument 4 (n) is -3, expected at least 0");
  EXPECT_EQ(refusal('n', 2, 3, 1, 1, 1), "fleet_dgemv: argument 7 (lda) is 1, expected at least 2");
  EXPECT_EQ(refusal('n', 2, 3, 2, 0, 1), "fleet_dgemv: argument 9 (incx) is 0");
  EXPECT_EQ(refusal('n', 2, 3, 2, 1, 0), "fleet_dgemv: argument 12 (incy) is 0");
  EXPECT_EQ(refusal('n', 2, 3, 2, std::numeric_limits<std::int64_t>::min(), 1),
            "fleet_dgemv: argument 9 (incx) puts the operand beyond any address space");
}

TEST(Gemv, GivesWhatIsNoNumberToWhatDependsOnIt) {
  for (const std::string& options : both_ways()) {
    const HostContext context(options);
    std::vector<double> a(40 * 30, 1.0), x(30, 1.0), y(40, 0.0);
    a[7] = kNaN;

    EXPECT_EQ(fleet_dgemv(context, FLEET_NO_TRANS, 40, 30, 1.0, a.data(), 40, x.data(), 1, 1.0,
                          y.data(), 1),
              FLEET_OK);

    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i] == 30, i != 7) << i;
  }
}

/// Vectors lie on a device.
TEST(Vectors, AreComputedWhereTheyAre) {
  const HostContext context(host_options(2));
  const std::int64_t n = 300;
  const std::vector<double> values = counted(n);
  void* there = nullptr;
  ASSERT_EQ(fleet_alloc(context, 1, static_cast<std::size_t>(n) * 8, &there), FLEET_OK);
  ASSERT_EQ(fleet_copy(context, there, values.data(), static_cast<std::size_t>(n) * 8), FLEET_OK);
  auto* x = static_cast<double*>(there);
  std::vector<double> y(static_cast<std::size_t>(n), 1.0);
  double result = kNaN, expected = 0;
  for (const double value : values) expected += value * value;

  EXPECT_EQ(fleet_ddot(context, n, x, 1, x, 1, &result), FLEET_OK) << fleet_message();
  EXPECT_EQ(result, expected);
  EXPECT_EQ(fleet_daxpy(context, n, -1.0, x, -1, y.data(), 1), FLEET_OK) << fleet_message();
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], 1 - values[y.size() - 1 - i]);
  EXPECT_EQ(fleet_daxpy(context, n, 1.0, x, 0, y.data(), 1), FLEET_UNSUPPORTED);
  EXPECT_EQ(fleet_free(context, there), FLEET_OK);
}

// The N-th copy or kernel fails, and the CPU completes the call.
TEST(Vectors, AreRightWhenADeviceFails) {
  const std::int64_t m = 400, n = 300;
  const std::vector<double> a = counted(m * n), x = counted(n), start = counted(m);
  std::vector<double> expected = start;
  for (std::int64_t j = 0; j < n; ++j)
    for (std::int64_t i = 0; i < m; ++i)
      expected[static_cast<std::size_t>(i)] +=
          a[static_cast<std::size_t>(i + j * m)] * x[static_cast<std::size_t>(j)];
  double dot = 0;
  for (const double value : a) dot += value * value;

  for (const char* fault : {"copy:1", "copy:5", "copy:9", "launch:1", "launch:3", "launch:5"}) {
    const std::string options = host_options(4) + ";tile=100;inject=" + fault;
    const HostContext first(options), second(options);
    std::vector<double> y = start;
    double result = kNaN;
    EXPECT_EQ(
        fleet_dgemv(first, FLEET_NO_TRANS, m, n, 1.0, a.data(), m, x.data(), 1, 1.0, y.data(), 1),
        FLEET_OK)
        << fleet_message();
    EXPECT_EQ(fleet_ddot(second, m * n, a.data(), 1, a.data(), 1, &result), FLEET_OK);
    EXPECT_NE(first.text(fleet_stats_json).find("after a fault"), std::string::npos) << fault;
    EXPECT_NE(second.text(fleet_stats_json).find("after a fault"), std::string::npos) << fault;
    EXPECT_EQ(y, expected) << fault;
    EXPECT_EQ(result, dot) << fault;
  }
}

TEST(Vectors, AreInTheBooksAsTheCallerGaveThem) {
  const HostContext context(host_options(2));
  std::vector<double> a(12, 1.0), x(4, 1.0), y(4, 1.0);
  fleet_dgemv(context, FLEET_TRANS, 3, 4, 1.0, a.data(), 3, x.data(), 1, 0.0, y.data(), 1);

  const std::string stats = context.text(fleet_stats_json);
  const std::string plan = context.text(fleet_plan_json, "ddot n=1000000 x@h y@h");

  EXPECT_NE(stats.find("\"routine\":\"gemv\",\"type\":\"d\",\"m\":3,\"n\":4"), std::string::npos)
      << stats;
  EXPECT_NE(plan.find("ddot n=1000000 x@h y@h"), std::string::npos) << plan;
}

}  // namespace
}  // namespace fleet
