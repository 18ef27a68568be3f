// SPDX-License-Identifier: BSD-3-Clause
// cblas.cpp: GEMM under its CBLAS names, both layouts. A row-major product is the column-major
// product of the transposes in the other order; what the BLAS behind gets is not turned round.
#include "preload/behind.hpp"
#include "preload/illegal.hpp"
#include "preload/preload.hpp"

#define FLEET_PARAMETERS(Scalar, Int)                                                            \
  int layout, int transa, int transb, Int m, Int n, Int k, Scalar alpha, const void *a, Int lda, \
      const void *b, Int ldb, Scalar beta, void *c, Int ldc
#define FLEET_ARGUMENTS layout, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc

namespace fleet::preload {
namespace {

constexpr int kRowMajor = 101;
constexpr int kColMajor = 102;

template <class Scalar, class Int>
using Gemm = void(FLEET_PARAMETERS(Scalar, Int));

char flag_of(int trans) {
  return trans == 111 ? 'n' : trans == 112 ? 't' : trans == 113 ? 'c' : '\0';
}

// Real scalars come by value, complex ones by address.
const void* address_of(const float& scalar) { return &scalar; }
const void* address_of(const double& scalar) { return &scalar; }
const void* address_of(const void* scalar) { return scalar; }

template <class T, class Scalar>
const T& value_of(const Scalar& scalar) {
  return *static_cast<const T*>(address_of(scalar));
}

// Alpha and beta as the call got them, kept where the core may point to them.
template <class Scalar, class Int>
fleet_dropin_call call_of(SymbolId id, int layout, int transa, int transb, Int m, Int n, Int k,
                          const Scalar& alpha, const void* a, Int lda, const void* b, Int ldb,
                          const Scalar& beta, void* c, Int ldc) {
  const bool row_major = layout == kRowMajor;
  return {.symbol = symbols[id].name,
          .type = symbols[id].type,
          .transa = flag_of(row_major ? transb : transa),
          .transb = flag_of(row_major ? transa : transb),
          .m = row_major ? n : m,
          .n = row_major ? m : n,
          .k = k,
          .alpha = address_of(alpha),
          .a = row_major ? b : a,
          .lda = row_major ? ldb : lda,
          .b = row_major ? a : b,
          .ldb = row_major ? lda : ldb,
          .beta = address_of(beta),
          .c = c,
          .ldc = ldc};
}

template <SymbolId kId, class Scalar, class Int>
void adapter(FLEET_PARAMETERS(Scalar, Int)) {
  run_elsewhere(kId, call_of<Scalar, Int>(kId, FLEET_ARGUMENTS));
}

template <SymbolId kId, class Scalar, class Int>
void* behind(const void* caller) {
  return behind_of(kId, caller, reinterpret_cast<void*>(&adapter<kId, Scalar, Int>));
}

template <SymbolId kId, class Scalar, class Int>
[[gnu::noinline]] void offer(const void* caller, FLEET_PARAMETERS(Scalar, Int)) {
  const fleet_dropin_call call = call_of<Scalar, Int>(kId, FLEET_ARGUMENTS);
  const Offer offer(call);
  if (offer.taken()) return;
  reinterpret_cast<Gemm<Scalar, Int>*>(behind<kId, Scalar, Int>(caller))(FLEET_ARGUMENTS);
}

// The first illegal argument of the column-major product.
template <class Int>
[[gnu::always_inline]] inline int sizes_illegal(int layout, int transa, int transb, Int m, Int n,
                                                Int k, Int lda, Int ldb, Int ldc) {
  return layout == kRowMajor
             ? first_illegal<Int>(flag_of(transb), flag_of(transa), n, m, k, ldb, lda, ldc)
             : first_illegal<Int>(flag_of(transa), flag_of(transb), m, n, k, lda, ldb, ldc);
}

// The first illegal argument in the reference CBLAS's order: layout, flags as written, then the
// sizes of the column-major product.
template <class Int>
Illegal find_illegal(int layout, int transa, int transb, Int m, Int n, Int k, Int lda, Int ldb,
                     Int ldc) {
  const bool row_major = layout == kRowMajor;
  if (!row_major && layout != kColMajor)
    return {.cblas_position = 1, .form = "Illegal layout setting, %d\n", .value = layout};
  if (!flag_of(transa))
    return {.cblas_position = 2,
            .row_major = row_major,
            .form = "Illegal TransA setting, %d\n",
            .value = transa};
  if (!flag_of(transb))
    return {.cblas_position = 3,
            .row_major = row_major,
            .form = "Illegal TransB setting, %d\n",
            .value = transb};
  const int position = sizes_illegal<Int>(layout, transa, transb, m, n, k, lda, ldb, ldc);
  if (!position) return {};
  return {.fortran_position = position, .cblas_position = position + 1, .row_major = row_major};
}

template <SymbolId kId, class Scalar, class Int>
[[gnu::noinline, gnu::cold]] void refuse(const void* caller, FLEET_PARAMETERS(Scalar, Int)) {
  const Illegal illegal = find_illegal<Int>(layout, transa, transb, m, n, k, lda, ldb, ldc);
  if (tell_program(kId, illegal)) return;
  void* function = behind<kId, Scalar, Int>(caller);
  if (function == reinterpret_cast<void*>(&adapter<kId, Scalar, Int>))
    return print_illegal(kId, illegal);
  reinterpret_cast<Gemm<Scalar, Int>*>(function)(FLEET_ARGUMENTS);
}

template <SymbolId kId, class T, class Scalar, class Int>
[[gnu::always_inline]] inline void enter(const void* caller, FLEET_PARAMETERS(Scalar, Int)) {
  if (!inside) {
    const bool row_major = layout == kRowMajor;
    if ((!row_major && layout != kColMajor) ||
        sizes_illegal<Int>(layout, transa, transb, m, n, k, lda, ldb, ldc)) [[unlikely]]
      return refuse<kId, Scalar, Int>(caller, FLEET_ARGUMENTS);
    if (m == 0 || n == 0) return;
    if (k == 0 || is_zero(value_of<T>(alpha)))
      return scale<T>(row_major ? n : m, row_major ? m : n, value_of<T>(beta), static_cast<T*>(c),
                      ldc);
    if (flops_of(m, n, k) >= min_flops.load(std::memory_order_relaxed)) [[unlikely]]
      return offer<kId, Scalar, Int>(caller, FLEET_ARGUMENTS);
  }
  void* function = behind<kId, Scalar, Int>(caller);
  return reinterpret_cast<Gemm<Scalar, Int>*>(function)(FLEET_ARGUMENTS);
}

}  // namespace

// Hidden functions with exported aliases, as in fortran.cpp.
#define FLEET_SCALAR(T) ElementTraits<T>::CblasScalar
#define FLEET_DEFINE_cblas(name, T, Int)                                                    \
  extern "C" [[gnu::visibility("hidden")]] void fleet_entry_##name(                         \
      FLEET_PARAMETERS(FLEET_SCALAR(T), Int)) {                                             \
    enter<k_##name, T, FLEET_SCALAR(T), Int>(__builtin_return_address(0), FLEET_ARGUMENTS); \
  }                                                                                         \
  extern "C" [[gnu::visibility("default"), gnu::alias("fleet_entry_" #name)]] void name(    \
      FLEET_PARAMETERS(FLEET_SCALAR(T), Int));
#define FLEET_DEFINE_fortran(name, T, Int)
#define FLEET_DEFINE(name, T, shape, Int, xerbla, cblas_err) FLEET_DEFINE_##shape(name, T, Int)
FLEET_GEMM_NAMES(FLEET_DEFINE)

}  // namespace fleet::preload
