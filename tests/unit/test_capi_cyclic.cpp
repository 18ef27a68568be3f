// SPDX-License-Identifier: BSD-3-Clause
// test_capi_cyclic.cpp: block-cyclic matrices through the public header: what calls on them and on
// their views compute, and the bytes that were moved for it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fleetblas/fleetblas.hpp"
#include "support/processes.hpp"
#include "support/tracked.hpp"

namespace fleet {
namespace {

using fleetblas::Context;
using Numbers = std::vector<double>;

constexpr std::int64_t kEdge = 96;
constexpr std::int64_t kBytes = kEdge * kEdge * 8;

using Matrix = test::MatrixHandle;

Matrix create(const Context& context, const char* place, std::int64_t rows = kEdge,
              std::int64_t cols = kEdge) {
  fleet_matrix* made = nullptr;
  EXPECT_EQ(fleet_matrix_create(context.handle(), FLEET_F64, rows, cols, place, &made), FLEET_OK)
      << fleet_message();
  return Matrix(made);
}

Matrix filled(const Context& context, const char* place, const Numbers& numbers) {
  Matrix made = create(context, place);
  EXPECT_EQ(fleet_matrix_scatter(made.get(), numbers.data(), kEdge), FLEET_OK) << fleet_message();
  return made;
}

Matrix view(const Matrix& of, std::int64_t row, std::int64_t col, std::int64_t rows,
            std::int64_t cols) {
  fleet_matrix* made = nullptr;
  EXPECT_EQ(fleet_matrix_view(of.get(), row, col, rows, cols, &made), FLEET_OK) << fleet_message();
  return Matrix(made);
}

Numbers gathered(const Matrix& matrix, std::int64_t rows = kEdge, std::int64_t cols = kEdge) {
  Numbers numbers(static_cast<std::size_t>(rows * cols), -99);
  EXPECT_EQ(fleet_matrix_gather(matrix.get(), numbers.data(), rows), FLEET_OK) << fleet_message();
  return numbers;
}

/// Different everywhere, with a diagonal that equations can be solved with.
Numbers numbers(int seed) {
  Numbers made(static_cast<std::size_t>(kEdge * kEdge));
  for (std::int64_t col = 0; col < kEdge; ++col)
    for (std::int64_t row = 0; row < kEdge; ++row)
      made[static_cast<std::size_t>(row + col * kEdge)] =
          std::sin(static_cast<double>(seed + 3 * row + 7 * col)) / 8 + (row == col ? 4 : 0);
  return made;
}

double distance(const Numbers& x, const Numbers& y) {
  double most = x.size() == y.size() ? 0 : 1e9;
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i)
    most = std::max(most, std::isfinite(x[i]) ? std::abs(x[i] - y[i]) : 1e9);
  return most;
}

fleet_status gemm(const Context& context, const Matrix& a, const Matrix& b, double beta,
                  const Matrix& c) {
  fleet_event* event = nullptr;
  const fleet_status queued = fleet_dgemm_async(context.handle(), FLEET_NO_TRANS, FLEET_NO_TRANS,
                                                1.0, a.get(), b.get(), beta, c.get(), &event);
  if (queued != FLEET_OK) return queued;
  const fleet_status status = fleet_event_wait(event);
  fleet_event_destroy(event);
  return status;
}

/// C += A * B of parts of matrices with kEdge rows, on the CPU.
void add_product(const Numbers& a, std::int64_t at_a, const Numbers& b, std::int64_t at_b,
                 std::int64_t m, std::int64_t n, std::int64_t k, Numbers& c, std::int64_t at_c) {
  for (std::int64_t j = 0; j < n; ++j)
    for (std::int64_t l = 0; l < k; ++l)
      for (std::int64_t i = 0; i < m; ++i)
        c[static_cast<std::size_t>(at_c + i + j * kEdge)] +=
            a[static_cast<std::size_t>(at_a + i + l * kEdge)] *
            b[static_cast<std::size_t>(at_b + l + j * kEdge)];
}

TEST(Cyclic, AProductOfThreeMovesNothingBetweenHostAndDevices) {
  const Context context(test::small_tiles(4));
  const Numbers x = numbers(1), y = numbers(2);
  const Matrix a = filled(context, "c2x2:24", x), b = filled(context, "c2x2:24", y),
               c = create(context, "c2x2:24");
  EXPECT_EQ(test::moved(context, "h2d"), 2 * kBytes);

  for (int i = 0; i < 3; ++i) ASSERT_EQ(gemm(context, a, b, i == 0 ? 0.0 : 1.0, c), FLEET_OK);

  EXPECT_EQ(test::moved(context, "h2d"), 2 * kBytes);
  EXPECT_EQ(test::moved(context, "d2h"), 0);
  EXPECT_GT(test::moved(context, "p2p"), 0);
  const Numbers z = gathered(c);
  EXPECT_EQ(test::moved(context, "d2h"), kBytes);
  Numbers want(x.size());
  for (int i = 0; i < 3; ++i) add_product(x, 0, y, 0, kEdge, kEdge, kEdge, want, 0);
  EXPECT_LT(distance(z, want), 1e-10);
}

TEST(Cyclic, ScatterAndGatherGiveBackWhatWentIn) {
  for (const char* place : {"c", "c1x4", "c2x2:17", "c4x1:200", "c:5", "h", "p", "1"}) {
    const Context context(test::small_tiles(4));
    const Numbers x = numbers(3);
    const Matrix a = filled(context, place, x);
    EXPECT_EQ(distance(gathered(a), x), 0) << place;
    Numbers part = gathered(view(a, 5, 9, 40, 30), 40, 30);
    EXPECT_EQ(part[3 + 40 * 7], x[8 + kEdge * 16]) << place;
    std::ranges::fill(part, 2.5);
    ASSERT_EQ(fleet_matrix_scatter(view(a, 30, 11, 40, 30).get(), part.data(), 40), FLEET_OK);
    Numbers want = x;
    for (std::int64_t col = 11; col < 41; ++col)
      std::fill_n(want.begin() + 30 + col * kEdge, 40, 2.5);
    EXPECT_EQ(distance(gathered(a), want), 0) << place;
  }
}

TEST(Cyclic, ViewsAtBlocksFindTheirTilesWhereTheyAre) {
  const Context context(test::small_tiles(4));
  const Numbers x = numbers(1), y = numbers(2), z = numbers(3);
  const Matrix a = filled(context, "c2x2:16", x), b = filled(context, "c2x2:16", y),
               c = filled(context, "c2x2:16", z);
  const std::int64_t before = test::moved(context, "h2d");

  ASSERT_EQ(
      gemm(context, view(a, 16, 32, 48, 64), view(b, 32, 0, 64, 32), 1.0, view(c, 48, 64, 48, 32)),
      FLEET_OK);
  ASSERT_EQ(gemm(context, a, b, 1.0, c), FLEET_OK);

  EXPECT_EQ(test::moved(context, "h2d"), before);
  EXPECT_EQ(test::moved(context, "d2h"), 0);
  Numbers want = z;
  add_product(x, 16 + 32 * kEdge, y, 32, 48, 32, 64, want, 48 + 64 * kEdge);
  add_product(x, 0, y, 0, kEdge, kEdge, kEdge, want, 0);
  EXPECT_LT(distance(gathered(c), want), 1e-10);
}

TEST(Cyclic, ViewsAnywhereAreRight) {
  const Context context(test::small_tiles(4));
  const Numbers x = numbers(1), y = numbers(2), z = numbers(3);
  const Matrix a = filled(context, "c2x2:16", x), b = filled(context, "c1x3:20", y),
               c = filled(context, "c2x2:16", z);

  ASSERT_EQ(
      gemm(context, view(a, 7, 31, 50, 33), view(b, 3, 5, 33, 41), 1.0, view(c, 21, 13, 50, 41)),
      FLEET_OK);

  Numbers want = z;
  add_product(x, 7 + 31 * kEdge, y, 3 + 5 * kEdge, 50, 41, 33, want, 21 + 13 * kEdge);
  EXPECT_LT(distance(gathered(c), want), 1e-10);
}

TEST(Cyclic, TrianglesOfAMatrixShareItsTiles) {
  const Context context(test::small_tiles(4));
  const Numbers x = numbers(1), z = numbers(3);
  const Matrix a = filled(context, "c2x2:16", x), c = filled(context, "c2x2:16", z);

  ASSERT_EQ(fleet_dsyrk_async(context.handle(), FLEET_LOWER, FLEET_NO_TRANS, 1.0, a.get(), 1.0,
                              c.get(), nullptr),
            FLEET_OK);
  ASSERT_EQ(fleet_dtrsm_async(context.handle(), FLEET_LEFT, FLEET_LOWER, FLEET_NO_TRANS,
                              FLEET_NON_UNIT, 1.0, c.get(), a.get(), nullptr),
            FLEET_OK);

  const Numbers l = gathered(c), solution = gathered(a);
  // Nothing but the tiles on the diagonal, which count as triangles in one call and as a whole in
  // another, was at home.
  EXPECT_LE(test::moved(context, "d2h"), 2 * kBytes + 3 * kBytes / 6);
  Numbers want = z, transposed(x.size());
  for (std::int64_t i = 0; i < kEdge; ++i)
    for (std::int64_t j = 0; j < kEdge; ++j)
      transposed[static_cast<std::size_t>(i + j * kEdge)] =
          x[static_cast<std::size_t>(j + i * kEdge)];
  add_product(x, 0, transposed, 0, kEdge, kEdge, kEdge, want, 0);
  for (std::int64_t j = 0; j < kEdge; ++j)  // above the diagonal nothing changes
    for (std::int64_t i = 0; i < j; ++i)
      want[static_cast<std::size_t>(i + j * kEdge)] = z[static_cast<std::size_t>(i + j * kEdge)];
  EXPECT_LT(distance(l, want), 1e-10);
  Numbers lower = l, back(x.size());
  for (std::int64_t j = 0; j < kEdge; ++j)
    for (std::int64_t i = 0; i < j; ++i) lower[static_cast<std::size_t>(i + j * kEdge)] = 0;
  add_product(lower, 0, solution, 0, kEdge, kEdge, kEdge, back, 0);
  EXPECT_LT(distance(back, x), 1e-9);
}

TEST(Cyclic, ScatterAndGatherComeInTheirTurn) {
  const Context context(test::small_tiles(4));
  const Numbers x = numbers(1), y = numbers(2);
  const Matrix a = create(context, "c2x2:16"), c = create(context, "c2x2:16");
  Numbers first(x.size()), second(x.size());
  fleet_event* done = nullptr;

  const auto product = [&](const Numbers& of, Numbers& to, fleet_event** event) {
    ASSERT_EQ(fleet_matrix_scatter_async(a.get(), of.data(), kEdge, nullptr), FLEET_OK);
    ASSERT_EQ(fleet_dgemm_async(context.handle(), FLEET_NO_TRANS, FLEET_NO_TRANS, 1.0, a.get(),
                                a.get(), 0.0, c.get(), nullptr),
              FLEET_OK);
    ASSERT_EQ(fleet_matrix_gather_async(c.get(), to.data(), kEdge, event), FLEET_OK);
  };
  product(x, first, nullptr);
  product(y, second, &done);

  EXPECT_EQ(fleet_event_wait(done), FLEET_OK) << fleet_message();
  fleet_event_destroy(done);
  Numbers want(x.size());
  add_product(x, 0, x, 0, kEdge, kEdge, kEdge, want, 0);
  EXPECT_LT(distance(first, want), 1e-10);
  std::ranges::fill(want, 0);
  add_product(y, 0, y, 0, kEdge, kEdge, kEdge, want, 0);
  EXPECT_LT(distance(second, want), 1e-10);
}

TEST(Cyclic, AForkedChildHasWhatItScattersItself) {
  const Context context(test::small_tiles(4));
  const Numbers x = numbers(1);
  const Matrix a = filled(context, "c2x2:16", x);

  EXPECT_TRUE(test::child_succeeds([&] {
    Numbers seen(x.size());
    if (fleet_matrix_gather(a.get(), seen.data(), kEdge) != FLEET_UNSUPPORTED) return false;
    const Matrix own = create(context, "c2x2:16");
    return fleet_matrix_scatter(own.get(), x.data(), kEdge) == FLEET_OK &&
           fleet_matrix_gather(own.get(), seen.data(), kEdge) == FLEET_OK && seen == x;
  }));

  EXPECT_EQ(distance(gathered(a), x), 0);
}

TEST(Cyclic, MemoryOfTheCallerIsDistributedAheadOfCalls) {
  const Context context(test::small_tiles(4));
  Numbers x = numbers(1);
  fleet_matrix* made = nullptr;
  ASSERT_EQ(fleet_matrix_wrap(context.handle(), FLEET_F64, kEdge, kEdge, x.data(), kEdge, &made),
            FLEET_OK);
  const Matrix a(made);

  fleet_event* event = nullptr;
  ASSERT_EQ(fleet_matrix_distribute(a.get(), "c2x2:16", &event), FLEET_OK) << fleet_message();
  EXPECT_EQ(fleet_event_wait(event), FLEET_OK);
  fleet_event_destroy(event);
  EXPECT_EQ(test::moved(context, "h2d"), kBytes);
  const Matrix c = create(context, "c2x2:16");
  ASSERT_EQ(gemm(context, a, a, 0.0, c), FLEET_OK);

  EXPECT_LT(test::moved(context, "h2d"), 2 * kBytes);  // some more where home is the nearest holder
  Numbers want(x.size());
  add_product(x, 0, x, 0, kEdge, kEdge, kEdge, want, 0);
  EXPECT_LT(distance(gathered(c), want), 1e-10);
}

TEST(Cyclic, WhatDevicesDoNotHoldIsAtHome) {
  const Context context(test::small_tiles(2, ";memory_cap=40000"));
  const Numbers x = numbers(1), y = numbers(2);
  const Matrix a = filled(context, "c1x2:16", x), b = filled(context, "c1x2:16", y),
               c = create(context, "c1x2:16");

  ASSERT_EQ(gemm(context, a, b, 0.0, c), FLEET_OK);

  Numbers want(x.size());
  add_product(x, 0, y, 0, kEdge, kEdge, kEdge, want, 0);
  EXPECT_LT(distance(gathered(c), want), 1e-10);
  EXPECT_EQ(distance(gathered(a), x), 0);
}

TEST(Cyclic, WithoutDevicesItIsAMatrixInHostMemory) {
  const Context context("offload=never");
  const Numbers x = numbers(1);
  const Matrix a = filled(context, "c2x2:16", x), c = create(context, "c2x2:16");

  ASSERT_EQ(gemm(context, a, a, 0.0, c), FLEET_OK);

  Numbers want(x.size());
  add_product(x, 0, x, 0, kEdge, kEdge, kEdge, want, 0);
  EXPECT_LT(distance(gathered(c), want), 1e-10);
}

TEST(Cyclic, ALostDeviceTakesItsTilesAndSaysSo) {
  const Context context(test::small_tiles(2, ";inject=poison,lost:1@200"));
  const Numbers x = numbers(1);
  Numbers want(x.size());
  add_product(x, 0, x, 0, kEdge, kEdge, kEdge, want, 0);
  const Matrix a = filled(context, "c1x2:16", x);
  std::vector<Matrix> results;

  for (int i = 0; i < 4; ++i) {
    results.push_back(create(context, "c1x2:16"));
    static_cast<void>(gemm(context, a, a, 0.0, results.back()));
  }

  int undefined = 0;
  for (const Matrix& result : results) {
    Numbers seen(x.size());
    const fleet_status status = fleet_matrix_gather(result.get(), seen.data(), kEdge);
    if (status == FLEET_OK) {
      EXPECT_LT(distance(seen, want), 1e-10);
      continue;
    }
    EXPECT_EQ(status, FLEET_DEVICE_FAILED);
    ++undefined;
    ASSERT_EQ(fleet_matrix_scatter(result.get(), x.data(), kEdge), FLEET_OK) << fleet_message();
    EXPECT_EQ(distance(gathered(result), x), 0);
  }
  EXPECT_GT(undefined, 0);
}

TEST(Cyclic, PlacesThatAreNoneAreRefusedByName) {
  const Context context(test::small_tiles(4));
  const auto refuses = [&](const char* place, const char* why) {
    fleet_matrix* made = nullptr;
    EXPECT_EQ(fleet_matrix_create(context.handle(), FLEET_F64, 8, 8, place, &made),
              FLEET_BAD_ARGUMENT)
        << place;
    EXPECT_NE(std::string(fleet_message()).find(why), std::string::npos) << fleet_message();
  };
  refuses("c2", "the grid needs rows and columns");
  refuses("c2x", "the number of the grid's columns is no positive number");
  refuses("c0x2", "the number of the grid's rows is no positive number");
  refuses("c2x2:", "the block is no positive number");
  refuses("c2x2:0", "the block is no positive number");
  refuses("c2x2:64k", "'k' is too much");
  refuses("c2x3", "2x3 devices: there are 4");
  refuses("c9999x9999", "more places than any machine");
  const Matrix a = create(context, "p");
  EXPECT_EQ(fleet_matrix_distribute(a.get(), "h", nullptr), FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_matrix_distribute(view(a, 0, 0, 8, 8).get(), "c", nullptr), FLEET_BAD_ARGUMENT);
  Numbers x(64);
  EXPECT_EQ(fleet_matrix_scatter(view(a, 0, 0, 8, 8).get(), x.data(), 7), FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_matrix_gather(view(a, 0, 0, 8, 8).get(), nullptr, 8), FLEET_BAD_ARGUMENT);
}

}  // namespace
}  // namespace fleet
