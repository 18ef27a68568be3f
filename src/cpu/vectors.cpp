// SPDX-License-Identifier: BSD-3-Clause
// vectors.cpp: gemv, axpy and dot of tiles, by a library and by loops. It must not know plans.
#include "cpu/vectors.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <new>
#include <vector>

#include "cpu/blas.hpp"
#include "cpu/copies.hpp"
#include "cpu/element.hpp"

namespace fleet {
namespace {

template <typename T>
T& at(const View& vector, std::int64_t i) {
  return static_cast<T*>(vector.data)[(vector.reversed ? vector.cols - 1 - i : i) * vector.ld];
}

/// c = beta * c, to which all that follows adds.
void begin(const Launch& launch) {
  Launch whole = launch;
  whole.kernel = Kernel::scale;
  scale(whole);
}

template <typename T>
void plain_gemv(const Launch& launch) {
  const View &a = launch.a, &x = launch.b, &y = launch.c;
  const T alpha = scalar<T>(launch.alpha);
  for (std::int64_t col = 0; col < a.cols; ++col) {
    const T* column = static_cast<const T*>(a.data) + col * a.ld;
    if (launch.op_a == Op::none) {
      const T factor = product(alpha, at<T>(x, col));
      for (std::int64_t row = 0; row < a.rows; ++row) at<T>(y, row) += product(factor, column[row]);
    } else {
      T sum{};
      for (std::int64_t row = 0; row < a.rows; ++row) {
        const T element = launch.op_a == Op::conjugate ? conjugate(column[row]) : column[row];
        sum += product(element, at<T>(x, row));
      }
      at<T>(y, col) += product(alpha, sum);
    }
  }
}

template <typename T>
void plain_axpy(const Launch& launch) {
  const T alpha = scalar<T>(launch.alpha);
  for (std::int64_t i = 0; i < launch.a.cols; ++i)
    at<T>(launch.c, i) += product(alpha, at<T>(launch.a, i));
}

/// Several sums side by side: one would wait for each addition, and be less exact.
template <typename T>
void plain_dot(const Launch& launch) {
  constexpr std::int64_t kSums = 8;
  T sums[kSums] = {};
  for (std::int64_t i = 0; i < launch.a.cols; ++i) {
    const T x = at<T>(launch.a, i);
    sums[i % kSums] += product(launch.op_a == Op::conjugate ? conjugate(x) : x, at<T>(launch.b, i));
  }
  T sum{};
  for (const T& one : sums) sum += one;
  at<T>(launch.c, 0) += product(scalar<T>(launch.alpha), sum);
}

// The same tile lies in a slot without gaps in one plan, and in place between other elements in
// another, and both have to give the same bits. But libraries round differently where elements have
// gaps between them, so they get none. Where elements are aligned changes nothing in OpenBLAS.

/// A vector, or a copy of one with gaps, first element first.
template <typename T>
class Gapless {
 public:
  explicit Gapless(const View& vector) : given_(vector), view_(vector) {
    if (increment_of(vector) == 1) return;
    copy_.resize(static_cast<std::size_t>(vector.cols));
    for (std::int64_t i = 0; i < vector.cols; ++i)
      copy_[static_cast<std::size_t>(i)] = at<T>(vector, i);
    view_ = {.data = copy_.data(), .rows = 1, .cols = vector.cols, .ld = 1};
  }
  const View& view() const { return view_; }
  void put_back() {
    for (std::size_t i = 0; i < copy_.size(); ++i)
      at<T>(given_, static_cast<std::int64_t>(i)) = copy_[i];
  }

 private:
  View given_, view_;
  std::vector<T> copy_;
};

/// OpenBLAS has kernels of their own for up to 8 rows without gaps between the columns.
constexpr std::int64_t kFewRows = 16;

/// The matrix, or a copy where its gaps would tell.
template <typename T>
View without_gaps(const View& matrix, std::vector<T>& copy) {
  View view = matrix;
  if (matrix.cols <= 1) view.ld = matrix.rows;
  if (matrix.rows > kFewRows || view.ld == matrix.rows) return view;
  copy.resize(static_cast<std::size_t>(matrix.rows * matrix.cols));
  view.data = copy.data();
  view.ld = matrix.rows;
  copy_columns(matrix, view, sizeof(T), 0, matrix.cols);
  return view;
}

/// Throws std::bad_alloc with nothing done.
template <typename T>
void gemv_by_library(const BlasLibrary& library, const Launch& launch, char trans, const View& a,
                     const View& x) {
  const T alpha = scalar<T>(launch.alpha), one = T(1);
  std::vector<T> copy;
  const View matrix = without_gaps(a, copy);
  const Gapless<T> factor(x);
  Gapless<T> sum(launch.c);
  Launch added = launch;
  added.c = sum.view();
  begin(added);
  library.call(launch.type.storage, GemvCall{.trans = trans,
                                             .m = matrix.rows,
                                             .n = matrix.cols,
                                             .alpha = &alpha,
                                             .a = matrix.data,
                                             .lda = std::max<std::int64_t>(1, matrix.ld),
                                             .x = factor.view().data,
                                             .incx = 1,
                                             .beta = &one,
                                             .y = sum.view().data,
                                             .incy = 1});
  sum.put_back();
}

/// A dot product is a gemv with a matrix of one column: BLAS libraries differ in how functions give
/// back what they return.
template <typename T>
void dot_by_library(const BlasLibrary& library, const Launch& launch) {
  const Gapless<T> x(launch.a);
  const std::int64_t n = launch.a.cols;
  gemv_by_library<T>(library, launch, launch.op_a == Op::conjugate ? 'C' : 'T',
                     {.data = x.view().data, .rows = n, .cols = 1, .ld = n}, launch.b);
}

/// Allocates nothing. Libraries compute elements in blocks, whose sizes divide that of a piece.
template <typename T>
void axpy_by_library(const BlasLibrary& library, const Launch& launch) {
  const T alpha = scalar<T>(launch.alpha);
  const View &from = launch.a, &to = launch.c;
  const auto add = [&](std::int64_t n, const T* x, T* y) {
    library.call(launch.type.storage,
                 AxpyCall{.n = n, .alpha = &alpha, .x = x, .incx = 1, .y = y, .incy = 1});
  };
  begin(launch);
  if (increment_of(from) == 1 && increment_of(to) == 1)
    return add(from.cols, static_cast<const T*>(from.data), static_cast<T*>(to.data));
  constexpr std::int64_t kPiece = 1024;
  std::array<T, kPiece> x, y;
  for (std::int64_t first = 0; first < from.cols; first += kPiece) {
    const std::int64_t n = std::min(kPiece, from.cols - first);
    for (std::int64_t i = 0; i < n; ++i) {
      x[static_cast<std::size_t>(i)] = at<T>(from, first + i);
      y[static_cast<std::size_t>(i)] = at<T>(to, first + i);
    }
    add(n, x.data(), y.data());
    for (std::int64_t i = 0; i < n; ++i) at<T>(to, first + i) = y[static_cast<std::size_t>(i)];
  }
}

/// Whether all sizes are within the library's integers, and no increment is zero.
bool is_within(const BlasLibrary& library, const Launch& launch) {
  constexpr std::int64_t kNarrow = std::numeric_limits<std::int32_t>::max();
  for (const View* view : {&launch.a, &launch.b, &launch.c}) {
    if (view->cols > 1 && view->ld == 0) return false;
    if (!library.wide_ints && std::max({view->rows, view->cols, view->ld}) > kNarrow) return false;
  }
  return true;
}

}  // namespace

std::int64_t increment_of(const View& vector) {
  if (vector.cols <= 1) return 1;
  return vector.reversed ? -vector.ld : vector.ld;
}

void plain_vectors(const Launch& launch) {
  begin(launch);
  with_wide_element(launch.type.storage, [&](auto zero) {
    using T = decltype(zero);
    if (launch.kernel == Kernel::gemv) plain_gemv<T>(launch);
    if (launch.kernel == Kernel::axpy) plain_axpy<T>(launch);
    if (launch.kernel == Kernel::dot) plain_dot<T>(launch);
  });
}

bool vectors_by_library(const BlasLibrary& library, const Launch& launch) {
  const auto type = static_cast<std::size_t>(launch.type.storage);
  const bool is_axpy = launch.kernel == Kernel::axpy;
  if ((is_axpy ? library.axpy : library.gemv)[type] == nullptr || !is_within(library, launch))
    return false;
  try {
    with_wide_element(launch.type.storage, [&](auto zero) {
      using T = decltype(zero);
      if (is_axpy) return axpy_by_library<T>(library, launch);
      if (launch.kernel == Kernel::dot) return dot_by_library<T>(library, launch);
      const char trans = launch.op_a == Op::none ? 'N' : launch.op_a == Op::transpose ? 'T' : 'C';
      gemv_by_library<T>(library, launch, trans, launch.a, launch.b);
    });
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

}  // namespace fleet
