// SPDX-License-Identifier: BSD-3-Clause
// elements.hpp: the four element types, and the loops that need no BLAS. It knows nothing of
// symbols. No standard complex type, since that would bring the C++ library into every program.
#pragma once
#include <cstdint>

#include "blas/dropin.h"

namespace fleet::preload {

template <class Real>
struct Complex {
  Real re;
  Real im;
};
using ComplexFloat = Complex<float>;
using ComplexDouble = Complex<double>;

inline bool is_value(float x, float value) { return x == value; }
inline bool is_value(double x, double value) { return x == value; }
template <class Real>
bool is_value(const Complex<Real>& x, Real value) {
  return x.re == value && x.im == Real(0);
}

template <class T>
struct ElementTraits;
template <>
struct ElementTraits<float> {
  using Real = float;
  using CblasScalar = float;
  static constexpr char kLetter = 's';
};
template <>
struct ElementTraits<double> {
  using Real = double;
  using CblasScalar = double;
  static constexpr char kLetter = 'd';
};
template <class R>
struct ElementTraits<Complex<R>> {
  using Real = R;
  using CblasScalar = const void*;  ///< CBLAS takes complex scalars by reference
  static constexpr char kLetter = sizeof(R) == sizeof(float) ? 'c' : 'z';
};

inline float times(float x, float y) { return x * y; }
inline double times(double x, double y) { return x * y; }
template <class Real>
Complex<Real> times(const Complex<Real>& x, const Complex<Real>& y) {
  return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}

inline float plus(float x, float y) { return x + y; }
inline double plus(double x, double y) { return x + y; }
template <class Real>
Complex<Real> plus(const Complex<Real>& x, const Complex<Real>& y) {
  return {x.re + y.re, x.im + y.im};
}

inline float conjugate(float x) { return x; }
inline double conjugate(double x) { return x; }
template <class Real>
Complex<Real> conjugate(const Complex<Real>& x) {
  return {x.re, -x.im};
}

/// True where the reference BLAS looks at neither A nor B.
template <class T>
bool is_zero(const T& alpha) {
  return is_value(alpha, typename ElementTraits<T>::Real(0));
}

/// C := beta * C, columns of m elements: what is left of a product with alpha == 0 or k == 0.
/// beta == 0 never reads C.
template <class T>
void scale(std::int64_t m, std::int64_t n, const T& beta, T* c, std::int64_t ldc) {
  using Real = typename ElementTraits<T>::Real;
  if (is_value(beta, Real(1))) return;
  const bool clear = is_value(beta, Real(0));
  for (std::int64_t j = 0; j < n; ++j)
    for (std::int64_t i = 0; i < m; ++i) c[i + j * ldc] = clear ? T{} : times(beta, c[i + j * ldc]);
}

/// The product by three plain loops: slow, but there whatever else is missing.
template <class T>
void multiply(const fleet_dropin_call& call) {
  const T* a = static_cast<const T*>(call.a);
  const T* b = static_cast<const T*>(call.b);
  T* c = static_cast<T*>(call.c);
  const T& alpha = *static_cast<const T*>(call.alpha);
  scale(call.m, call.n, *static_cast<const T*>(call.beta), c, call.ldc);
  const auto element = [](const T* x, std::int64_t ld, char trans, std::int64_t i, std::int64_t j) {
    if (trans == 'n') return x[i + j * ld];
    return trans == 'c' ? conjugate(x[j + i * ld]) : x[j + i * ld];
  };
  for (std::int64_t j = 0; j < call.n; ++j)
    for (std::int64_t l = 0; l < call.k; ++l) {
      const T factor = times(alpha, element(b, call.ldb, call.transb, l, j));
      for (std::int64_t i = 0; i < call.m; ++i) {
        T& sum = c[i + j * call.ldc];
        sum = plus(sum, times(element(a, call.lda, call.transa, i, l), factor));
      }
    }
}

}  // namespace fleet::preload
