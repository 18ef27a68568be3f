// SPDX-License-Identifier: BSD-3-Clause
// test_triangular.cpp: triangular solves by recursive halving, down to blocks that a given function
// solves.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <vector>

#include "base/sizes.hpp"
#include "cpu/triangular.hpp"
#include "support/host_trial.hpp"
#include "support/reference.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

constexpr std::int64_t kOrder = 300, kWidth = 7, kLd = kOrder + 1;

struct Variant {
  Side side;
  Fill fill;
  Op op;
};

std::vector<Variant> variants() {
  std::vector<Variant> all;
  for (const Side side : {Side::left, Side::right})
    for (const Fill fill : {Fill::lower, Fill::upper})
      for (const Op op : {Op::none, Op::transpose}) all.push_back({side, fill, op});
  return all;
}

/// A triangle with ones and twos on the diagonal, small elements off it, and NaN in the other
/// triangle.
std::vector<double> triangle(Fill fill) {
  std::vector<double> a(kLd * kOrder, std::nan(""));
  for (std::int64_t col = 0; col < kOrder; ++col)
    for (std::int64_t row = 0; row < kOrder; ++row)
      if (row == col || (row > col) == (fill == Fill::lower))
        a[static_cast<std::size_t>(row + col * kLd)] =
            row == col ? static_cast<double>(1 + row % 2)
                       : std::sin(static_cast<double>(row * 7 + col)) / kOrder;
  return a;
}

TEST(Triangular, IsSolvedWithByTheInversesOfItsBlocks) {
  CpuBlas& blas = *test::shared_cpu_blas();
  const std::int64_t edge = inverse_block(Storage::f64);
  for (const Variant& variant : variants()) {
    std::vector<double> a = triangle(variant.fill), given(kLd * kOrder, 1), expected = given;
    std::vector<double> inverses(static_cast<std::size_t>((kOrder + edge - 1) / edge * edge * edge),
                                 7);
    const bool on_left = variant.side == Side::left;
    Launch launch{.kernel = Kernel::solve, .type = DataType::f64, .beta = 3.0};
    launch.a = {a.data(), kOrder, kOrder, kLd, variant.fill};
    launch.c = {given.data(), on_left ? kOrder : kWidth, on_left ? kWidth : kOrder, kLd};
    launch.op_a = variant.op;
    launch.side = variant.side;
    Launch preparing{.kernel = Kernel::prepare, .type = DataType::f64};
    preparing.a = launch.a;
    preparing.c = {inverses.data(), edge, kOrder, edge};

    prepare(preparing, blas);
    launch.b = preparing.c;
    solve(launch, blas);
    launch.b = {};
    launch.c.data = expected.data();
    solve(launch, blas);

    for (std::size_t i = 0; i < given.size(); ++i) ASSERT_NEAR(given[i], expected[i], 1e-12);
  }
}

/// In memory for so many elements of copies, beside a solution without inverses. Returns how many
/// copies that took.
template <typename T>
int expect_the_same_in(std::int64_t room, DataType type, Variant variant, Diag diag,
                       std::int64_t right_sides) {
  constexpr std::int64_t kLdOfC = kOrder + 1;
  CpuBlas& blas = *test::shared_cpu_blas();
  const std::int64_t edge = inverse_block(type.storage);
  const std::vector<double> elements = triangle(variant.fill);
  std::vector<T> a(elements.begin(), elements.end());
  for (T& element : a)
    if constexpr (requires { element.imag(); }) element *= T(1, 0.5);
  std::vector<T> inverses(static_cast<std::size_t>(round_up(kOrder, edge) * edge));
  Launch launch{.kernel = Kernel::prepare, .type = type};
  launch.a = {a.data(), kOrder, kOrder, kLd, variant.fill};
  launch.c = {inverses.data(), edge, kOrder, edge};
  launch.diag = diag;
  prepare(launch, blas);

  const bool on_left = variant.side == Side::left;
  std::vector<T> solved(kLdOfC * kLdOfC), expected;
  for (std::size_t i = 0; i < solved.size(); ++i) solved[i] = T(std::sin(static_cast<double>(i)));
  expected = solved;
  launch.kernel = Kernel::solve;
  launch.beta = -2.0;
  launch.op_a = variant.op;
  launch.side = variant.side;
  launch.b = launch.c;
  launch.c = {solved.data(), on_left ? kOrder : right_sides, on_left ? right_sides : kOrder,
              kLdOfC};
  int copies = 0;
  std::vector<T> memory(static_cast<std::size_t>(room));
  const auto copied = [&](const View& from) {
    ++copies;
    std::ranges::fill(memory, T(std::nan("")));
    const View copy{memory.data(), from.rows, from.cols, round_up(from.rows, kCopyRows)};
    EXPECT_LE(copy.ld * copy.cols, room);
    for (std::int64_t col = 0; col < from.cols; ++col)
      std::copy_n(static_cast<T*>(from.data) + col * from.ld, from.rows,
                  static_cast<T*>(copy.data) + col * copy.ld);
    return copy;
  };
  solve_by_inverses(launch, {.plain = [&](const Launch& plain) { blas.gemm(plain); },
                             .copied = copied,
                             .most_bytes = room * std::int64_t{sizeof(T)}});
  launch.b = {};
  launch.c.data = expected.data();
  solve(launch, blas);

  // Elements outside of C too: they have kept their values.
  for (std::size_t i = 0; i < solved.size(); ++i) {
    EXPECT_LE(std::abs(solved[i] - expected[i]), 1e-12) << i;
    if (!(std::abs(solved[i] - expected[i]) <= 1e-12)) break;
  }
  return copies;
}

TEST(Triangular, IsSolvedWithInAsManyBlocksAtOnceAsThereIsRoomFor) {
  for (Variant variant : variants())
    for (const Diag diag : {Diag::unit, Diag::non_unit}) {
      constexpr std::int64_t kEdge = 128, kWhole = 400 * 400;
      const auto copies = [&](std::int64_t room, std::int64_t right_sides) {
        return expect_the_same_in<double>(room, DataType::f64, variant, diag, right_sides);
      };
      EXPECT_EQ(copies(kWhole, 37), 1);
      // A few right-hand sides of a block, of two blocks, all of one, all of two.
      for (const std::int64_t room :
           {kCopyRows * kEdge, 2 * kCopyRows * kEdge, 48 * kEdge, 48 * 2 * kEdge})
        EXPECT_GT(copies(room, 37), 1) << room;
      // Of 300 rows 256 and 44; on the right each column of a copy has 16 elements, not 7.
      EXPECT_EQ(copies(kCopyRows * kEdge, 7), variant.side == Side::left ? 2 : 3);
      if (variant.op == Op::transpose) variant.op = Op::conjugate;
      expect_the_same_in<std::complex<double>>(kCopyRows * 64, DataType::c64, variant, diag, 37);
      expect_the_same_in<std::complex<double>>(48 * 2 * 64, DataType::c64, variant, diag, 37);
      if (variant.op == Op::conjugate) variant.op = Op::transpose;
    }
}

/// One side of a triangle whose elements are small off the diagonal, so that errors do not grow.
template <typename T>
void expect_the_same_by_library_and_loops(Kernel kernel, DataType type, std::int64_t order,
                                          const Variant& variant, Diag diag) {
  const std::int64_t width = 19, ld = order + 3;
  test::Random random(static_cast<std::uint64_t>(order));
  test::Guarded<T> a(order, order, ld), by_library(ld, ld, ld);
  a.fill_random(random);
  by_library.fill_random(random);
  for (std::int64_t col = 0; col < order; ++col)
    for (std::int64_t row = 0; row < order; ++row) {
      T& element = a.data()[row + col * ld];
      element = row == col ? element + T(2) : element / T(static_cast<float>(order));
    }
  test::Guarded<T> by_loops = by_library;
  const bool on_left = variant.side == Side::left;
  const View triangle{a.data(), order, order, ld, variant.fill};
  const auto compute = [&](T* of_c, CpuBlas& blas) {
    Launch launch{.kernel = kernel, .type = type};
    launch.c = {of_c, on_left ? order : width, on_left ? width : order, ld};
    launch.side = variant.side;
    launch.diag = diag;
    if (kernel == Kernel::solve) {
      launch.a = triangle;
      launch.op_a = variant.op;
      launch.beta = 3.0;
      return solve(launch, blas);
    }
    (on_left ? launch.a : launch.b) = triangle;
    (on_left ? launch.op_a : launch.op_b) = variant.op;
    (on_left ? launch.b : launch.a) = launch.c;
    launch.alpha = 3.0;
    multiply_triangular(launch, blas);
  };
  PlainBlas loops;

  compute(by_library.data(), *test::shared_cpu_blas());
  compute(by_loops.data(), loops);

  const double tolerance = type == DataType::f32 || type == DataType::c32 ? 1e-4 : 1e-12;
  for (std::int64_t i = 0; i < ld * ld; ++i)
    ASSERT_LE(std::abs(by_library.data()[i] - by_loops.data()[i]), tolerance) << order;
}

TEST(Triangular, IsUsedByTheLibraryAsByLoops) {
  // Odd, so that every part of the lists below has its turn.
  const std::int64_t step = test::scaled_step() | 1;
  std::int64_t each = 0;
  for (const std::int64_t order : {1, 65, 530})
    for (const Variant& variant : variants())
      for (const Diag diag : {Diag::unit, Diag::non_unit})
        for (const DataType type : {DataType::f32, DataType::f64, DataType::c32, DataType::c64}) {
          if (each++ % step != 0) continue;
          Variant of_type = variant;
          if (is_complex(type.storage) && variant.op == Op::transpose) of_type.op = Op::conjugate;
          test::with_blas_type(type, [&]<typename T>() {
            for (const Kernel kernel : {Kernel::solve, Kernel::multiply})
              expect_the_same_by_library_and_loops<T>(kernel, type, order, of_type, diag);
          });
        }
}

}  // namespace
}  // namespace fleet
