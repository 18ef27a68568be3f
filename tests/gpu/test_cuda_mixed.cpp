// SPDX-License-Identifier: BSD-3-Clause
// test_cuda_mixed.cpp: what equations in mixed precision need of a GPU: matrices that become
// single precision there, solutions with triangles outside of plans, and factors whose updates
// multiply halves.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "cpu/narrow.hpp"
#include "gpu/gpus.hpp"
#include "support/factor_trial.hpp"

namespace fleet {
namespace {

using test::Generator;
using test::gpus;

/// A matrix on the first device, and on the host.
template <typename T>
class OnGpu {
 public:
  OnGpu(Backend& backend, std::int64_t rows, std::int64_t cols)
      : backend_(backend), host(static_cast<std::size_t>(rows * cols)) {
    on_host = {.data = host.data(), .rows = rows, .cols = cols, .ld = rows};
    view = on_host;
    view.data = backend.allocate(kFirstDevice, rows * cols * std::int64_t{sizeof(T)});
  }
  ~OnGpu() { backend_.release(kFirstDevice, view.data); }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;
  void put() { backend_.transfer(kFirstDevice, view, kHost, on_host, sizeof(T)); }
  void get() { backend_.transfer(kHost, on_host, kFirstDevice, view, sizeof(T)); }

 private:
  Backend& backend_;

 public:
  std::vector<T> host;
  View view = {}, on_host = {};
};

template <typename T>
T random_value(Generator& random) {
  std::uniform_real_distribution<double> value(-1, 1);
  if constexpr (std::is_same_v<T, double>)
    return value(random);
  else
    return {value(random), value(random)};
}

template <typename T>
void expect_narrowed_as_on_the_cpu(Storage storage) {
  using Narrow = typename NarrowOf<T>::Type;
  Generator random(4);
  const auto backend = gpus();
  constexpr std::int64_t kRows = 333, kCols = 70, kFirst = 31;
  OnGpu<T> wide(*backend, kRows, kCols);
  OnGpu<Narrow> single(*backend, kRows, kCols);
  OnGpu<double> sizes(*backend, kRows, RowSizes::kColumns);
  for (T& element : wide.host) element = random_value<T>(random);
  wide.host[5] = std::numeric_limits<double>::quiet_NaN();
  wide.host[7] = -1e39;
  wide.put();

  std::vector<DeviceLaunch> launches;
  for (const bool first : {true, false}) {
    const std::int64_t begin = first ? 0 : kFirst, count = first ? kFirst : kCols - kFirst;
    Launch launch{.kernel = Kernel::narrow, .type = {.storage = storage}};
    launch.beta = first ? 0.0 : 1.0;
    launch.a = part(wide.view, storage, 0, begin, kRows, count);
    launch.b = sizes.view;
    launch.c = part(single.view, narrow_of(storage), 0, begin, kRows, count);
    launches.push_back({kFirstDevice, launch});
  }
  backend->compute(launches);
  single.get();
  sizes.get();

  std::vector<Narrow> expected(single.host.size());
  std::vector<double> expected_sizes(sizes.host.size());
  Launch all{.kernel = Kernel::narrow, .type = {.storage = storage}};
  all.a = wide.on_host;
  all.b = {.data = expected_sizes.data(), .rows = kRows, .cols = 2, .ld = kRows};
  all.c = {.data = expected.data(), .rows = kRows, .cols = kCols, .ld = kRows};
  narrow(all);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (i == 5) continue;  // the NaN
    ASSERT_EQ(single.host[i], expected[i]) << i;
  }
  for (std::size_t i = 0; i < expected_sizes.size(); ++i) {
    if (std::isnan(expected_sizes[i]))
      EXPECT_TRUE(std::isnan(sizes.host[i])) << i;
    else
      EXPECT_NEAR(sizes.host[i], expected_sizes[i], 1e-12 * expected_sizes[i]) << i;
  }
}

TEST(CudaMixed, NarrowsAsTheCpu) {
  expect_narrowed_as_on_the_cpu<double>(Storage::f64);
  expect_narrowed_as_on_the_cpu<std::complex<double>>(Storage::c64);
}

TEST(CudaMixed, SolvesVectorsWithInversesOutsideOfPlans) {
  Generator random(5);
  const auto backend = gpus();
  constexpr std::int64_t kOrder = 300;
  const std::int64_t edge = inverse_block(Storage::f32);
  OnGpu<float> square(*backend, kOrder, kOrder), right(*backend, kOrder, 1);
  OnGpu<float> inverses(*backend, edge, (kOrder + edge - 1) / edge * edge);
  std::uniform_real_distribution<float> value(-1, 1);
  for (float& element : square.host) element = value(random) / 20;
  for (std::int64_t i = 0; i < kOrder; ++i)
    square.host[static_cast<std::size_t>(i * (kOrder + 1))] = 2;
  for (const Fill triangle : {Fill::lower, Fill::upper}) {
    const bool unit = triangle == Fill::lower;
    for (float& element : right.host) element = value(random);
    const std::vector<float> b = right.host;
    square.put();
    right.put();
    Launch solving{.kernel = Kernel::solve, .type = DataType::f32, .beta = 1.0};
    solving.a = square.view;
    solving.a.fill = triangle;
    solving.b = inverses.view;
    solving.c = right.view;
    solving.triangular = true;
    solving.diag = unit ? Diag::unit : Diag::non_unit;
    Launch preparing = solving;
    preparing.kernel = Kernel::prepare;
    preparing.b = {};
    preparing.c = inverses.view;

    backend->compute(
        std::array{DeviceLaunch{kFirstDevice, preparing}, DeviceLaunch{kFirstDevice, solving}});
    right.get();

    for (std::int64_t row = 0; row < kOrder; ++row) {
      double sum = 0;
      for (std::int64_t col = unit ? 0 : row; col < (unit ? row + 1 : kOrder); ++col) {
        const double element =
            unit && col == row ? 1 : square.host[static_cast<std::size_t>(row + col * kOrder)];
        sum += element * right.host[static_cast<std::size_t>(col)];
      }
      ASSERT_NEAR(sum, b[static_cast<std::size_t>(row)], 1e-4) << row;
    }
  }
}

/// The error of the factors of a random matrix.
double error_of(std::int64_t order, std::int64_t width, bool in_halves) {
  Generator random(9);
  const auto backend = gpus();
  const Factorization what = make_factorization(
      {.routine = Factoring::getrf, .storage = Storage::f32, .m = order, .n = order});
  const Tuning tuning{.workers = {kFirstDevice}, .grid = {1, 1}, .tile = width};
  Strips strips = strips_of(what, width);
  strips.in_halves = in_halves;
  test::FactorTrial<float> trial(what, random);
  const auto plans = test::plans_of_stages(strips, strips.count(), backend->machine(), tuning);
  EXPECT_EQ(trial.run(plans.front(), *backend), "");
  EXPECT_EQ(trial.verdict(strips), "");
  return static_cast<double>(trial.error_of_factors());
}

TEST(CudaMixed, FactorsInHalvesAreNearlyAsExactAsInFloats) {
  // What checks factors is compiled without optimization, and its time grows as the cube.
  constexpr std::int64_t kOrder = 320;
  for (const std::int64_t width : {96, 30}) {
    const double by_floats = error_of(kOrder, width, false),
                 by_halves = error_of(kOrder, width, true);

    // Tensor cores cut sums off where floats are rounded. Halves alone would be 1000 times worse.
    EXPECT_LT(by_halves, 30 * by_floats) << width;
    EXPECT_NE(by_halves, by_floats) << width;
  }
}

}  // namespace
}  // namespace fleet
