// SPDX-License-Identifier: BSD-3-Clause
// elementwise.cpp: the two kernels that only stream through memory. They must not know plans or
// a BLAS.
#include <algorithm>

#include "cpu/blas.hpp"
#include "cpu/copies.hpp"
#include "cpu/element.hpp"

namespace fleet {
namespace {

template <typename T>
T* column(const View& view, std::int64_t col) {
  return static_cast<T*>(view.data) + col * view.ld;
}

/// The part of a diagonal element that counts in a Hermitian matrix: the other one is not read.
template <typename Value>
Value real_part(Value value) {
  if constexpr (requires { value.imag(); }) return Value(value.real());
  return value;
}

bool is_real(const Launch& launch, std::int64_t row, std::int64_t col) {
  return launch.hermitian && launch.c.fill != Fill::full && row == col;
}

template <typename T>
void add_scaled_columns(const Launch& launch) {
  const auto beta = scalar<Wide<T>>(launch.beta);
  for (std::int64_t col = 0; col < launch.c.cols; ++col) {
    const T* from = column<T>(launch.a, col);
    T* to = column<T>(launch.c, col);
    const auto [begin, end] = rows_of(launch.c, col);
    for (std::int64_t row = begin; row < end; ++row) {
      const bool real = is_real(launch, row, col);
      const auto mine = load(to[row]), other = load(from[row]);
      to[row] = store<T>(real ? real_part(mine) + real_part(product(beta, real_part(other)))
                              : mine + product(beta, other));
    }
  }
}

template <typename T>
void scale_columns(const Launch& launch) {
  const auto beta = scalar<Wide<T>>(launch.beta);
  if (beta == Wide<T>(1)) return;
  for (std::int64_t col = 0; col < launch.c.cols; ++col) {
    T* to = column<T>(launch.c, col);
    const auto [begin, end] = rows_of(launch.c, col);
    if (beta == Wide<T>(0)) {
      std::fill(to + begin, to + end, T{});
    } else {
      for (std::int64_t row = begin; row < end; ++row) {
        const auto value = load(to[row]);
        to[row] = store<T>(is_real(launch, row, col) ? real_part(product(beta, real_part(value)))
                                                     : product(beta, value));
      }
    }
  }
}

}  // namespace

void add_scaled(const Launch& launch) {
  with_element(launch.type.storage, [&](auto zero) { add_scaled_columns<decltype(zero)>(launch); });
}

void scale(const Launch& launch) {
  with_element(launch.type.storage, [&](auto zero) { scale_columns<decltype(zero)>(launch); });
}

}  // namespace fleet
