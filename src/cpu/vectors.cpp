// SPDX-License-Identifier: BSD-3-Clause
// vectors.cpp: gemv, axpy and dot of tiles, by a library and by loops. It must not know plans.
#include "cpu/vectors.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "cpu/blas.hpp"
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

template <typename T>
void gemv_by_library(const BlasLibrary& library, const Launch& launch, char trans, const View& a,
                     const View& x) {
  const T alpha = scalar<T>(launch.alpha), one = T(1);
  library.call(launch.type.storage, GemvCall{.trans = trans,
                                             .m = a.rows,
                                             .n = a.cols,
                                             .alpha = &alpha,
                                             .a = a.data,
                                             .lda = std::max<std::int64_t>({1, a.rows, a.ld}),
                                             .x = x.data,
                                             .incx = increment_of(x),
                                             .beta = &one,
                                             .y = launch.c.data,
                                             .incy = increment_of(launch.c)});
}

template <typename T>
void axpy_by_library(const BlasLibrary& library, const Launch& launch) {
  const T alpha = scalar<T>(launch.alpha);
  library.call(launch.type.storage, AxpyCall{.n = launch.a.cols,
                                             .alpha = &alpha,
                                             .x = launch.a.data,
                                             .incx = increment_of(launch.a),
                                             .y = launch.c.data,
                                             .incy = increment_of(launch.c)});
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

// A dot product is a gemv with a matrix of one column: BLAS libraries differ in how functions give
// back what they return.
bool vectors_by_library(const BlasLibrary& library, const Launch& launch) {
  const auto type = static_cast<std::size_t>(launch.type.storage);
  const bool is_axpy = launch.kernel == Kernel::axpy, is_dot = launch.kernel == Kernel::dot;
  if ((is_axpy ? library.axpy : library.gemv)[type] == nullptr || !is_within(library, launch))
    return false;
  if (is_dot && increment_of(launch.a) != 1) return false;
  View a = launch.a;
  if (is_dot) a = {.data = a.data, .rows = a.cols, .cols = 1, .ld = a.cols};
  const char trans = launch.op_a == Op::conjugate             ? 'C'
                     : is_dot || launch.op_a == Op::transpose ? 'T'
                                                              : 'N';
  begin(launch);
  with_wide_element(launch.type.storage, [&](auto zero) {
    using T = decltype(zero);
    is_axpy ? axpy_by_library<T>(library, launch)
            : gemv_by_library<T>(library, launch, trans, a, launch.b);
  });
  return true;
}

}  // namespace fleet
