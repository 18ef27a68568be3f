// SPDX-License-Identifier: BSD-3-Clause
// plain.cpp: every routine by plain loops over the elements that it may look at. It needs no memory
// and must not be fast at the cost of a line.
#include "preload/plain.hpp"

#include <type_traits>

#include "preload/elements.hpp"
#include "preload/routines.hpp"

namespace fleet::preload {
namespace {

using Size = std::int64_t;

template <class T>
using RealOf = typename ElementTraits<T>::Real;

template <class T>
constexpr bool kComplex = !std::is_same_v<T, RealOf<T>>;

template <class T>
T widened(RealOf<T> x) {
  if constexpr (kComplex<T>)
    return {x, 0};
  else
    return x;
}

/// A scalar of the call, which may be a real number among complex ones.
template <class T>
T scalar(const void* value, bool real) {
  return real ? widened<T>(*static_cast<const RealOf<T>*>(value)) : *static_cast<const T*>(value);
}

/// One column-major matrix under op().
template <class T>
struct Factor {
  const T* data;
  Size ld;
  char trans = 'n';
  T operator()(Size i, Size j) const {
    const T& stored = trans == 'n' ? data[i + j * ld] : data[j + i * ld];
    return trans == 'c' ? conjugate(stored) : stored;
  }
};

template <class T>
Factor<T> factor_a(const fleet_dropin_call& call, char trans) {
  return {static_cast<const T*>(call.a), call.lda, trans};
}
template <class T>
Factor<T> factor_b(const fleet_dropin_call& call, char trans) {
  return {static_cast<const T*>(call.b), call.ldb, trans};
}

/// An element of the symmetric or hermitian A.
template <class T>
T symmetric_element(const fleet_dropin_call& call, Size i, Size j) {
  const bool hermitian = is_hermitian(call.routine);
  const bool stored = call.uplo == 'l' ? i >= j : i <= j;
  const T x = factor_a<T>(call, stored ? 'n' : hermitian ? 'c' : 't')(i, j);
  if constexpr (kComplex<T>)
    if (hermitian && i == j) return {x.re, 0};
  return x;
}

/// Rows [first, stop) of column j of C are the routine's.
struct Rows {
  Size first, stop;
};
Rows rows_of_c(const fleet_dropin_call& call, Size j) {
  if (!writes_triangle(call.routine)) return {0, call.m};
  return call.uplo == 'l' ? Rows{j, call.m} : Rows{0, j + 1};
}

/// C := beta*C; the diagonal of a hermitian matrix becomes real.
template <class T>
void scale_c(const fleet_dropin_call& call) {
  const bool hermitian = is_hermitian(call.routine) && is_by_itself(call.routine);
  const T beta = call.beta ? scalar<T>(call.beta, hermitian) : T{};
  const bool clear = is_value(beta, RealOf<T>(0)), keep = is_value(beta, RealOf<T>(1));
  for (Size j = 0; j < call.n; ++j)
    for (auto [i, stop] = rows_of_c(call, j); i < stop; ++i) {
      T& c = static_cast<T*>(call.c)[i + j * call.ldc];
      if (!keep) c = clear ? T{} : hermitian ? scaled(c, real_part(beta)) : times(beta, c);
      if (hermitian && i == j) c = widened<T>(real_part(c));
    }
}

/// C += alpha*X*Y with x(i, l) and y(l, j).
template <class T, class X, class Y>
void add_product(const fleet_dropin_call& call, const T& alpha, X x, Y y) {
  const bool real_diagonal = is_hermitian(call.routine) && is_by_itself(call.routine);
  for (Size j = 0; j < call.n; ++j)
    for (auto [i, stop] = rows_of_c(call, j); i < stop; ++i) {
      T sum{};
      for (Size l = 0; l < call.k; ++l) sum = plus(sum, times(x(i, l), y(l, j)));
      T& c = static_cast<T*>(call.c)[i + j * call.ldc];
      c = plus(c, times(alpha, sum));
      if (real_diagonal && i == j) c = widened<T>(real_part(c));
    }
}

template <class T>
void multiply(const fleet_dropin_call& call) {
  const T alpha = scalar<T>(call.alpha, call.routine == fleet_dropin_herk);
  scale_c<T>(call);
  if (has_symmetric_a(call.routine)) {
    const auto a = [&](Size i, Size j) { return symmetric_element<T>(call, i, j); };
    const auto b = factor_b<T>(call, 'n');
    if (call.side == 'l') return add_product(call, alpha, a, b);
    return add_product(call, alpha, b, a);
  }
  if (!is_by_itself(call.routine))
    return add_product(call, alpha, factor_a<T>(call, call.transa), factor_b<T>(call, call.transb));
  const char other = call.transa != 'n' ? 'n' : is_hermitian(call.routine) ? 'c' : 't';
  if (!is_twice(call.routine))
    return add_product(call, alpha, factor_a<T>(call, call.transa), factor_a<T>(call, other));
  add_product(call, alpha, factor_a<T>(call, call.transa), factor_b<T>(call, other));
  add_product(call, is_hermitian(call.routine) ? conjugate(alpha) : alpha,
              factor_b<T>(call, call.transa), factor_a<T>(call, other));
}

/// x := alpha*U*x, or the solution of U*y = alpha*x, for a vector of `call.k` elements. From the
/// right, the rows of B are multiplied by the transpose.
template <class T>
void work_in_place(const fleet_dropin_call& call, const T& alpha, T* x, Size stride) {
  const bool left = call.side == 'l', unit = call.diag == 'u';
  const bool solve = call.routine == fleet_dropin_trsm;
  const auto a = factor_a<T>(call, call.transa);
  const auto u = [&](Size i, Size l) { return left ? a(i, l) : a(l, i); };
  const bool upper = (call.uplo == 'u') == ((call.transa == 'n') == left);
  // A product reads elements that it has not written yet, a solution those that it has.
  const bool upwards = upper == solve;
  for (Size step = 0; step < call.k; ++step) {
    const Size i = upwards ? call.k - 1 - step : step;
    T& here = x[i * stride];
    T sum{};
    for (Size l = upper ? i + 1 : 0; l < (upper ? call.k : i); ++l)
      sum = plus(sum, times(u(i, l), x[l * stride]));
    if (solve) {
      const T rest = plus(times(alpha, here), times(widened<T>(-1), sum));
      here = unit ? rest : quotient(rest, u(i, i));
    } else {
      here = times(alpha, plus(unit ? here : times(u(i, i), here), sum));
    }
  }
}

template <class T>
void work_in_place(const fleet_dropin_call& call) {
  const T alpha = *static_cast<const T*>(call.alpha);
  const bool left = call.side == 'l';
  const Size vectors = left ? call.n : call.m, stride = left ? 1 : call.ldc;
  for (Size v = 0; v < vectors; ++v)
    work_in_place(call, alpha, static_cast<T*>(call.c) + v * (left ? call.ldc : 1), stride);
}

/// Calls `body` with an element of the call's type.
template <class Body>
void with_type(const fleet_dropin_call& call, Body body) {
  switch (call.type) {
    case 's':
      return body(float{});
    case 'd':
      return body(double{});
    case 'c':
      return body(ComplexFloat{});
    default:
      return body(ComplexDouble{});
  }
}

}  // namespace

void compute_plainly(const fleet_dropin_call& call) {
  with_type(call, [&]<class T>(T) {
    if (has_triangular_a(call.routine))
      work_in_place<T>(call);
    else
      multiply<T>(call);
  });
}

void scale_only(const fleet_dropin_call& call) {
  with_type(call, [&]<class T>(T) {
    const bool hermitian = is_hermitian(call.routine) && is_by_itself(call.routine);
    const bool keep = call.beta && is_value(scalar<T>(call.beta, hermitian), RealOf<T>(1));
    if (!keep) scale_c<T>(call);
  });
}

}  // namespace fleet::preload
