// SPDX-License-Identifier: BSD-3-Clause
// plain_matrix.hpp: a view by its elements, for the plain loops of LAPACK. It must not know what
// they compute.
#pragma once
#include <cmath>
#include <complex>
#include <cstdint>

#include "run/launch.hpp"

namespace fleet {

template <typename T>
class PlainMatrix {
 public:
  explicit PlainMatrix(const View& view) : view_(view) {}
  T& operator()(std::int64_t row, std::int64_t col) const {
    return static_cast<T*>(view_.data)[row + col * view_.ld];
  }
  std::int64_t rows() const { return view_.rows; }
  std::int64_t cols() const { return view_.cols; }

 private:
  View view_;
};

inline float real_part(float a) { return a; }
inline double real_part(double a) { return a; }
template <typename Real>
Real real_part(std::complex<Real> a) {
  return a.real();
}

/// |a|^2.
inline float square(float a) { return a * a; }
inline double square(double a) { return a * a; }
template <typename Real>
Real square(std::complex<Real> a) {
  return a.real() * a.real() + a.imag() * a.imag();
}

/// What pivots are chosen by: |re| + |im|.
inline float size_of(float a) { return std::fabs(a); }
inline double size_of(double a) { return std::fabs(a); }
template <typename Real>
Real size_of(std::complex<Real> a) {
  return std::fabs(a.real()) + std::fabs(a.imag());
}

}  // namespace fleet
