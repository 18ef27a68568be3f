// SPDX-License-Identifier: BSD-3-Clause
// lapack_matrix.hpp: random matrices of the element types of LAPACK, and products of them, for
// tests of factorizations. It knows no factorization.
#pragma once
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "support/cpu_blas.hpp"

namespace fleet::test {

template <typename T>
constexpr Storage kStorageOf = Storage::f64;
template <>
inline constexpr Storage kStorageOf<float> = Storage::f32;
template <>
inline constexpr Storage kStorageOf<std::complex<float>> = Storage::c32;
template <>
inline constexpr Storage kStorageOf<std::complex<double>> = Storage::c64;

/// The distance of 1 from the next number of the type's parts.
template <typename T>
constexpr double kUnitOf = sizeof(decltype(std::abs(T()))) == 4
                               ? double{std::numeric_limits<float>::epsilon()}
                               : std::numeric_limits<double>::epsilon();

/// Both parts of complex ones between -1 and 1.
template <typename T>
T random_element(std::mt19937& random) {
  std::uniform_real_distribution<double> uniform(-1, 1);
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(uniform(random));
  } else {
    using Real = typename T::value_type;
    const auto real = static_cast<Real>(uniform(random));
    return {real, static_cast<Real>(uniform(random))};
  }
}

/// A matrix whose leading dimension is larger than its columns are long.
template <typename T>
struct Matrix {
  std::int64_t rows, cols, ld;
  std::vector<T> data;

  Matrix(std::int64_t r, std::int64_t c)
      : rows(r), cols(c), ld(r + 3), data(static_cast<std::size_t>(ld * c + 1)) {}
  Matrix(std::int64_t r, std::int64_t c, std::mt19937& random) : Matrix(r, c) {
    for (T& element : data) element = random_element<T>(random);
  }
  T& at(std::int64_t row, std::int64_t col) {
    return data[static_cast<std::size_t>(row + col * ld)];
  }
  const T& at(std::int64_t row, std::int64_t col) const {
    return data[static_cast<std::size_t>(row + col * ld)];
  }
  View view(Fill fill = Fill::full) const {
    return {const_cast<T*>(data.data()), rows, cols, ld, fill};
  }
  /// Well conditioned; if it is square, either of its triangles is that of a positive definite
  /// Hermitian matrix.
  void strengthen() {
    const T weight = T(static_cast<float>(2 * std::max(rows, cols)));
    for (std::int64_t i = 0; i < std::min(rows, cols); ++i)
      at(i, i) = T(std::abs(at(i, i))) + weight;
  }
  /// The elements of a triangle, with zeros elsewhere; ones on the diagonal of a unit one.
  Matrix triangle(Fill fill, bool unit = false) const {
    Matrix made(rows, cols);
    for (std::int64_t col = 0; col < cols; ++col)
      for (std::int64_t row = 0; row < rows; ++row) {
        if (fill == Fill::lower ? row >= col : row <= col) made.at(row, col) = at(row, col);
        if (unit && row == col) made.at(row, col) = T(1);
      }
    return made;
  }
  /// What a triangle of it says of a Hermitian matrix.
  Matrix hermitian(Fill fill) const {
    Matrix made(rows, cols);
    for (std::int64_t col = 0; col < cols; ++col)
      for (std::int64_t row = 0; row < rows; ++row) {
        const bool stored = fill == Fill::lower ? row >= col : row <= col;
        const T value = stored ? at(row, col) : at(col, row);
        if constexpr (std::is_floating_point_v<T>)
          made.at(row, col) = value;
        else
          made.at(row, col) = row == col ? T(value.real()) : stored ? value : std::conj(value);
      }
    return made;
  }
  static Matrix identity(std::int64_t n) {
    Matrix made(n, n);
    for (std::int64_t i = 0; i < n; ++i) made.at(i, i) = T(1);
    return made;
  }
  double largest() const {
    double most = 0;
    for (std::int64_t col = 0; col < cols; ++col)
      for (std::int64_t row = 0; row < rows; ++row) {
        const double size = std::abs(at(row, col));
        if (std::isnan(size)) return size;
        most = std::max(most, size);
      }
    return most;
  }
};

template <typename T>
Matrix<T> product(Op op_a, const Matrix<T>& a, Op op_b, const Matrix<T>& b) {
  Matrix<T> c(op_a == Op::none ? a.rows : a.cols, op_b == Op::none ? b.cols : b.rows);
  shared_cpu_blas()->gemm({.type = {.storage = kStorageOf<T>},
                           .op_a = op_a,
                           .op_b = op_b,
                           .alpha = 1.0,
                           .beta = 0.0,
                           .a = a.view(),
                           .b = b.view(),
                           .c = c.view()});
  return c;
}

template <typename T>
Matrix<T> difference(const Matrix<T>& a, const Matrix<T>& b) {
  Matrix<T> c(a.rows, a.cols);
  for (std::int64_t col = 0; col < a.cols; ++col)
    for (std::int64_t row = 0; row < a.rows; ++row)
      c.at(row, col) = a.at(row, col) - b.at(row, col);
  return c;
}

// In oracle.cpp.
extern template struct Matrix<float>;
extern template struct Matrix<double>;
extern template struct Matrix<std::complex<float>>;
extern template struct Matrix<std::complex<double>>;
extern template Matrix<float> difference(const Matrix<float>&, const Matrix<float>&);
extern template Matrix<double> difference(const Matrix<double>&, const Matrix<double>&);
extern template Matrix<std::complex<float>> difference(const Matrix<std::complex<float>>&,
                                                       const Matrix<std::complex<float>>&);
extern template Matrix<std::complex<double>> difference(const Matrix<std::complex<double>>&,
                                                        const Matrix<std::complex<double>>&);

}  // namespace fleet::test
