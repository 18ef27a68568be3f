// SPDX-License-Identifier: BSD-3-Clause
// element.hpp: the four element types for the few places of the host that do arithmetic themselves.
// It must not know matrices.
#pragma once
#include <complex>

#include "problem/problem.hpp"

namespace fleet {

inline float product(float a, float b) { return a * b; }
inline double product(double a, double b) { return a * b; }

/// The plain formula: operator* looks for infinities behind a NaN, which no BLAS does, and which
/// keeps loops from being vectorised.
template <typename Real>
std::complex<Real> product(std::complex<Real> a, std::complex<Real> b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

inline float conjugate(float a) { return a; }
inline double conjugate(double a) { return a; }
template <typename Real>
std::complex<Real> conjugate(std::complex<Real> a) {
  return {a.real(), -a.imag()};
}

/// A scalar of a call in the element type; real types take the real part.
template <typename T>
T scalar(std::complex<double> value) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(value.real());
  } else {
    using Real = typename T::value_type;
    return {static_cast<Real>(value.real()), static_cast<Real>(value.imag())};
  }
}

/// Calls `work` with a zero of the element type.
template <typename Work>
void with_element(DataType type, Work&& work) {
  switch (type) {
    case DataType::f32:
      return work(float{});
    case DataType::f64:
      return work(double{});
    case DataType::c32:
      return work(std::complex<float>{});
    case DataType::c64:
      return work(std::complex<double>{});
  }
}

}  // namespace fleet
