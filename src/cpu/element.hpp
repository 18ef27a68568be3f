// SPDX-License-Identifier: BSD-3-Clause
// element.hpp: the element types for the few places of the host that do arithmetic themselves.
// It must not know matrices.
#pragma once
#include <complex>
#include <type_traits>

#include "cpu/half.hpp"
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

/// The type in which elements of type T are computed and summed.
template <typename T>
struct WideOf {
  using Type = T;
};
template <>
struct WideOf<Half> {
  using Type = float;
};
template <>
struct WideOf<BFloat16> {
  using Type = float;
};
template <typename T>
using Wide = typename WideOf<T>::Type;

/// An element in the type that it is computed in, and back.
template <typename T>
Wide<T> load(T value) {
  if constexpr (std::is_same_v<T, Wide<T>>)
    return value;
  else
    return widen(value);
}
template <typename T>
T store(Wide<T> value) {
  if constexpr (std::is_same_v<T, Wide<T>>)
    return value;
  else
    return narrow<T>(value);
}

/// A scalar of a call in a wide type; real types take the real part.
template <typename T>
T scalar(std::complex<double> value) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(value.real());
  } else {
    using Real = typename T::value_type;
    return {static_cast<Real>(value.real()), static_cast<Real>(value.imag())};
  }
}

/// Real types take the real part of a scalar.
inline bool is_zero(std::complex<double> value, Storage storage) {
  return value.real() == 0 && (!is_complex(storage) || value.imag() == 0);
}

/// Calls `work` with a zero of the element type as it is stored.
template <typename Work>
void with_element(Storage storage, Work&& work) {
  switch (storage) {
    case Storage::f32:
      return work(float{});
    case Storage::f64:
      return work(double{});
    case Storage::c32:
      return work(std::complex<float>{});
    case Storage::c64:
      return work(std::complex<double>{});
    case Storage::f16:
      return work(Half{});
    case Storage::bf16:
      return work(BFloat16{});
  }
}

/// Calls `work` with a zero of the type that elements are computed in, one of those of BLAS.
template <typename Work>
void with_wide_element(Storage storage, Work&& work) {
  with_element(storage, [&]<typename T>(T) { work(Wide<T>{}); });
}

}  // namespace fleet
