// SPDX-License-Identifier: BSD-3-Clause
// test_narrow.cpp: matrices in single precision with the sizes of their rows, and kernels outside
// of plans on virtual devices. It knows no context.
#include <gtest/gtest.h>

#include <array>
#include <complex>
#include <limits>
#include <vector>

#include "backend/host/backend.hpp"
#include "backend/host/machine.hpp"
#include "base/error.hpp"
#include "cpu/narrow.hpp"
#include "support/cpu_blas.hpp"

namespace fleet {
namespace {

using Complex = std::complex<double>;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

template <typename T>
View view_of(std::vector<T>& elements, std::int64_t rows, std::int64_t cols) {
  return {.data = elements.data(), .rows = rows, .cols = cols, .ld = rows};
}

/// Two rows and three columns, in two parts, as strips are narrowed one after another.
template <typename T, typename Narrow>
void narrow_in_parts(std::vector<T>& wide, std::vector<Narrow>& single, std::vector<double>& sizes,
                     Storage storage) {
  const View from = view_of(wide, 2, 3), to = view_of(single, 2, 3), notes = view_of(sizes, 2, 2);
  const auto columns = [&](std::int64_t begin, std::int64_t count) {
    Launch launch{.kernel = Kernel::narrow, .type = {.storage = storage}};
    launch.beta = begin == 0 ? 0.0 : 1.0;
    launch.a = part(from, storage, 0, begin, 2, count);
    launch.b = notes;
    launch.c = part(to, narrow_of(storage), 0, begin, 2, count);
    return launch;
  };
  narrow(columns(0, 2));
  narrow(columns(2, 1));
}

TEST(Narrow, NotesTheSumAndTheLargestOfEachRow) {
  std::vector<double> wide = {1, -2, -3.5, 0.25, 0.1, 8};
  std::vector<float> single(6, 7);
  std::vector<double> sizes(4, kNaN);

  narrow_in_parts(wide, single, sizes, Storage::f64);

  EXPECT_EQ(single, (std::vector<float>{1, -2, -3.5, 0.25, 0.1F, 8}));
  EXPECT_EQ(sizes, (std::vector<double>{1 + 3.5 + 0.1, 10.25, 3.5, 8}));
}

TEST(Narrow, OfComplexNumbersTakesTheirSizesAndTheirLargerParts) {
  std::vector<Complex> wide = {{3, 4}, {0, 0}, {0, -12}, {1, 0}, {0, 0}, {0, 2}};
  std::vector<std::complex<float>> single(6);
  std::vector<double> sizes(4, kNaN);

  narrow_in_parts(wide, single, sizes, Storage::c64);

  EXPECT_EQ(single[0], (std::complex<float>{3, 4}));
  EXPECT_EQ(sizes, (std::vector<double>{17, 3, 12, 2}));
}

TEST(Narrow, ShowsOverflowByTheLargestAndNaNByTheSum) {
  constexpr double kMost = std::numeric_limits<float>::max();
  std::vector<double> wide = {kMost, kNaN, 2 * kMost, 1, 0, 2};
  std::vector<float> single(6);
  std::vector<double> sizes(4);

  narrow_in_parts(wide, single, sizes, Storage::f64);

  EXPECT_EQ(single[0], std::numeric_limits<float>::max());
  EXPECT_TRUE(std::isnan(single[1]));
  EXPECT_EQ(sizes[2], 2 * kMost);
  EXPECT_TRUE(std::isnan(sizes[1]));
  EXPECT_EQ(sizes[3], 2) << "a NaN is no overflow";
}

/// c := c - 2 on this device.
DeviceLaunch add_minus_two(DeviceId device, double& c, double& one) {
  Launch launch{.kernel = Kernel::add, .type = {.storage = Storage::f64}};
  launch.beta = -2.0;
  launch.a = {.data = &one, .rows = 1, .cols = 1, .ld = 1};
  launch.c = {.data = &c, .rows = 1, .cols = 1, .ld = 1};
  return {device, launch};
}

TEST(KernelsOutsideOfPlans, AreDoneInTheirOrder) {
  const auto backend = make_host_backend(host_machine(2, 2, 1 << 20), test::shared_cpu_blas(), {});
  double one = 1, first = 10, second = 20;
  DeviceLaunch halved = add_minus_two(kFirstDevice, first, one);
  halved.launch.kernel = Kernel::scale;
  halved.launch.beta = 0.5;

  backend->compute(std::array{add_minus_two(kFirstDevice, first, one), halved,
                              add_minus_two(kFirstDevice + 1, second, one)});

  EXPECT_EQ(first, 4);
  EXPECT_EQ(second, 18);
}

TEST(KernelsOutsideOfPlans, FailAsThoseOfPlansDo) {
  Options options;
  options.inject.launch = 2;
  options.inject.lost = Inject::Lost{.device = 1, .tiles = 2};
  const auto backend =
      make_host_backend(host_machine(2, 2, 1 << 20), test::shared_cpu_blas(), options);
  double one = 1, first = 10;
  const std::array<DeviceLaunch, 1> launches{add_minus_two(kFirstDevice + 1, first, one)};

  backend->compute(launches);                       // the first kernel
  EXPECT_THROW(backend->compute(launches), Error);  // fails on purpose
  EXPECT_EQ(first, 8);
  backend->compute(launches);                       // the last one of the device
  EXPECT_THROW(backend->compute(launches), Error);  // it is lost
  EXPECT_EQ(first, 6);
}

}  // namespace
}  // namespace fleet
