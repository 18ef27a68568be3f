// SPDX-License-Identifier: BSD-3-Clause
// entries.hpp: takes a call of any name through this library. It checks and passes on; it must not
// copy or turn round the arguments for the BLAS behind, so that a small call costs little more than
// a jump.
#pragma once
#include "preload/behind.hpp"
#include "preload/illegal.hpp"
#include "preload/plain.hpp"
#include "preload/preload.hpp"

namespace fleet::preload {

/// Fortran callers pass the lengths of flags too, C callers do not. The entries do not touch that
/// part of the stack: after a jump the BLAS behind finds there what the caller passed.
template <class F, class... P>
[[gnu::always_inline]] inline void jump_behind(SymbolId id, const void* caller,
                                               [[maybe_unused]] int layout, P... values) {
  void* behind = behind_of(id, caller);
  if constexpr (F::kShape == Shape::fortran)
    return reinterpret_cast<void (*)(P...)>(behind)(values...);
  else
    return reinterpret_cast<void (*)(int, P...)>(behind)(layout, values...);
}

/// The same from a function with a stack of its own, hence with lengths: four, the most flags of
/// any routine.
template <class F, class... P>
void call_behind(SymbolId id, const void* caller, [[maybe_unused]] int layout, P... values) {
  if constexpr (F::kShape == Shape::fortran)
    jump_behind<F>(id, caller, layout, values..., std::size_t{1}, std::size_t{1}, std::size_t{1},
                   std::size_t{1});
  else
    jump_behind<F>(id, caller, layout, values...);
}

template <class F, class... P>
[[gnu::noinline]] void offer(SymbolId id, const void* caller, int layout, P... values) {
  typename F::Element alpha;
  fleet_dropin_call call = column_major<F>(layout, alpha, values...);
  call.symbol = symbols[id].name;
  const Offer offer(call, flops_of(call));
  if (!offer.taken()) call_behind<F>(id, caller, layout, values...);
}

template <class F, class... P>
void run_elsewhere(SymbolId id, int layout, P... values) {
  typename F::Element alpha;
  fleet_dropin_call call = column_major<F>(layout, alpha, values...);
  call.symbol = symbols[id].name;
  run_elsewhere(id, call);
}

/// Does a call whose A and B are not read.
template <class F, class... P>
[[gnu::noinline]] void scale(int layout, P... values) {
  typename F::Element alpha;
  scale_only(column_major<F>(layout, alpha, values...));
}

template <class F, Arg kArg>
void judge_flag(const fleet_dropin_call& call, bool row_major, int position,
                const Parameter<F, kArg>& value, Illegal& illegal) {
  if constexpr (is_flag(kArg)) {
    if (field<kArg>(call) != '\0' || illegal.cblas_position) return;
    constexpr bool kTwoTrans = F::Args::has(Arg::transb);
    illegal = {.cblas_position = position,
               .written_position = position,
               .row_major = row_major,
               .form = kArg == Arg::side     ? "Illegal Side setting, %d\n"
                       : kArg == Arg::uplo   ? "Illegal Uplo setting, %d\n"
                       : kArg == Arg::diag   ? "Illegal Diag setting, %d\n"
                       : kArg == Arg::transb ? "Illegal TransB setting, %d\n"
                       : kTwoTrans           ? "Illegal TransA setting, %d\n"
                                             : "Illegal Trans setting, %d\n",
               .value = value};
  }
}

/// The position in the row-major call of an argument of the column-major one: turning a call round
/// exchanges m and n and, where both factors are general, lda and ldb.
template <class F>
constexpr int position_as_written(int position) {
  using Args = typename F::Args;
  const auto exchanged = [&](Arg first, Arg second) {
    const int one = Args::position(first), other = Args::position(second);
    return position == one ? other : position == other ? one : position;
  };
  if (Args::has(Arg::m)) position = exchanged(Arg::m, Arg::n);
  return Args::has(Arg::transb) ? exchanged(Arg::lda, Arg::ldb) : position;
}

/// The first illegal argument of a CBLAS call in the reference's order: layout, flags as written,
/// then the column-major call.
template <class F, Arg... kArgs>
Illegal find_illegal(ArgList<kArgs...>, int layout, const Parameter<F, kArgs>&... values) {
  const bool row_major = layout == kRowMajor;
  if (!row_major && layout != kColMajor)
    return {.cblas_position = 1,
            .written_position = 1,
            .form = "Illegal layout setting, %d\n",
            .value = layout};
  const fleet_dropin_call written = read_arguments<F>(typename F::Args{}, values...);
  Illegal illegal;
  int position = 1;
  (judge_flag<F, kArgs>(written, row_major, ++position, values, illegal), ...);
  if (illegal.cblas_position) return illegal;
  typename F::Element alpha;
  position = first_illegal<F>(column_major<F>(layout, alpha, values...));
  return {.fortran_position = position,
          .cblas_position = position + 1,
          .written_position = (row_major ? position_as_written<F>(position) : position) + 1,
          .row_major = row_major};
}

template <class F, class... P>
[[gnu::noinline, gnu::cold]] void refuse(SymbolId id, const void* caller, int layout, P... values) {
  Illegal illegal;
  if constexpr (F::kShape == Shape::cblas) {
    illegal = find_illegal<F>(typename F::Args{}, layout, values...);
  } else {
    typename F::Element alpha;
    illegal.fortran_position = first_illegal<F>(column_major<F>(layout, alpha, values...));
  }
  if (tell_program(id, illegal)) return;
  if (!is_behind(id, caller)) return print_illegal(id, illegal);
  call_behind<F>(id, caller, layout, values...);
}

/// True if the reference BLAS reads neither A nor B.
template <class F>
bool alpha_is_zero(const fleet_dropin_call& call) {
  if constexpr (F::has_real(Arg::alpha))
    return is_zero(*static_cast<const typename F::Real*>(call.alpha));
  else
    return is_zero(*static_cast<const typename F::Element*>(call.alpha));
}

template <class F, class... P>
[[gnu::always_inline]] inline void enter(SymbolId id, const void* caller, int layout, P... values) {
  if (!inside) {
    typename F::Element alpha;
    const fleet_dropin_call call = column_major<F>(layout, alpha, values...);
    if ((layout != kRowMajor && layout != kColMajor) || first_illegal<F>(call)) [[unlikely]]
      return refuse<F>(id, caller, layout, values...);
    if (call.m == 0 || call.n == 0) return;
    if (call.k == 0 || alpha_is_zero<F>(call)) return scale<F>(layout, values...);
    if (flops_of(call) >= min_flops.load(std::memory_order_relaxed)) [[unlikely]]
      return offer<F>(id, caller, layout, values...);
  }
  return jump_behind<F>(id, caller, layout, values...);
}

}  // namespace fleet::preload

#define FLEET_PARAMETER(argument, name, id) Parameter<PrototypeOf<id>, Arg::argument> argument
#define FLEET_VALUE(argument, name, id) argument

// The function itself is hidden, so that GOT patching takes its address and never that of another
// library's function of the exported name. `parameters` and `layout` are those of the shape.
#define FLEET_DEFINE_ENTRY(name, parameters, layout, values)                             \
  extern "C" [[gnu::visibility("hidden")]] void fleet_entry_##name parameters {          \
    enter<PrototypeOf<k_##name>>(k_##name, __builtin_return_address(0), layout, values); \
  }                                                                                      \
  extern "C" [[gnu::visibility("hidden")]] void fleet_adapter_##name parameters {        \
    run_elsewhere<PrototypeOf<k_##name>>(k_##name, layout, values);                      \
  }                                                                                      \
  extern "C" [[gnu::visibility("default"), gnu::alias("fleet_entry_" #name)]] void name parameters;
