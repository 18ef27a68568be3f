// SPDX-License-Identifier: BSD-3-Clause
// routines.hpp: the meaning of every routine's arguments: which are legal, the column-major form of
// a row-major call, its flops. It knows no symbol names.
#pragma once
#include <cstdint>
#include <type_traits>
#include <utility>

#include "api/dropin.h"
#include "preload/elements.hpp"
#include "problem/arguments.hpp"

namespace fleet::preload {

using Routine = fleet_dropin_routine;

/// A is symmetric or hermitian, and one triangle of it is stored.
constexpr bool has_symmetric_a(Routine r) {
  return r == fleet_dropin_symm || r == fleet_dropin_hemm;
}
/// A is a triangle, and C is worked on in place.
constexpr bool has_triangular_a(Routine r) {
  return r == fleet_dropin_trmm || r == fleet_dropin_trsm;
}
/// A factor times the other's transpose, one flag for both.
constexpr bool is_by_itself(Routine r) {
  return r == fleet_dropin_syrk || r == fleet_dropin_herk || r == fleet_dropin_syr2k ||
         r == fleet_dropin_her2k;
}
constexpr bool is_twice(Routine r) { return r == fleet_dropin_syr2k || r == fleet_dropin_her2k; }
constexpr bool writes_triangle(Routine r) { return is_by_itself(r) || r == fleet_dropin_gemmt; }
constexpr bool is_hermitian(Routine r) {
  return r == fleet_dropin_hemm || r == fleet_dropin_herk || r == fleet_dropin_her2k;
}

/// 2mnk for gemm, half of it where a triangle is written or A is one; complex 4 times as much.
/// Inline, so that a known routine leaves a product of sizes.
[[gnu::always_inline]] inline double flops_of(const fleet_dropin_call& call) {
  const bool half =
      has_triangular_a(call.routine) || (writes_triangle(call.routine) && !is_twice(call.routine));
  const bool complex = call.type == 'c' || call.type == 'z';
  return (half ? 1.0 : 2.0) * (complex ? 4.0 : 1.0) * static_cast<double>(call.m) *
         static_cast<double>(call.n) * static_cast<double>(call.k);
}

/// The place of an argument in a call.
template <Arg kArg, class Call>
constexpr auto& field(Call& call) {
  if constexpr (kArg == Arg::side) return call.side;
  if constexpr (kArg == Arg::uplo) return call.uplo;
  if constexpr (kArg == Arg::transa) return call.transa;
  if constexpr (kArg == Arg::transb) return call.transb;
  if constexpr (kArg == Arg::diag) return call.diag;
  if constexpr (kArg == Arg::m) return call.m;
  if constexpr (kArg == Arg::n) return call.n;
  if constexpr (kArg == Arg::k) return call.k;
  if constexpr (kArg == Arg::alpha) return call.alpha;
  if constexpr (kArg == Arg::a) return call.a;
  if constexpr (kArg == Arg::lda) return call.lda;
  if constexpr (kArg == Arg::b) return call.b;
  if constexpr (kArg == Arg::ldb) return call.ldb;
  if constexpr (kArg == Arg::beta) return call.beta;
  if constexpr (kArg == Arg::c) return call.c;
  if constexpr (kArg == Arg::ldc) return call.ldc;
}

template <Arg... kArgs>
struct ArgList {
  static constexpr bool has(Arg arg) { return ((kArgs == arg) || ...); }
  static constexpr int position(Arg arg) {
    int at = 0;
    (void)((++at, kArgs == arg) || ...);
    return at;
  }
};

template <Routine kRoutine>
struct ArgsOfRoutine;
#define FLEET_ARG(argument, name, extra) Arg::argument
#define FLEET_ARGS(routine)                                       \
  template <>                                                     \
  struct ArgsOfRoutine<fleet_dropin_##routine> {                  \
    using type = ArgList<FLEET_ARGUMENTS_##routine(FLEET_ARG, )>; \
  };
FLEET_ARGS(gemm)
FLEET_ARGS(gemmt)
FLEET_ARGS(symm)
FLEET_ARGS(hemm)
FLEET_ARGS(syrk)
FLEET_ARGS(herk)
FLEET_ARGS(syr2k)
FLEET_ARGS(her2k)
FLEET_ARGS(trmm)
FLEET_ARGS(trsm)
#undef FLEET_ARGS
#undef FLEET_ARG

enum class Shape { fortran, cblas };

/// Properties of all functions of one prototype.
template <Routine kTheRoutine, class T, Shape kTheShape, class Int>
struct Prototype {
  using Element = T;
  using Real = typename ElementTraits<T>::Real;
  using Integer = Int;
  using Args = typename ArgsOfRoutine<kTheRoutine>::type;
  static constexpr Routine kRoutine = kTheRoutine;
  static constexpr Shape kShape = kTheShape;
  static constexpr bool kComplex = !std::is_same_v<Element, Real>;
  /// The scalar is a real number, whatever the matrices are made of.
  static constexpr bool has_real(Arg scalar) {
    return !kComplex || kRoutine == fleet_dropin_herk ||
           (kRoutine == fleet_dropin_her2k && scalar == Arg::beta);
  }
};

/// How a function of Prototype F takes an argument.
template <class F, Arg kArg>
constexpr auto parameter_type() {
  constexpr bool kByReference = F::kShape == Shape::fortran;
  if constexpr (kArg == Arg::c)
    return std::type_identity<void*>{};
  else if constexpr (is_matrix(kArg))
    return std::type_identity<const void*>{};
  else if constexpr (is_flag(kArg))
    return std::type_identity<std::conditional_t<kByReference, const char*, int>>{};
  else if constexpr (is_scalar(kArg))
    return std::type_identity<
        std::conditional_t<!kByReference && F::has_real(kArg), typename F::Real, const void*>>{};
  else
    return std::type_identity<
        std::conditional_t<kByReference, const typename F::Integer*, typename F::Integer>>{};
}
template <class F, Arg kArg>
using Parameter = typename decltype(parameter_type<F, kArg>())::type;

constexpr int kRowMajor = 101;
constexpr int kColMajor = 102;

/// A flag in lower case, 0 for an illegal one. Both cases are legal.
template <Arg kArg>
constexpr char flag_of(char flag) {
  const char lower = static_cast<char>(flag | 0x20);
  const bool known = kArg == Arg::side   ? lower == 'l' || lower == 'r'
                     : kArg == Arg::uplo ? lower == 'l' || lower == 'u'
                     : kArg == Arg::diag ? lower == 'n' || lower == 'u'
                                         : lower == 'n' || lower == 't' || lower == 'c';
  return known ? lower : '\0';
}
/// The same for CBLAS's numbers.
template <Arg kArg>
constexpr char flag_of(int flag) {
  if (kArg == Arg::side) return flag == 141 ? 'l' : flag == 142 ? 'r' : '\0';
  if (kArg == Arg::uplo) return flag == 121 ? 'u' : flag == 122 ? 'l' : '\0';
  if (kArg == Arg::diag) return flag == 131 ? 'n' : flag == 132 ? 'u' : '\0';
  return flag == 111 ? 'n' : flag == 112 ? 't' : flag == 113 ? 'c' : '\0';
}
/// The number of a legal flag.
template <Arg kArg>
constexpr int cblas_flag(char flag) {
  if (kArg == Arg::side) return flag == 'l' ? 141 : 142;
  if (kArg == Arg::uplo) return flag == 'u' ? 121 : 122;
  if (kArg == Arg::diag) return flag == 'n' ? 131 : 132;
  return flag == 'n' ? 111 : flag == 't' ? 112 : 113;
}

/// A scalar that is a parameter itself, not the address of one.
template <class F, Arg kArg>
constexpr bool kIsScalarByValue = is_scalar(kArg) &&
                                  !std::is_same_v<Parameter<F, kArg>, const void*>;

template <class F, Arg kArg>
constexpr void read_argument(fleet_dropin_call& call, const Parameter<F, kArg>& value) {
  constexpr bool kByReference = F::kShape == Shape::fortran;
  if constexpr (is_flag(kArg) && kByReference)
    field<kArg>(call) = flag_of<kArg>(*value);
  else if constexpr (is_flag(kArg))
    field<kArg>(call) = flag_of<kArg>(value);
  else if constexpr (kIsScalarByValue<F, kArg>)
    field<kArg>(call) = &value;
  else if constexpr (kByReference && !is_scalar(kArg) && !is_matrix(kArg))
    field<kArg>(call) = *value;
  else
    field<kArg>(call) = value;
}

/// A call as it is written, before m, k and layout are adapted. Real scalars are pointed to.
template <class F, Arg... kArgs>
constexpr fleet_dropin_call read_arguments(ArgList<kArgs...>,
                                           const Parameter<F, kArgs>&... values) {
  fleet_dropin_call call{};
  call.routine = F::kRoutine;
  call.type = ElementTraits<typename F::Element>::kLetter;
  (read_argument<F, kArgs>(call, values), ...);
  return call;
}

/// The flag of A^T times itself for that of A times itself. Any transposing flag will do in a
/// row-major call, as it did in the reference CBLAS up to 3.11 (later ones refuse some).
template <class F>
constexpr char turned_trans(char trans) {
  const char transposing = F::kComplex && is_hermitian(F::kRoutine) ? 'c' : 't';
  return trans == 'n' ? transposing : trans ? 'n' : '\0';
}

/// The column-major call that does what the row-major call does: all matrices are transposed.
/// `alpha` holds a conjugated scalar, which the call points to.
template <class F>
constexpr void turn_round(fleet_dropin_call& call, typename F::Element& alpha) {
  if constexpr (F::Args::has(Arg::side))
    call.side = call.side == 'l' ? 'r' : call.side == 'r' ? 'l' : '\0';
  if constexpr (F::Args::has(Arg::uplo))
    call.uplo = call.uplo == 'l' ? 'u' : call.uplo == 'u' ? 'l' : '\0';
  if constexpr (F::Args::has(Arg::m)) std::swap(call.m, call.n);
  if constexpr (F::Args::has(Arg::transb)) {
    std::swap(call.transa, call.transb);
    std::swap(call.a, call.b);
    std::swap(call.lda, call.ldb);
  }
  if constexpr (is_by_itself(F::kRoutine)) call.transa = turned_trans<F>(call.transa);
  if constexpr (F::kRoutine == fleet_dropin_her2k) {
    alpha = conjugate(*static_cast<const typename F::Element*>(call.alpha));
    call.alpha = &alpha;
  }
}

/// The call by columns, with all that fleet_dropin_call promises.
template <class F, class... P>
[[gnu::always_inline]] inline fleet_dropin_call column_major(int layout, typename F::Element& alpha,
                                                             const P&... values) {
  fleet_dropin_call call = read_arguments<F>(typename F::Args{}, values...);
  if (layout == kRowMajor) turn_round<F>(call, alpha);
  if (writes_triangle(F::kRoutine)) call.m = call.n;
  if (F::Args::has(Arg::side)) call.k = call.side == 'l' ? call.m : call.n;
  return call;
}

template <class F, Arg kArg>
constexpr bool is_legal(const fleet_dropin_call& call) {
  constexpr Routine kRoutine = F::kRoutine;
  const auto holds = [](std::int64_t ld, std::int64_t rows) { return ld >= (rows > 1 ? rows : 1); };
  if constexpr (kArg == Arg::transa && is_by_itself(kRoutine) && F::kComplex)
    return call.transa == 'n' || call.transa == (is_hermitian(kRoutine) ? 'c' : 't');
  else if constexpr (is_flag(kArg))
    return field<kArg>(call) != '\0';
  else if constexpr (kArg == Arg::m || kArg == Arg::n || kArg == Arg::k)
    return field<kArg>(call) >= 0;
  else if constexpr (kArg == Arg::lda && F::Args::has(Arg::side))
    return holds(call.lda, call.k);
  else if constexpr (kArg == Arg::lda)
    return holds(call.lda, call.transa == 'n' ? call.m : call.k);
  else if constexpr (kArg == Arg::ldb && F::Args::has(Arg::transb))
    return holds(call.ldb, call.transb == 'n' ? call.k : call.n);
  else if constexpr (kArg == Arg::ldb)
    return holds(call.ldb, has_symmetric_a(kRoutine) || call.transa == 'n' ? call.m : call.k);
  else if constexpr (kArg == Arg::ldc)
    return holds(call.ldc, call.m);
  else
    return true;
}

template <class F, Arg... kArgs>
constexpr int first_illegal(ArgList<kArgs...>, const fleet_dropin_call& call) {
  int position = 0;
  (void)((++position, !is_legal<F, kArgs>(call)) || ... || (position = 0, true));
  return position;
}
/// The position of the first illegal argument of a column-major call, numbered and looked for as
/// the reference BLAS does: in order; 0 when all are legal.
template <class F>
constexpr int first_illegal(const fleet_dropin_call& call) {
  return first_illegal<F>(typename F::Args{}, call);
}

}  // namespace fleet::preload
