// SPDX-License-Identifier: BSD-3-Clause
// fortran.cpp: GEMM under its Fortran names. It checks, and passes on; it must not copy what the
// BLAS behind gets, so that a small call costs little more than a jump.
#include "preload/behind.hpp"
#include "preload/illegal.hpp"
#include "preload/preload.hpp"

#define FLEET_PARAMETERS(Int)                                                          \
  const char *transa, const char *transb, const Int *m, const Int *n, const Int *k,    \
      const void *alpha, const void *a, const Int *lda, const void *b, const Int *ldb, \
      const void *beta, void *c, const Int *ldc
#define FLEET_ARGUMENTS transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc

namespace fleet::preload {
namespace {

// Callers pass the lengths of the two flags too, or do not (C). The entries leave that part of the
// stack as it is: where they end in a jump, the BLAS behind finds there what the caller left.
template <class Int>
using Gemm = void(FLEET_PARAMETERS(Int));
template <class Int>
using GemmWithLengths = void(FLEET_PARAMETERS(Int), std::size_t, std::size_t);

template <class Int>
fleet_dropin_call call_of(SymbolId id, FLEET_PARAMETERS(Int)) {
  return {.symbol = symbols[id].name,
          .type = symbols[id].type,
          .transa = fortran_flag(*transa),
          .transb = fortran_flag(*transb),
          .m = *m,
          .n = *n,
          .k = *k,
          .alpha = alpha,
          .a = a,
          .lda = *lda,
          .b = b,
          .ldb = *ldb,
          .beta = beta,
          .c = c,
          .ldc = *ldc};
}

template <SymbolId kId, class Int>
void adapter(FLEET_PARAMETERS(Int)) {
  run_elsewhere(kId, call_of<Int>(kId, FLEET_ARGUMENTS));
}

template <SymbolId kId, class Int>
void call_behind(const void* caller, FLEET_PARAMETERS(Int)) {
  void* behind = behind_of(kId, caller, reinterpret_cast<void*>(&adapter<kId, Int>));
  reinterpret_cast<GemmWithLengths<Int>*>(behind)(FLEET_ARGUMENTS, 1, 1);
}

template <SymbolId kId, class Int>
[[gnu::noinline]] void offer(const void* caller, FLEET_PARAMETERS(Int)) {
  const fleet_dropin_call call = call_of<Int>(kId, FLEET_ARGUMENTS);
  const Offer offer(call);
  if (!offer.taken()) call_behind<kId, Int>(caller, FLEET_ARGUMENTS);
}

template <SymbolId kId, class Int>
[[gnu::noinline, gnu::cold]] void refuse(const void* caller, int position, FLEET_PARAMETERS(Int)) {
  const Illegal illegal{.fortran_position = position};
  if (tell_program(kId, illegal)) return;
  void* none = reinterpret_cast<void*>(&adapter<kId, Int>);
  if (behind_of(kId, caller, none) == none) return print_illegal(kId, illegal);
  call_behind<kId, Int>(caller, FLEET_ARGUMENTS);
}

template <SymbolId kId, class T, class Int>
[[gnu::always_inline]] inline void enter(const void* caller, FLEET_PARAMETERS(Int)) {
  if (!inside) {
    const int position = first_illegal<Int>(fortran_flag(*transa), fortran_flag(*transb), *m, *n,
                                            *k, *lda, *ldb, *ldc);
    if (position) [[unlikely]]
      return refuse<kId, Int>(caller, position, FLEET_ARGUMENTS);
    if (*m == 0 || *n == 0) return;
    if (*k == 0 || is_zero(*static_cast<const T*>(alpha)))
      return scale<T>(*m, *n, *static_cast<const T*>(beta), static_cast<T*>(c), *ldc);
    if (flops_of(*m, *n, *k) >= min_flops.load(std::memory_order_relaxed)) [[unlikely]]
      return offer<kId, Int>(caller, FLEET_ARGUMENTS);
  }
  void* behind = behind_of(kId, caller, reinterpret_cast<void*>(&adapter<kId, Int>));
  return reinterpret_cast<Gemm<Int>*>(behind)(FLEET_ARGUMENTS);
}

}  // namespace

// The function itself is hidden, so that GOT patching takes its address and never that of another
// library's function of the exported name.
#define FLEET_DEFINE_fortran(name, T, Int)                                                  \
  extern "C" [[gnu::visibility("hidden")]] void fleet_entry_##name(FLEET_PARAMETERS(Int)) { \
    enter<k_##name, T, Int>(__builtin_return_address(0), FLEET_ARGUMENTS);                  \
  }                                                                                         \
  extern "C" [[gnu::visibility("default"), gnu::alias("fleet_entry_" #name)]] void name(    \
      FLEET_PARAMETERS(Int));
#define FLEET_DEFINE_cblas(name, T, Int)
#define FLEET_DEFINE(name, T, shape, Int, xerbla, cblas_err) FLEET_DEFINE_##shape(name, T, Int)
FLEET_GEMM_NAMES(FLEET_DEFINE)

}  // namespace fleet::preload
