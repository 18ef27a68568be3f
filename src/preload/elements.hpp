// SPDX-License-Identifier: BSD-3-Clause
// elements.hpp: the four element types and their arithmetic. It knows nothing of calls. No
// standard complex type, since that would bring the C++ library into every program.
#pragma once

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

inline float quotient(float x, float y) { return x / y; }
inline double quotient(double x, double y) { return x / y; }
/// By the larger part of y, so that its square does not overflow.
template <class Real>
Complex<Real> quotient(const Complex<Real>& x, const Complex<Real>& y) {
  const auto magnitude = [](Real part) { return part < 0 ? -part : part; };
  if (magnitude(y.re) >= magnitude(y.im)) {
    const Real ratio = y.im / y.re, divisor = y.re + y.im * ratio;
    return {(x.re + x.im * ratio) / divisor, (x.im - x.re * ratio) / divisor};
  }
  const Real ratio = y.re / y.im, divisor = y.re * ratio + y.im;
  return {(x.re * ratio + x.im) / divisor, (x.im * ratio - x.re) / divisor};
}

inline float conjugate(float x) { return x; }
inline double conjugate(double x) { return x; }
template <class Real>
Complex<Real> conjugate(const Complex<Real>& x) {
  return {x.re, -x.im};
}

inline float real_part(float x) { return x; }
inline double real_part(double x) { return x; }
template <class Real>
Real real_part(const Complex<Real>& x) {
  return x.re;
}

inline float scaled(float x, float factor) { return x * factor; }
inline double scaled(double x, double factor) { return x * factor; }
template <class Real>
Complex<Real> scaled(const Complex<Real>& x, Real factor) {
  return {x.re * factor, x.im * factor};
}

template <class T>
bool is_zero(const T& alpha) {
  return is_value(alpha, typename ElementTraits<T>::Real(0));
}

}  // namespace fleet::preload
