// SPDX-License-Identifier: BSD-3-Clause
// lapack_entries.cpp: takes a call of LAPACK through this library, under any of its names. It
// checks and passes on, and a small call costs little more than a jump.
#include "preload/illegal.hpp"
#include "preload/lapack.hpp"
#include "preload/lapack_symbols.hpp"
#include "preload/preload.hpp"

namespace fleet::preload {
namespace {

/// A longest call's flags; functions with fewer ignore the rest.
constexpr std::size_t kFlagLength = 1;

template <class... P>
[[gnu::always_inline]] inline void jump_behind(LapackId id, const void* caller, P... values) {
  reinterpret_cast<void (*)(P...)>(behind_of(id, caller))(values...);
}

/// The same from a function with a stack of its own, hence with the lengths of up to four flags.
template <class... P>
void call_behind(LapackId id, const void* caller, P... values) {
  jump_behind(id, caller, values..., kFlagLength, kFlagLength, kFlagLength, kFlagLength);
}

/// Has the LAPACK behind write the best size of the workspace to it, as every call leaves it there.
template <class F, LapackRule... kRules>
void leave_best_room(LapackArgs<kRules...>, LapackId id, const void* caller,
                     LapackParameter<F, kRules.arg>... values) {
  const typename F::Integer asked = -1;
  const auto replaced = [&]<LapackArg kArg>(LapackParameter<F, kArg> value) {
    if constexpr (kArg == LapackArg::lwork)
      return &asked;
    else
      return value;
  };
  call_behind(id, caller, replaced.template operator()<kRules.arg>(values)...);
}

template <class F, LapackRule... kRules>
void return_info(LapackArgs<kRules...>, std::int64_t info,
                 LapackParameter<F, kRules.arg>... values) {
  const auto write = [&]<LapackArg kArg>(LapackParameter<F, kArg> value) {
    if constexpr (kArg == LapackArg::info)
      *static_cast<typename F::Integer*>(value) = static_cast<typename F::Integer>(info);
  };
  (write.template operator()<kRules.arg>(values), ...);
}

template <class F, class... P>
[[gnu::noinline]] void offer(LapackId id, const void* caller, P... values) {
  fleet_dropin_lapack_call call = read_lapack<F>(values...);
  call.symbol = lapack_symbols[id].name;
  call.flops = flops_of(call);
  // Level 3 within the LAPACK behind is offered then.
  if (!serves_lapack(call.flops) || !has_named_ints(id, caller))
    return call_behind(id, caller, values...);
  std::int64_t info = 0;
  const Offer offer(call, info);
  if (!offer.taken()) return call_behind(id, caller, values...);
  if constexpr (F::kAsksForRoom) leave_best_room<F>(typename F::Args{}, id, caller, values...);
  return_info<F>(typename F::Args{}, info, values...);
}

template <class F, class... P>
[[gnu::noinline, gnu::cold]] void refuse(LapackId id, const void* caller, P... values) {
  const int position = first_illegal_of<F>(read_lapack<F>(values...));
  const LapackSymbol& symbol = lapack_symbols[id];
  // Without a handler of the program's own the LAPACK behind reports the error.
  if (!tell_program(symbol.xerbla, symbol.word, position))
    return call_behind(id, caller, values...);
  return_info<F>(typename F::Args{}, -position, values...);
}

template <class F, class... P>
[[gnu::always_inline]] inline void enter(LapackId id, const void* caller, P... values) {
  if (!inside) {
    const fleet_dropin_lapack_call call = read_lapack<F>(values...);
    if (first_illegal_of<F>(call)) [[unlikely]]
      return refuse<F>(id, caller, values...);
    const bool asks = F::kAsksForRoom && call.lwork == -1;
    const double flops = flops_of(call);
    if (!asks && flops > 0 && flops >= lapack_min_flops.load(std::memory_order_relaxed))
        [[unlikely]]
      return offer<F>(id, caller, values...);
  }
  return jump_behind(id, caller, values...);
}

/// False for a call that has only numbers to return.
bool has_work(const fleet_dropin_lapack_call& call) {
  switch (call.routine) {
    // Without right sides or reflectors there is still a matrix to factor, to look at or to write.
    case fleet_dropin_gesv:
    case fleet_dropin_posv:
    case fleet_dropin_trtrs:
    case fleet_dropin_orgqr:
    case fleet_dropin_dsgesv:
    case fleet_dropin_zcgesv:
      return call.n > 0;
    default:
      return call.flops > 0;
  }
}

/// Writes a size of the workspace that is enough, as every call leaves it there.
template <class F>
void write_room(const fleet_dropin_lapack_call& call) {
  using Real = typename ElementTraits<typename F::Element>::Real;
  const std::int64_t edge = F::kRoutine == fleet_dropin_ormqr && call.side == 'r' ? call.m : call.n;
  *static_cast<Real*>(call.work) = static_cast<Real>(edge > 1 ? edge : 1);
}

/// Does a call where no LAPACK is loaded that has its name: by the core.
template <class F, class... P>
void run_elsewhere(LapackId id, P... values) {
  fleet_dropin_lapack_call call = read_lapack<F>(values...);
  const LapackSymbol& symbol = lapack_symbols[id];
  call.symbol = symbol.name;
  call.flops = flops_of(call);
  std::int64_t info = 0;
  if constexpr (F::Args::has(LapackArg::iter)) *static_cast<typename F::Integer*>(call.iter) = 0;
  if (const int position = first_illegal_of<F>(call)) {
    info = -position;
    print_illegal(symbol.word, position);
  } else {
    const bool asks = F::kAsksForRoom && call.lwork == -1;
    if (!asks && has_work(call) && !compute_in_core(call, info)) {
      // Larger than m and n, as the core says it.
      info = 1 + (call.m > call.n ? call.m : call.n);
      print_not_done(symbol.name);
    }
    if constexpr (F::kAsksForRoom)
      if (asks || call.lwork > 0) write_room<F>(call);
  }
  return_info<F>(typename F::Args{}, info, values...);
}

template <LapackId kId>
struct PrototypeOfLapack;
#define FLEET_RULE(argument, check, extra) \
  LapackRule { LapackArg::argument, LapackCheck::check }
#define FLEET_PROTOTYPE(name, word, routine, T, Int, lengths, xerbla, ddot)                     \
  template <>                                                                                   \
  struct PrototypeOfLapack<kl_##name> {                                                         \
    using Args =                                                                                \
        LapackArgs<FLEET_LAPACK_##routine(FLEET_RULE, ) FLEET_LENGTHS_##lengths(FLEET_RULE, )>; \
    using type = LapackPrototype<fleet_dropin_##routine, T, Int, Args>;                         \
  };
FLEET_LAPACK_NAMES(FLEET_PROTOTYPE)
#undef FLEET_PROTOTYPE
#undef FLEET_RULE

}  // namespace

#define FLEET_PARAMETER(argument, check, id) \
  LapackParameter<typename PrototypeOfLapack<id>::type, LapackArg::argument> argument
#define FLEET_VALUE(argument, check, id) argument
#define FLEET_TAKEN(X, routine, lengths, id) \
  FLEET_LAPACK_##routine(X, id) FLEET_LENGTHS_##lengths(X, id)

// The function itself is hidden, as those of entries.hpp are.
#define FLEET_DEFINE(name, word, routine, T, Int, lengths, xerbla, ddot)                       \
  extern "C" [[gnu::visibility("hidden")]] void fleet_entry_##name(                            \
      FLEET_TAKEN(FLEET_PARAMETER, routine, lengths, kl_##name)) {                             \
    enter<typename PrototypeOfLapack<kl_##name>::type>(                                        \
        kl_##name, __builtin_return_address(0), FLEET_TAKEN(FLEET_VALUE, routine, lengths, )); \
  }                                                                                            \
  extern "C" [[gnu::visibility("hidden")]] void fleet_adapter_##name(                          \
      FLEET_TAKEN(FLEET_PARAMETER, routine, lengths, kl_##name)) {                             \
    run_elsewhere<typename PrototypeOfLapack<kl_##name>::type>(                                \
        kl_##name, FLEET_TAKEN(FLEET_VALUE, routine, lengths, ));                              \
  }                                                                                            \
  extern "C" [[gnu::visibility("default"), gnu::alias("fleet_entry_" #name)]] void name(       \
      FLEET_TAKEN(FLEET_PARAMETER, routine, lengths, kl_##name));
FLEET_LAPACK_NAMES(FLEET_DEFINE)

}  // namespace fleet::preload
