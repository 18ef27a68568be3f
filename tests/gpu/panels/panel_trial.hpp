// SPDX-License-Identifier: BSD-3-Clause
// panel_trial.hpp: panels in the memory of a GPU, and how far their factors are from the matrices
// that they were made of. It makes no factors.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "backend/cuda/check.hpp"
#include "problem/problem.hpp"
#include "run/launch.hpp"

namespace fleet::test {

template <typename T>
struct ElementTraits {
  using Real = T;
  using Wide = double;
  static constexpr Storage kStorage = sizeof(T) == 4 ? Storage::f32 : Storage::f64;
};
template <typename R>
struct ElementTraits<std::complex<R>> {
  using Real = R;
  using Wide = std::complex<double>;
  static constexpr Storage kStorage = sizeof(R) == 4 ? Storage::c32 : Storage::c64;
};
template <typename T>
using WideElement = typename ElementTraits<T>::Wide;
template <typename T>
constexpr double kEpsilon = std::numeric_limits<typename ElementTraits<T>::Real>::epsilon();

/// Numbers between -1 and 1, the same for the same seed everywhere.
class PanelRandom {
 public:
  explicit PanelRandom(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}
  double next() {
    state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;
    return static_cast<double>(state_ >> 11) * 0x1p-52 - 1.0;
  }
  template <typename T>
  T element() {
    if constexpr (std::is_floating_point_v<T>) {
      return static_cast<T>(next());
    } else {
      const double re = next();
      return T(static_cast<typename T::value_type>(re),
               static_cast<typename T::value_type>(next()));
    }
  }

 private:
  std::uint64_t state_;
};

template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(std::int64_t count) : count_(count) {
    cuda::check(cudaMalloc(&data_, static_cast<std::size_t>(count + 1) * sizeof(T)), "cudaMalloc");
  }
  explicit DeviceArray(const std::vector<T>& values)
      : DeviceArray(static_cast<std::int64_t>(values.size())) {
    cuda::check(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyDefault),
                "a copy to the GPU");
  }
  ~DeviceArray() { cuda::works(cudaFree(data_)); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return static_cast<T*>(data_); }
  std::vector<T> values() const {
    std::vector<T> copy(static_cast<std::size_t>(count_));
    cuda::check(cudaMemcpy(copy.data(), data_, copy.size() * sizeof(T), cudaMemcpyDefault),
                "a copy from the GPU");
    return copy;
  }

 private:
  void* data_ = nullptr;
  std::int64_t count_;
};

/// A column-major matrix of the host.
template <typename T>
struct HostMatrix {
  std::int64_t rows = 0, cols = 0, ld = 0;
  std::vector<T> values;

  static HostMatrix random(std::int64_t rows, std::int64_t cols, std::int64_t ld,
                           std::uint64_t seed) {
    HostMatrix made{rows, cols, ld, std::vector<T>(static_cast<std::size_t>(ld * cols))};
    PanelRandom numbers(seed);
    for (T& value : made.values) value = numbers.element<T>();
    return made;
  }
  T& at(std::int64_t row, std::int64_t col) {
    return values[static_cast<std::size_t>(row + col * ld)];
  }
  const T& at(std::int64_t row, std::int64_t col) const {
    return values[static_cast<std::size_t>(row + col * ld)];
  }
  View view(T* data, Fill fill = Fill::full) const {
    return {.data = data, .rows = rows, .cols = cols, .ld = ld, .fill = fill};
  }
};

/// Errors in units of rounding grow with the square root of the sizes at most.
constexpr double kMostError = 100;

/// Are the rows between the matrix's and its leading dimension as they were?
template <typename T>
bool keeps_guard(const HostMatrix<T>& before, const HostMatrix<T>& after) {
  for (std::int64_t col = 0; col < before.cols; ++col)
    for (std::int64_t row = before.rows; row < before.ld; ++row)
      if (before.at(row, col) != after.at(row, col)) return false;
  return true;
}

template <typename W>
double squared(W x) {
  return std::norm(x);
}
template <typename W>
W turned(W x) {
  if constexpr (std::is_floating_point_v<W>)
    return x;
  else
    return std::conj(x);
}

template <typename W>
using Vector = std::vector<W>;

template <typename W>
double length(const Vector<W>& x) {
  double total = 0;
  for (const W& value : x) total += squared(value);
  return std::sqrt(total);
}

template <typename W>
double distance(const Vector<W>& x, const Vector<W>& y) {
  double total = 0;
  for (std::size_t i = 0; i < x.size(); ++i) total += squared(x[i] - y[i]);
  return std::sqrt(total);
}

/// A vector of ones and minus ones: the length of a matrix times it is as large as the matrix's
/// Frobenius norm, on average.
template <typename W>
Vector<W> signs(std::int64_t count, std::uint64_t seed) {
  PanelRandom numbers(seed);
  Vector<W> made(static_cast<std::size_t>(count));
  for (W& value : made) value = numbers.next() < 0 ? -1.0 : 1.0;
  return made;
}

/// What of column `col` of a matrix counts: rows [first, last).
template <typename T, typename Part>
Vector<WideElement<T>> times(const HostMatrix<T>& a, const Vector<WideElement<T>>& x, Part part) {
  using W = WideElement<T>;
  Vector<W> y(static_cast<std::size_t>(a.rows));
  for (std::int64_t col = 0; col < std::min<std::int64_t>(a.cols, std::ssize(x)); ++col) {
    const auto [first, last] = part(col);
    const W factor = x[static_cast<std::size_t>(col)];
    for (std::int64_t row = first; row < last; ++row)
      y[static_cast<std::size_t>(row)] += W(a.at(row, col)) * factor;
  }
  return y;
}

template <typename T>
double norm(const HostMatrix<T>& a) {
  double total = 0;
  for (std::int64_t col = 0; col < a.cols; ++col)
    for (std::int64_t row = 0; row < a.rows; ++row)
      total += squared(WideElement<T>(a.at(row, col)));
  return std::sqrt(total);
}

/// The length of (p*a - l*u)*x over the norm of a, in units of rounding.
template <typename T>
double lu_error(const HostMatrix<T>& a, const HostMatrix<T>& factors,
                const std::vector<std::int32_t>& pivots) {
  using W = WideElement<T>;
  const Vector<W> x = signs<W>(a.cols, 77);
  const auto all = [&](std::int64_t) { return std::pair<std::int64_t, std::int64_t>(0, a.rows); };
  const auto upper = [&](std::int64_t col) {
    return std::pair<std::int64_t, std::int64_t>(0, std::min(col + 1, a.rows));
  };
  const auto below = [&](std::int64_t col) {
    return std::pair<std::int64_t, std::int64_t>(std::min(col + 1, a.rows), a.rows);
  };
  Vector<W> expected = times(a, x, all);
  for (std::size_t i = 0; i < pivots.size(); ++i) {
    const auto other = static_cast<std::size_t>(pivots[i]);
    if (other >= expected.size()) return std::numeric_limits<double>::infinity();
    std::swap(expected[i], expected[other]);
  }
  const Vector<W> inner = times(factors, x, upper);
  Vector<W> short_inner(inner.begin(), inner.begin() + std::ssize(pivots));
  Vector<W> found = times(factors, short_inner, below);
  for (std::size_t i = 0; i < short_inner.size(); ++i) found[i] += short_inner[i];
  return distance(expected, found) / norm(a) / kEpsilon<T>;
}

struct QrErrors {
  double factors = 0;   ///< the length of (a - q*r)*x over the norm of a
  double unitary = 0;   ///< how far reflectors are from unitary ones
  double together = 0;  ///< how far the block of them is from one after the other
  double largest() const { return std::max({factors, unitary, together}); }
};

/// All in units of rounding; without a t the reflectors are only seen one after the other.
template <typename T>
QrErrors qr_errors(const HostMatrix<T>& a, const HostMatrix<T>& factors, const std::vector<T>& taus,
                   const HostMatrix<T>& t) {
  using W = WideElement<T>;
  const std::int64_t order = std::ssize(taus);
  const auto all = [&](std::int64_t) { return std::pair<std::int64_t, std::int64_t>(0, a.rows); };
  const auto upper = [&](std::int64_t col) {
    return std::pair<std::int64_t, std::int64_t>(0, std::min(col + 1, a.rows));
  };
  // Sums of sums, so that this judge does not round more than what it judges.
  constexpr std::int64_t kTogether = 512;
  const auto along = [&](std::int64_t col, const Vector<W>& y) {
    W sum = y[static_cast<std::size_t>(col)];
    for (std::int64_t begin = col + 1; begin < a.rows; begin += kTogether) {
      W few = 0;
      for (std::int64_t row = begin; row < std::min(begin + kTogether, a.rows); ++row)
        few += turned(W(factors.at(row, col))) * y[static_cast<std::size_t>(row)];
      sum += few;
    }
    return sum;
  };
  const auto subtract = [&](std::int64_t col, W weight, Vector<W>& y) {
    y[static_cast<std::size_t>(col)] -= weight;
    for (std::int64_t row = col + 1; row < a.rows; ++row)
      y[static_cast<std::size_t>(row)] -= W(factors.at(row, col)) * weight;
  };
  QrErrors errors;
  const Vector<W> x = signs<W>(a.cols, 78);
  const Vector<W> expected = times(a, x, all);
  Vector<W> found = times(factors, x, upper);
  for (std::int64_t col = order - 1; col >= 0; --col)
    subtract(col, W(taus[static_cast<std::size_t>(col)]) * along(col, found), found);
  errors.factors = distance(expected, found) / norm(a) / kEpsilon<T>;

  const Vector<W> begin = signs<W>(a.rows, 79);
  Vector<W> apart = begin, together = begin, weights(static_cast<std::size_t>(order));
  for (std::int64_t col = order - 1; col >= 0; --col) {
    const W tau = taus[static_cast<std::size_t>(col)];
    double size = 1;
    for (std::int64_t begin = col + 1; begin < a.rows; begin += kTogether) {
      double few = 0;
      for (std::int64_t row = begin; row < std::min(begin + kTogether, a.rows); ++row)
        few += squared(W(factors.at(row, col)));
      size += few;
    }
    errors.unitary = std::max(errors.unitary, std::abs(2 * std::real(tau) - squared(tau) * size));
    weights[static_cast<std::size_t>(col)] = along(col, begin);
    subtract(col, tau * along(col, apart), apart);
  }
  errors.unitary /= kEpsilon<T>;
  if (t.cols == 0) return errors;
  for (std::int64_t row = 0; row < order; ++row) {
    W weight = 0;
    for (std::int64_t col = row; col < order; ++col)
      weight += W(t.at(row, col)) * weights[static_cast<std::size_t>(col)];
    subtract(row, weight, together);
  }
  errors.together = distance(apart, together) / length(begin) / kEpsilon<T>;
  return errors;
}

/// The length of (a - l*l^H)*x, or (a - u^H*u)*x, over the norm of a, in units of rounding.
template <typename T>
double cholesky_error(const HostMatrix<T>& a, const HostMatrix<T>& factor, Fill fill) {
  using W = WideElement<T>;
  const std::int64_t n = a.rows;
  HostMatrix<W> l{n, n, n, Vector<W>(static_cast<std::size_t>(n * n))};
  for (std::int64_t col = 0; col < n; ++col)
    for (std::int64_t row = col; row < n; ++row)
      l.at(row, col) =
          fill == Fill::lower ? W(factor.at(row, col)) : turned(W(factor.at(col, row)));
  const Vector<W> x = signs<W>(n, 80);
  const auto all = [&](std::int64_t) { return std::pair<std::int64_t, std::int64_t>(0, n); };
  const auto below = [&](std::int64_t col) {
    return std::pair<std::int64_t, std::int64_t>(col, n);
  };
  const Vector<W> expected = times(a, x, all);
  Vector<W> inner(static_cast<std::size_t>(n));
  for (std::int64_t col = 0; col < n; ++col)
    for (std::int64_t row = col; row < n; ++row)
      inner[static_cast<std::size_t>(col)] +=
          turned(l.at(row, col)) * x[static_cast<std::size_t>(row)];
  return distance(expected, times(l, inner, below)) / norm(a) / kEpsilon<T>;
}

}  // namespace fleet::test
