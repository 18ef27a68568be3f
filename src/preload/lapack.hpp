// SPDX-License-Identifier: BSD-3-Clause
// lapack.hpp: the meaning of the arguments of LAPACK's routines: which are legal, how much work a
// call is. It knows no symbol names.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "api/dropin.h"
#include "preload/elements.hpp"
#include "problem/lapack_arguments.hpp"

namespace fleet::preload {

using LapackRoutine = fleet_dropin_lapack_routine;

/// The multiplications and additions of a call by the formulas of LAPACK's own timings, to the
/// leading order; complex ones count four times. 0 where a size is 0 or nothing is known.
[[gnu::always_inline]] inline double flops_of(const fleet_dropin_lapack_call& call) {
  const auto m = static_cast<double>(call.m), n = static_cast<double>(call.n);
  const auto k = static_cast<double>(call.k), nrhs = static_cast<double>(call.nrhs);
  const double complex = call.type == 'c' || call.type == 'z' ? 4.0 : 1.0;
  const double edge = m < n ? m : n, longer = m < n ? n : m;
  const double third = n * n * n / 3;
  switch (call.routine) {
    case fleet_dropin_getrf:
      return complex * edge * edge * (longer - edge / 3);
    case fleet_dropin_geqrf:
      return complex * 2 * edge * edge * (longer - edge / 3);
    case fleet_dropin_potrf:
    case fleet_dropin_trtri:
    case fleet_dropin_lauum:
      return complex * third;
    case fleet_dropin_potri:
      return complex * 2 * third;
    case fleet_dropin_getri:
      return complex * 4 * third;
    case fleet_dropin_trtrs:
      return complex * n * n * nrhs;
    case fleet_dropin_getrs:
    case fleet_dropin_potrs:
      return complex * 2 * n * n * nrhs;
    case fleet_dropin_gesv:
    case fleet_dropin_dsgesv:
    case fleet_dropin_zcgesv:
      return nrhs > 0 ? complex * (2 * third + 2 * n * n * nrhs) : 0;
    case fleet_dropin_posv:
      return nrhs > 0 ? complex * (third + 2 * n * n * nrhs) : 0;
    case fleet_dropin_orgqr:
      return complex * 2 * k * (2 * m * n - (m + n) * k + 2 * k * k / 3);
    case fleet_dropin_ormqr:
      return complex * 2 * k * m * n * (2 - k / (call.side == 'l' ? m : n));
    case fleet_dropin_larfb:
      // LAPACK takes any letter here, and some of them mean something.
      return m > 0 && n > 0 && k > 0 && call.side && call.trans && call.direct && call.storev
                 ? complex * 4 * m * n * k
                 : 0;
  }
  return 0;
}

/// The place of an argument in a call.
template <LapackArg kArg, class Call>
constexpr auto& field(Call& call) {
  if constexpr (kArg == LapackArg::side) return call.side;
  if constexpr (kArg == LapackArg::uplo) return call.uplo;
  if constexpr (kArg == LapackArg::trans) return call.trans;
  if constexpr (kArg == LapackArg::diag) return call.diag;
  if constexpr (kArg == LapackArg::direct) return call.direct;
  if constexpr (kArg == LapackArg::storev) return call.storev;
  if constexpr (kArg == LapackArg::m) return call.m;
  if constexpr (kArg == LapackArg::n) return call.n;
  if constexpr (kArg == LapackArg::k) return call.k;
  if constexpr (kArg == LapackArg::nrhs) return call.nrhs;
  if constexpr (kArg == LapackArg::lda) return call.lda;
  if constexpr (kArg == LapackArg::ldb) return call.ldb;
  if constexpr (kArg == LapackArg::ldc) return call.ldc;
  if constexpr (kArg == LapackArg::lwork) return call.lwork;
  if constexpr (kArg == LapackArg::a) return call.a;
  if constexpr (kArg == LapackArg::b) return call.b;
  if constexpr (kArg == LapackArg::c) return call.c;
  if constexpr (kArg == LapackArg::tau) return call.tau;
  if constexpr (kArg == LapackArg::ipiv) return call.ipiv;
  if constexpr (kArg == LapackArg::iter) return call.iter;
  if constexpr (kArg == LapackArg::work) return call.work;
}

/// True for arguments that the core is not told: it has room of its own, and returns info.
constexpr bool stays_here(LapackArg arg) {
  return arg == LapackArg::swork || arg == LapackArg::rwork || arg >= LapackArg::info;
}

struct LapackRule {
  LapackArg arg;
  LapackCheck check;
};

template <LapackRule... kRules>
struct LapackArgs {
  static constexpr bool has(LapackArg arg) { return ((kRules.arg == arg) || ...); }
};

/// Properties of all functions of one prototype.
template <LapackRoutine kTheRoutine, class T, class Int, class ArgsAndLengths>
struct LapackPrototype {
  using Element = T;
  using Integer = Int;
  using Args = ArgsAndLengths;
  static constexpr LapackRoutine kRoutine = kTheRoutine;
  static constexpr bool kComplex = !std::is_same_v<T, typename ElementTraits<T>::Real>;
  /// A workspace of any size that the caller asks for may be passed.
  static constexpr bool kAsksForRoom =
      Args::has(LapackArg::lwork) && kRoutine != fleet_dropin_larfb;
};

/// How a function of prototype F takes an argument.
template <class F, LapackArg kArg>
using LapackParameter = std::conditional_t<
    kArg >= LapackArg::length, std::size_t,
    std::conditional_t<is_flag(kArg), const char*,
                       std::conditional_t<is_integer(kArg), const typename F::Integer*, void*>>>;

/// A flag in lower case, 0 for an illegal one. Both cases are legal.
template <class F, LapackArg kArg>
constexpr char lapack_flag_of(char flag) {
  const char lower = static_cast<char>(flag | 0x20);
  constexpr bool kOfQ = F::kRoutine == fleet_dropin_ormqr || F::kRoutine == fleet_dropin_larfb;
  const auto one_of = [lower](char x, char y) { return lower == x || lower == y; };
  const bool known = kArg == LapackArg::side     ? one_of('l', 'r')
                     : kArg == LapackArg::uplo   ? one_of('l', 'u')
                     : kArg == LapackArg::diag   ? one_of('n', 'u')
                     : kArg == LapackArg::direct ? one_of('f', 'b')
                     : kArg == LapackArg::storev ? one_of('c', 'r')
                     : kOfQ                      ? one_of('n', F::kComplex ? 'c' : 't')
                                                 : lower == 'n' || one_of('t', 'c');
  return known ? lower : '\0';
}

template <class F, LapackArg kArg>
constexpr void read_argument(fleet_dropin_lapack_call& call,
                             const LapackParameter<F, kArg>& value) {
  if constexpr (is_flag(kArg))
    field<kArg>(call) = lapack_flag_of<F, kArg>(*value);
  else if constexpr (is_integer(kArg))
    field<kArg>(call) = *value;
  else if constexpr (!stays_here(kArg))
    field<kArg>(call) = value;
}

template <class F, LapackRule... kRules>
[[gnu::always_inline]] inline fleet_dropin_lapack_call read_lapack(
    LapackArgs<kRules...>, const LapackParameter<F, kRules.arg>&... values) {
  fleet_dropin_lapack_call call{};
  call.routine = F::kRoutine;
  call.type = ElementTraits<typename F::Element>::kLetter;
  call.int_bits = 8 * sizeof(typename F::Integer);
  (read_argument<F, kRules.arg>(call, values), ...);
  return call;
}

/// The call as the core takes it.
template <class F, class... P>
[[gnu::always_inline]] inline fleet_dropin_lapack_call read_lapack(const P&... values) {
  return read_lapack<F>(typename F::Args{}, values...);
}

template <LapackRule kRule>
constexpr bool is_legal(const fleet_dropin_lapack_call& call) {
  constexpr LapackCheck kCheck = kRule.check;
  const auto holds = [](std::int64_t ld, std::int64_t rows) { return ld >= (rows > 1 ? rows : 1); };
  const std::int64_t order = call.side == 'l' ? call.m : call.n;
  if constexpr (kCheck == LapackCheck::any) {
    return true;
  } else {
    const auto value = field<kRule.arg>(call);
    if constexpr (kCheck == LapackCheck::flag) return value != '\0';
    if constexpr (kCheck == LapackCheck::size) return value >= 0;
    if constexpr (kCheck == LapackCheck::up_to_m) return value >= 0 && value <= call.m;
    if constexpr (kCheck == LapackCheck::up_to_n) return value >= 0 && value <= call.n;
    if constexpr (kCheck == LapackCheck::up_to_order) return value >= 0 && value <= order;
    if constexpr (kCheck == LapackCheck::rows_m) return holds(value, call.m);
    if constexpr (kCheck == LapackCheck::rows_n) return holds(value, call.n);
    if constexpr (kCheck == LapackCheck::rows_order) return holds(value, order);
    // Versions of LAPACK differ in what geqrf of nothing may have: the one behind decides.
    if constexpr (kCheck == LapackCheck::room_n)
      return value == -1 || holds(value, call.n) ||
             (call.routine == fleet_dropin_geqrf && call.m == 0);
    if constexpr (kCheck == LapackCheck::room_other)
      return value == -1 || holds(value, call.side == 'l' ? call.n : call.m);
  }
}

template <LapackRule... kRules>
constexpr int first_illegal(LapackArgs<kRules...>, const fleet_dropin_lapack_call& call) {
  int position = 0;
  (void)((++position, !is_legal<kRules>(call)) || ... || (position = 0, true));
  return position;
}
/// The position of the first illegal argument in the order in which LAPACK looks; 0 when all are
/// legal.
template <class F>
constexpr int first_illegal_of(const fleet_dropin_lapack_call& call) {
  return first_illegal(typename F::Args{}, call);
}

}  // namespace fleet::preload
