// SPDX-License-Identifier: BSD-3-Clause
// panel_trial.hpp: a matrix factored as a program does it that deals its columns itself: by panels
// and what they do to the columns beside them. It knows no device.
#pragma once
#include "support/lapack_api.hpp"

namespace fleet::test {

template <typename T>
constexpr fleet_type kElementType = FLEET_F64;
template <>
inline constexpr fleet_type kElementType<float> = FLEET_F32;
template <>
inline constexpr fleet_type kElementType<std::complex<float>> = FLEET_C32;
template <>
inline constexpr fleet_type kElementType<std::complex<double>> = FLEET_C64;

/// Memory for a panel at a location, or aligned memory of the program.
template <typename T>
class PanelMemory {
 public:
  PanelMemory(fleet_context* context, std::int64_t rows, std::int64_t width, int location)
      : context_(context) {
    EXPECT_EQ(fleet_getrf_panel_bytes(kElementType<T>, rows, width, &bytes_), FLEET_OK);
    const int at = location == kOwnMemory ? FLEET_HOST_PAGEABLE : location;
    EXPECT_EQ(fleet_alloc(context, at, static_cast<std::size_t>(bytes_), &data_), FLEET_OK)
        << fleet_message();
  }
  ~PanelMemory() { fleet_free(context_, data_); }
  PanelMemory(const PanelMemory&) = delete;
  PanelMemory& operator=(const PanelMemory&) = delete;
  void* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  fleet_context* context_;
  std::int64_t bytes_ = 0;
  void* data_ = nullptr;
};

/// Factors `a` at a location in panels of `width` columns, each of which goes through host memory
/// before it is applied. Returns getrf's info; `pivots` are those of all rows.
template <typename T>
std::int64_t factor_by_panels(fleet_context* context, Placed<T>& a, std::int64_t n,
                              std::int64_t width, int location, std::vector<std::int64_t>& pivots) {
  using Api = Lapack<T>;
  std::int64_t first_zero = 0;
  pivots.assign(static_cast<std::size_t>(n), 0);
  for (std::int64_t begin = 0; begin < n; begin += width) {
    const std::int64_t wide = std::min(width, n - begin), rows = n - begin;
    const auto at = [&](std::int64_t row, std::int64_t col) {
      return a.data() + row + col * a.ld();
    };
    const PanelMemory<T> made(context, rows, wide, location), known(context, rows, wide, location);
    std::int64_t info = 0;
    std::int64_t* const own = pivots.data() + begin;
    EXPECT_EQ(Api::getrf_panel(context, rows, wide, at(begin, begin), a.ld(), made.data()),
              FLEET_OK)
        << fleet_message();
    std::vector<char> way(static_cast<std::size_t>(made.bytes()));
    EXPECT_EQ(fleet_copy(context, way.data(), made.data(), way.size()), FLEET_OK);
    EXPECT_EQ(fleet_copy(context, known.data(), way.data(), way.size()), FLEET_OK);
    EXPECT_EQ(Api::getrf_pivots(context, rows, wide, known.data(), own, &info), FLEET_OK);
    if (info != 0 && first_zero == 0) first_zero = begin + info;
    const auto apply = [&](std::int64_t first, std::int64_t end) {
      EXPECT_EQ(Api::getrf_apply(context, rows, wide, known.data(), end - first, at(begin, first),
                                 a.ld()),
                FLEET_OK)
          << fleet_message();
    };
    apply(begin + wide, n);
    // Columns on the left have the rows exchanged only: done by hand, as a program may.
    Matrix<T> left(n, std::max<std::int64_t>(1, begin));
    const auto bytes = static_cast<std::size_t>(n) * sizeof(T);
    for (std::int64_t col = 0; col < begin; ++col) {
      EXPECT_EQ(fleet_copy(context, &left.at(0, col), at(0, col), bytes), FLEET_OK);
      for (std::int64_t i = 0; i < wide; ++i)
        std::swap(left.at(begin + i, col), left.at(begin + own[i] - 1, col));
      EXPECT_EQ(fleet_copy(context, at(0, col), &left.at(0, col), bytes), FLEET_OK);
    }
    for (std::int64_t i = 0; i < wide; ++i) own[i] += begin;
  }
  return first_zero;
}

/// The largest element of P*A - L*U.
template <typename T>
double lu_error(const Matrix<T>& a, const Matrix<T>& factors,
                const std::vector<std::int64_t>& pivots) {
  Matrix<T> exchanged = a;
  for (std::int64_t i = 0; i < std::ssize(pivots); ++i)
    for (std::int64_t col = 0; col < a.cols; ++col)
      std::swap(exchanged.at(i, col), exchanged.at(pivots[static_cast<std::size_t>(i)] - 1, col));
  return difference(product(Op::none, factors.triangle(Fill::lower, true), Op::none,
                            factors.triangle(Fill::upper)),
                    exchanged)
      .largest();
}

}  // namespace fleet::test
