// SPDX-License-Identifier: BSD-3-Clause
// elementwise.cpp: the two kernels that only stream through memory. They must not know plans or
// a BLAS.
#include <algorithm>

#include "exec/cpu_blas.hpp"
#include "exec/element.hpp"

namespace fleet {
namespace {

template <typename T>
T* column(const View& view, std::int64_t col) {
  return static_cast<T*>(view.data) + col * view.ld;
}

template <typename T>
void add_scaled_columns(const Launch& launch) {
  const auto beta = scalar<Wide<T>>(launch.beta);
  for (std::int64_t col = 0; col < launch.c.cols; ++col) {
    const T* from = column<T>(launch.a, col);
    T* to = column<T>(launch.c, col);
    for (std::int64_t row = 0; row < launch.c.rows; ++row)
      to[row] = store<T>(load(to[row]) + product(beta, load(from[row])));
  }
}

template <typename T>
void scale_columns(const Launch& launch) {
  const auto beta = scalar<Wide<T>>(launch.beta);
  if (beta == Wide<T>(1)) return;
  for (std::int64_t col = 0; col < launch.c.cols; ++col) {
    T* to = column<T>(launch.c, col);
    if (beta == Wide<T>(0)) {
      std::fill_n(to, launch.c.rows, T{});
    } else {
      for (std::int64_t row = 0; row < launch.c.rows; ++row)
        to[row] = store<T>(product(beta, load(to[row])));
    }
  }
}

}  // namespace

void add_scaled(const Launch& launch) {
  with_element(launch.type, [&](auto zero) { add_scaled_columns<decltype(zero)>(launch); });
}

void scale(const Launch& launch) {
  with_element(launch.type, [&](auto zero) { scale_columns<decltype(zero)>(launch); });
}

}  // namespace fleet
