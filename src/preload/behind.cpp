// SPDX-License-Identifier: BSD-3-Clause
// behind.cpp: finds the BLAS behind us, step by step from the likely to the desperate. It must
// never answer with a function of this library or of one in front of it, and must not decide what
// is offloaded.
#include "preload/behind.hpp"

#include <dlfcn.h>

#include <limits>

#include "preload/front.hpp"
#include "preload/objects.hpp"
#include "preload/plain.hpp"
#include "preload/preload.hpp"

// The entries and adapters are defined in fortran.cpp and cblas.cpp with their full signatures;
// here only their addresses matter.
#define FLEET_DECLARE(name, ...)                                      \
  extern "C" [[gnu::visibility("hidden")]] void fleet_entry_##name(); \
  extern "C" [[gnu::visibility("hidden")]] void fleet_adapter_##name();
FLEET_NAMES(FLEET_DECLARE)
#undef FLEET_DECLARE

namespace fleet::preload {
namespace {

// As gfortran passes them: the length of each character argument, after all others. Routines with
// fewer flags ignore the rest.
constexpr std::size_t kFlagLength = 1;

// Sizes go out as 64 bits whatever the name says: a function with 32-bit integers reads the lower
// half, and some libraries have 64-bit integers under the plain names.
template <class F>
using Widest = Prototype<F::kRoutine, typename F::Element, F::kShape, std::int64_t>;

template <class F, Arg kArg>
Parameter<F, kArg> argument(const fleet_dropin_call& call) {
  constexpr bool kByReference = F::kShape == Shape::fortran;
  if constexpr (kIsScalarByValue<F, kArg>)
    return *static_cast<const typename F::Real*>(field<kArg>(call));
  else if constexpr (kByReference && !is_scalar(kArg) && !is_matrix(kArg))
    return &field<kArg>(call);
  else if constexpr (is_flag(kArg))
    return cblas_flag<kArg>(field<kArg>(call));
  else
    return field<kArg>(call);
}

template <class F, Arg... kArgs>
void invoke(ArgList<kArgs...>, void* function, const fleet_dropin_call& call) {
  if constexpr (F::kShape == Shape::fortran) {
    using Function =
        void(Parameter<F, kArgs>..., std::size_t, std::size_t, std::size_t, std::size_t);
    reinterpret_cast<Function*>(function)(argument<F, kArgs>(call)..., kFlagLength, kFlagLength,
                                          kFlagLength, kFlagLength);
  } else {
    using Function = void(int, Parameter<F, kArgs>...);
    reinterpret_cast<Function*>(function)(kColMajor, argument<F, kArgs>(call)...);
  }
}

template <class F>
void invoke_prototype(void* function, const fleet_dropin_call& call) {
  invoke<Widest<F>>(typename F::Args{}, function, call);
}

bool fits(const fleet_dropin_call& call, int int_bits) {
  constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();
  return int_bits == 64 || (call.m <= kLargest && call.n <= kLargest && call.k <= kLargest &&
                            call.lda <= kLargest && call.ldb <= kLargest && call.ldc <= kLargest);
}

// The same routine under another name in a library; names with 64-bit integers first, since they
// can do every call.
struct Request {
  Routine routine;
  char type;
  int row;  // of the name that was found
};

void* find_other_name(void* library, void* context) {
  Request& request = *static_cast<Request*>(context);
  for (int int_bits : {64, 32})
    for (int row = 0; row < kSymbolCount; ++row) {
      const Symbol& symbol = symbols[row];
      if (symbol.routine != request.routine || symbol.type != request.type ||
          symbol.int_bits != int_bits)
        continue;
      void* function = find_behind(library, symbol.name);
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

void* look_for(const Served& served, const void* caller) {
  const char* name = served.name;
  void* function = find_chosen(name);
  if (!function) function = find_behind(RTLD_NEXT, name);
  if (function) return function;
  if (void* library = library_of(caller)) {
    function = find_behind(library, name);
    if (function) return function;
    dlclose(library);
  }
  function = find_anywhere(name);
  if (!function) function = served.patched.load(std::memory_order_acquire);
  return function && !is_in_front(function, name) ? function : nullptr;
}

// Not for gemmt, of which OpenBLAS 0.3.23 refuses legal calls and 0.3.27 computes row-major calls
// wrongly: only callers of that very name get such a function.
void find_another_name(SymbolId id) {
  if (symbols[id].routine == fleet_dropin_gemmt) return;
  Request request{.routine = symbols[id].routine, .type = symbols[id].type, .row = 0};
  void* function = search_objects(&find_other_name, &request);
  if (!function) function = find_in_named_libraries(request);
  symbols[id].other_row.store(request.row, std::memory_order_relaxed);
  symbols[id].other.store(function, std::memory_order_release);
}

}  // namespace

#define FLEET_SYMBOL(name, word, routine, T, shape, Int, xerbla, cblas_err) \
  {{#name, &fleet_entry_##name},                                            \
   #word,                                                                   \
   fleet_dropin_##routine,                                                  \
   ElementTraits<T>::kLetter,                                               \
   Shape::shape,                                                            \
   8 * static_cast<int>(sizeof(Int)),                                       \
   xerbla,                                                                  \
   cblas_err,                                                               \
   &fleet_adapter_##name,                                                   \
   &invoke_prototype<PrototypeOf<k_##name>>},
constinit Symbol symbols[kSymbolCount] = {FLEET_NAMES(FLEET_SYMBOL)};
#undef FLEET_SYMBOL

// A dot product of "1" elements, whose upper half makes it negative when 64 bits are read, is x*y
// or (quietly, by the standard) 0.
bool has_narrow_ints(void* ddot) {
  using Dot = double(const void*, const double*, const void*, const double*, const void*);
  const auto n = static_cast<std::int64_t>(0xFFFFFFFF00000001u);
  const std::int64_t one = 1;
  const double x = 2;
  return reinterpret_cast<Dot*>(ddot)(&n, &x, &one, &x, &one) == x * x;
}

void* find_same_name(const Served& served, const void* caller) {
  void* function = look_for(served, caller);
  if (function) library_of(function);
  return function;
}

void* resolve_behind(SymbolId id, const void* caller) {
  void* function = find_same_name(symbols[id], caller);
  if (!function) {
    find_another_name(id);
    function = reinterpret_cast<void*>(symbols[id].adapter);
  }
  symbols[id].behind.store(function, std::memory_order_release);
  return function;
}

void run_elsewhere(SymbolId id, const fleet_dropin_call& call) {
  void* function = symbols[id].other.load(std::memory_order_acquire);
  const Symbol& other = symbols[symbols[id].other_row.load(std::memory_order_relaxed)];
  if (function && fits(call, other.int_bits)) return other.invoke(function, call);
  if (!compute_in_core(call)) compute_plainly(call);
}

}  // namespace fleet::preload
