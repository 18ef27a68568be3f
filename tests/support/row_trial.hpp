// SPDX-License-Identifier: BSD-3-Clause
// row_trial.hpp: rows of a matrix packed, unpacked and updated at a place, beside the same by hand.
// It knows no device.
#pragma once
#include <algorithm>
#include <numeric>
#include <random>

#include "support/lapack_api.hpp"

namespace fleet::test {

/// Some rows of `rows` x `cols` elements in any order, by way of a matrix without rows between.
template <typename T>
void move_rows(fleet_context* context, int location, std::int64_t rows, std::int64_t cols,
               std::int64_t count, std::mt19937& random) {
  using Api = Lapack<T>;
  const Matrix<T> a(rows, cols, random), other(rows, cols, random);
  const Matrix<T> before(cols, count, random);
  std::vector<std::int64_t> order(static_cast<std::size_t>(rows));
  std::iota(order.begin(), order.end(), 1);
  std::ranges::shuffle(order, random);
  Matrix<T> expected_packed = before, expected = other;
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t col = 0; col < cols; ++col) {
      const std::int64_t row = order[static_cast<std::size_t>(i)] - 1;
      expected_packed.at(col, i) = a.at(row, col);
      expected.at(row, col) = a.at(row, col);
    }

  Placed<T> from(context, a, location), to(context, other, location);
  Placed<T> packed(context, before, location);
  void* numbers = nullptr;
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(std::int64_t);
  ASSERT_EQ(fleet_alloc(context, location == kOwnMemory ? FLEET_HOST_PAGEABLE : location, bytes,
                        &numbers),
            FLEET_OK);
  ASSERT_EQ(fleet_copy(context, numbers, order.data(), bytes), FLEET_OK);
  const auto* const named = static_cast<const std::int64_t*>(numbers);
  EXPECT_EQ(Api::pack_rows(context, count, named, rows, cols, from.data(), from.ld(), packed.data(),
                           packed.ld()),
            FLEET_OK)
      << fleet_message();
  EXPECT_EQ(packed.now().data, expected_packed.data) << rows << " x " << cols << ", " << count;
  EXPECT_EQ(Api::unpack_rows(context, count, named, rows, cols, to.data(), to.ld(), packed.data(),
                             packed.ld()),
            FLEET_OK)
      << fleet_message();
  EXPECT_EQ(to.now().data, expected.data) << rows << " x " << cols << ", " << count;
  EXPECT_EQ(fleet_free(context, numbers), FLEET_OK);
}

/// A part of a matrix from one place to another.
template <typename T>
void copy_part(fleet_context* context, int to_location, int from_location, std::mt19937& random) {
  const Matrix<T> a(40, 21, random), b(50, 30, random);
  Placed<T> from(context, a, from_location), to(context, b, to_location);
  Matrix<T> expected = b;
  for (std::int64_t col = 0; col < 17; ++col)
    for (std::int64_t row = 0; row < 33; ++row)
      expected.at(row + 2, col + 1) = a.at(row + 5, col + 3);
  EXPECT_EQ(Lapack<T>::lacpy(context, 33, 17, from.data() + 5 + 3 * from.ld(), from.ld(),
                             to.data() + 2 + to.ld(), to.ld()),
            FLEET_OK)
      << fleet_message();
  EXPECT_EQ(to.now().data, expected.data) << from_location << " to " << to_location;
}

/// A panel of m x n, and columns whose rows have been exchanged: U far from what is below it.
template <typename T>
void update_exchanged(fleet_context* context, int location, std::int64_t m, std::int64_t n,
                      std::int64_t k, std::mt19937& random) {
  // Multipliers are no larger than 1, and with small ones U stays so too.
  Matrix<T> l(m, n, random);
  for (T& element : l.data) element /= T(static_cast<float>(n));
  const Matrix<T> u(n, k, random), c(m - n, k, random);
  Placed<T> panel(context, l, location), upper(context, u, location), below(context, c, location);
  EXPECT_EQ(Lapack<T>::getrf_update(context, m, n, panel.data(), panel.ld(), k, upper.data(),
                                    upper.ld(), below.data(), below.ld()),
            FLEET_OK)
      << fleet_message();
  const Matrix<T> solved = upper.now(), left = below.now();
  Matrix<T> square(n, n), rest(m - n, n);
  for (std::int64_t col = 0; col < n; ++col)
    for (std::int64_t row = 0; row < m; ++row)
      (row < n ? square.at(row, col) : rest.at(row - n, col)) = l.at(row, col);
  const auto product_of = [&](const Matrix<T>& a) {
    return product(Op::none, a, Op::none, solved);
  };
  const double limit = 40.0 * static_cast<double>(n) * kUnitOf<T> * std::max(1.0, solved.largest());
  EXPECT_LE(difference(product_of(square.triangle(Fill::lower, true)), u).largest(), limit);
  Matrix<T> sum = product_of(rest);
  for (std::int64_t col = 0; col < k; ++col)
    for (std::int64_t row = 0; row < m - n; ++row) sum.at(row, col) += left.at(row, col);
  EXPECT_LE(difference(sum, c).largest(), limit) << m << " x " << n << ", " << k;
}

}  // namespace fleet::test
