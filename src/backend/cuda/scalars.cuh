// SPDX-License-Identifier: BSD-3-Clause
// scalars.cuh: arithmetic of the four types of BLAS in kernels. It knows no matrices.
#pragma once
#include <cuda_runtime.h>

#include <cfloat>
#include <cstdint>

namespace fleet::cuda {

/// Aligned as its parts are.
template <typename Real>
struct Complex {
  Real re, im;
};

template <typename T>
struct Parts {
  using Real = T;
};
template <typename R>
struct Parts<Complex<R>> {
  using Real = R;
};
template <typename T>
using RealOf = typename Parts<T>::Real;

/// The smallest number whose reciprocal is one too.
template <typename Real>
__device__ constexpr Real safe_minimum() {
  return sizeof(Real) == 4 ? Real(FLT_MIN) : Real(DBL_MIN);
}

__device__ inline float conjugate(float x) { return x; }
__device__ inline double conjugate(double x) { return x; }
template <typename R>
__device__ Complex<R> conjugate(Complex<R> x) {
  return {x.re, -x.im};
}

__device__ inline float real_of(float x) { return x; }
__device__ inline double real_of(double x) { return x; }
template <typename R>
__device__ R real_of(Complex<R> x) {
  return x.re;
}

__device__ inline float imaginary_of(float) { return 0; }
__device__ inline double imaginary_of(double) { return 0; }
template <typename R>
__device__ R imaginary_of(Complex<R> x) {
  return x.im;
}

/// The element with these parts; a real one has no second.
template <typename T>
__device__ T element_of(RealOf<T> re, RealOf<T> im) {
  if constexpr (sizeof(T) == sizeof(RealOf<T>))
    return re;
  else
    return {re, im};
}

/// What LAPACK compares pivots by.
__device__ inline float magnitude(float x) { return fabsf(x); }
__device__ inline double magnitude(double x) { return fabs(x); }
template <typename R>
__device__ R magnitude(Complex<R> x) {
  return magnitude(x.re) + magnitude(x.im);
}

__device__ inline float product(float a, float b) { return a * b; }
__device__ inline double product(double a, double b) { return a * b; }
template <typename R>
__device__ Complex<R> product(Complex<R> a, Complex<R> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <typename R>
__device__ Complex<R> product(R a, Complex<R> b) {
  return {a * b.re, a * b.im};
}

__device__ inline float sum(float a, float b) { return a + b; }
__device__ inline double sum(double a, double b) { return a + b; }
template <typename R>
__device__ Complex<R> sum(Complex<R> a, Complex<R> b) {
  return {a.re + b.re, a.im + b.im};
}

/// c - a*b, and c + a*b.
__device__ inline float minus_product(float c, float a, float b) { return fmaf(-a, b, c); }
__device__ inline double minus_product(double c, double a, double b) { return fma(-a, b, c); }
template <typename R>
__device__ Complex<R> minus_product(Complex<R> c, Complex<R> a, Complex<R> b) {
  return {minus_product(minus_product(c.re, a.re, b.re), -a.im, b.im),
          minus_product(minus_product(c.im, a.re, b.im), a.im, b.re)};
}
__device__ inline float plus_product(float c, float a, float b) { return fmaf(a, b, c); }
__device__ inline double plus_product(double c, double a, double b) { return fma(a, b, c); }
template <typename R>
__device__ Complex<R> plus_product(Complex<R> c, Complex<R> a, Complex<R> b) {
  return {plus_product(plus_product(c.re, a.re, b.re), -a.im, b.im),
          plus_product(plus_product(c.im, a.re, b.im), a.im, b.re)};
}

__device__ inline float chosen(bool first, float a, float b) { return first ? a : b; }
__device__ inline double chosen(bool first, double a, double b) { return first ? a : b; }
template <typename R>
__device__ Complex<R> chosen(bool first, Complex<R> a, Complex<R> b) {
  return {chosen(first, a.re, b.re), chosen(first, a.im, b.im)};
}

__device__ inline bool is_zero(float x) { return x == 0; }
__device__ inline bool is_zero(double x) { return x == 0; }
template <typename R>
__device__ bool is_zero(Complex<R> x) {
  return x.re == 0 && x.im == 0;
}

__device__ inline float quotient(float a, float b) { return a / b; }
__device__ inline double quotient(double a, double b) { return a / b; }
/// Without squares, which may be larger than all numbers.
template <typename R>
__device__ Complex<R> quotient(Complex<R> a, Complex<R> b) {
  if (magnitude(b.re) >= magnitude(b.im)) {
    const R ratio = b.im / b.re, whole = b.re + b.im * ratio;
    return {(a.re + a.im * ratio) / whole, (a.im - a.re * ratio) / whole};
  }
  const R ratio = b.re / b.im, whole = b.re * ratio + b.im;
  return {(a.re * ratio + a.im) / whole, (a.im * ratio - a.re) / whole};
}

__device__ inline float from_lane(float x, int lane) { return __shfl_sync(~0u, x, lane); }
__device__ inline double from_lane(double x, int lane) { return __shfl_sync(~0u, x, lane); }
template <typename R>
__device__ Complex<R> from_lane(Complex<R> x, int lane) {
  return {from_lane(x.re, lane), from_lane(x.im, lane)};
}

}  // namespace fleet::cuda
