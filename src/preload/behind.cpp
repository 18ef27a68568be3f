// SPDX-License-Identifier: BSD-3-Clause
// behind.cpp: finds the BLAS behind us, step by step from the likely to the desperate. It must
// never answer with a function of this library, and must not decide what is offloaded.
#include "preload/behind.hpp"

#include <dlfcn.h>

#include <limits>

#include "fleetblas/fleetblas.h"
#include "preload/objects.hpp"
#include "preload/preload.hpp"

// The entries are defined in fortran.cpp and cblas.cpp with their full signatures; here only their
// addresses matter.
#define FLEET_DECLARE(name, ...) extern "C" [[gnu::visibility("hidden")]] void fleet_entry_##name();
FLEET_GEMM_NAMES(FLEET_DECLARE)
#undef FLEET_DECLARE

namespace fleet::preload {
namespace {

// As gfortran passes them: the length of each character argument, after all others.
constexpr std::size_t kFlagLength = 1;
constexpr int kCblasColMajor = 102;

// Sizes go out as 64 bits whatever the name says: a function with 32-bit integers reads the lower
// half, and some libraries have 64-bit integers under the plain names.
template <class T>
void invoke_fortran(void* function, const fleet_dropin_call& call) {
  using Int = std::int64_t;
  using Gemm = void(const char*, const char*, const Int*, const Int*, const Int*, const void*,
                    const void*, const Int*, const void*, const Int*, const void*, void*,
                    const Int*, std::size_t, std::size_t);
  reinterpret_cast<Gemm*>(function)(&call.transa, &call.transb, &call.m, &call.n, &call.k,
                                    call.alpha, call.a, &call.lda, call.b, &call.ldb, call.beta,
                                    call.c, &call.ldc, kFlagLength, kFlagLength);
}

int cblas_flag(char trans) { return trans == 'n' ? 111 : trans == 't' ? 112 : 113; }

float cblas_scalar(const void* value, float) { return *static_cast<const float*>(value); }
double cblas_scalar(const void* value, double) { return *static_cast<const double*>(value); }
const void* cblas_scalar(const void* value, const void*) { return value; }

template <class T>
void invoke_cblas(void* function, const fleet_dropin_call& call) {
  using Int = std::int64_t;
  using Scalar = typename ElementTraits<T>::CblasScalar;
  using Gemm = void(int, int, int, Int, Int, Int, Scalar, const void*, Int, const void*, Int,
                    Scalar, void*, Int);
  reinterpret_cast<Gemm*>(function)(kCblasColMajor, cblas_flag(call.transa),
                                    cblas_flag(call.transb), call.m, call.n, call.k,
                                    cblas_scalar(call.alpha, Scalar{}), call.a, call.lda, call.b,
                                    call.ldb, cblas_scalar(call.beta, Scalar{}), call.c, call.ldc);
}

bool fits(const fleet_dropin_call& call, int int_bits) {
  constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();
  return int_bits == 64 || (call.m <= kLargest && call.n <= kLargest && call.k <= kLargest &&
                            call.lda <= kLargest && call.ldb <= kLargest && call.ldc <= kLargest);
}

// The same product under another name in a library; names with 64-bit integers first, since they
// can do every call.
struct Request {
  char type;
  int row;  // of the name that was found
};

void* find_other_name(void* library, void* context) {
  Request& request = *static_cast<Request*>(context);
  for (int int_bits : {64, 32})
    for (int row = 0; row < kSymbolCount; ++row) {
      if (symbols[row].type != request.type || symbols[row].int_bits != int_bits) continue;
      void* function = find_in(library, symbols[row].name);
      if (!function) continue;
      request.row = row;
      return function;
    }
  return nullptr;
}

void* find_in_named_libraries(Request& request) {
  const char* const files[] = {setting("CPU_BLAS"), "libopenblas.so.0", "libopenblas.so",
                               "libmkl_rt.so.2",    "libblis.so.4",     "libblas.so.3",
                               "libblas.so"};
  for (const char* file : files) {
    void* library = file ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (file && !library) dlerror();
    void* function = library ? find_other_name(library, &request) : nullptr;
    if (function) return function;
    if (library) dlclose(library);
  }
  return nullptr;
}

void* find_same_name(SymbolId id, const void* caller) {
  const char* name = symbols[id].name;
  void* function = find_in(RTLD_NEXT, name);
  if (function) return function;
  if (void* library = library_of(caller)) {
    function = find_in(library, name);
    if (function) return function;
    dlclose(library);
  }
  function = find_anywhere(name);
  return function ? function : symbols[id].patched.load(std::memory_order_acquire);
}

void find_another_name(SymbolId id) {
  Request request{.type = symbols[id].type, .row = 0};
  void* function = search_objects(&find_other_name, &request);
  if (!function) function = find_in_named_libraries(request);
  symbols[id].other_row.store(request.row, std::memory_order_relaxed);
  symbols[id].other.store(function, std::memory_order_release);
}

// The core always finishes a product, on its CPU BLAS if need be.
bool run_in_core(const fleet_dropin_call& call) {
  const auto trans = [](char flag) { return static_cast<fleet_op>(flag); };
  const fleet_op transa = trans(call.transa), transb = trans(call.transb);
  char name[] = "fleet_?gemm";
  name[sizeof "fleet_" - 1] = call.type;
  void* function = core_function(name);
  if (!function) return false;
  const Inside guard;
  const auto run = [&](auto* gemm, auto alpha, auto a, auto b, auto beta, auto c) {
    return gemm(nullptr, transa, transb, call.m, call.n, call.k, alpha, a, call.lda, b, call.ldb,
                beta, c, call.ldc) == FLEET_OK;
  };
  const auto run_real = [&]<class T>(auto* gemm, const T* alpha) {
    return run(gemm, *alpha, static_cast<const T*>(call.a), static_cast<const T*>(call.b),
               *static_cast<const T*>(call.beta), static_cast<T*>(call.c));
  };
  if (call.type == 's')
    return run_real(reinterpret_cast<decltype(&fleet_sgemm)>(function),
                    static_cast<const float*>(call.alpha));
  if (call.type == 'd')
    return run_real(reinterpret_cast<decltype(&fleet_dgemm)>(function),
                    static_cast<const double*>(call.alpha));
  return run(reinterpret_cast<decltype(&fleet_zgemm)>(function), call.alpha, call.a, call.b,
             call.beta, call.c);
}

}  // namespace

#define FLEET_SYMBOL(name, T, shape, Int, xerbla, cblas_err) \
  {#name,                                                    \
   ElementTraits<T>::kLetter,                                \
   Shape::shape,                                             \
   8 * static_cast<int>(sizeof(Int)),                        \
   xerbla,                                                   \
   cblas_err,                                                \
   &fleet_entry_##name,                                      \
   &invoke_##shape<T>},
constinit Symbol symbols[kSymbolCount] = {FLEET_GEMM_NAMES(FLEET_SYMBOL)};
#undef FLEET_SYMBOL

void* resolve_behind(SymbolId id, const void* caller, void* adapter) {
  void* function = find_same_name(id, caller);
  if (function) {
    library_of(function);  // keeps it loaded
  } else {
    find_another_name(id);
    function = adapter;
  }
  symbols[id].behind.store(function, std::memory_order_release);
  return function;
}

void run_elsewhere(SymbolId id, const fleet_dropin_call& call) {
  void* function = symbols[id].other.load(std::memory_order_acquire);
  const Symbol& other = symbols[symbols[id].other_row.load(std::memory_order_relaxed)];
  if (function && fits(call, other.int_bits)) return other.invoke(function, call);
  if (run_in_core(call)) return;
  switch (call.type) {
    case 's':
      return multiply<float>(call);
    case 'd':
      return multiply<double>(call);
    case 'c':
      return multiply<ComplexFloat>(call);
    default:
      return multiply<ComplexDouble>(call);
  }
}

}  // namespace fleet::preload
