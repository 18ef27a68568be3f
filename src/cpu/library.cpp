// SPDX-License-Identifier: BSD-3-Clause
// library.cpp: names, integer widths and thread control of the BLAS libraries that exist. It
// must not know launches, leases or plans.
#include "cpu/library.hpp"

#include <dlfcn.h>
#include <link.h>
#include <signal.h>

#include <cfenv>
#include <cstdint>
#include <cstring>

namespace fleet {
namespace {

/// How a library spells gemm: before + type letter + after.
struct Naming {
  const char* before;
  const char* after;
  Ints ints;
  bool fortran;
};

// Fortran names first: Netlib's cblas_dgemm calls dgemm_ through the dynamic linker, and so would
// reach a preloaded interposer (ourselves).
constexpr Naming kNamings[] = {{"scipy_", "gemm_64_", Ints::wide, true},
                               {"scipy_", "gemm_", Ints::narrow, true},
                               {"", "gemm_64_", Ints::wide, true},
                               {"", "gemm_", Ints::ask, true},
                               {"scipy_cblas_", "gemm64_", Ints::wide, false},
                               {"cblas_", "gemm64_", Ints::wide, false},
                               {"cblas_", "gemm_64", Ints::wide, false},
                               {"scipy_cblas_", "gemm", Ints::narrow, false},
                               {"cblas_", "gemm", Ints::ask, false}};

/// A library's own threads must never run the program's signal handlers, and some libraries switch
/// to flush-to-zero when they are loaded.
class ThreadStateGuard {
 public:
  ThreadStateGuard() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &mask_);
    std::fegetenv(&floats_);
  }
  ~ThreadStateGuard() {
    std::fesetenv(&floats_);
    pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  }
  ThreadStateGuard(const ThreadStateGuard&) = delete;
  ThreadStateGuard& operator=(const ThreadStateGuard&) = delete;

 private:
  sigset_t mask_;
  std::fenv_t floats_;
};

template <typename Function>
Function as(void* symbol) {
  return reinterpret_cast<Function>(symbol);
}

/// Where in memory an object lies that `symbol` may be in.
struct Inside {
  std::uintptr_t symbol;
  std::uintptr_t begin = 0;
};

int find_begin(dl_phdr_info* object, std::size_t, void* inside) {
  auto& [symbol, begin] = *static_cast<Inside*>(inside);
  std::uintptr_t first = 0;
  bool has_first = false, is_inside = false;
  for (int h = 0; h < object->dlpi_phnum; ++h) {
    const auto& header = object->dlpi_phdr[h];
    if (header.p_type != PT_LOAD) continue;
    const std::uintptr_t at = object->dlpi_addr + header.p_vaddr;
    if (!has_first) first = at;
    has_first = true;
    is_inside = is_inside || symbol - at < header.p_memsz;
  }
  if (is_inside) begin = first;
  return is_inside ? 1 : 0;
}

/// The address at which the library that holds `symbol` was loaded; null for none. dladdr would
/// look for the symbol too, among the thousands of a BLAS: 20 us, for each of a hundred names.
void* base_of(void* symbol) {
  Inside inside{.symbol = reinterpret_cast<std::uintptr_t>(symbol)};
  if (symbol != nullptr) dl_iterate_phdr(find_begin, &inside);
  return reinterpret_cast<void*>(inside.begin);
}

/// True for a symbol of this library or of its preload companion, wherever that was loaded from.
/// Told by addresses, not by names: those belong to the dynamic linker and to all threads.
bool is_ourselves(void* handle, void* symbol) {
  void* base = base_of(symbol);
  return base != nullptr && (base == base_of(reinterpret_cast<void*>(&open_blas)) ||
                             base == base_of(dlsym(handle, "fleetblas_preload_patch")));
}

void* find(void* handle, const std::string& name) {
  void* symbol = dlsym(handle, name.c_str());
  return symbol != nullptr && !is_ourselves(handle, symbol) ? symbol : nullptr;
}

/// Plain names say nothing about the integers. A dot product of "1" elements, whose upper half
/// makes it negative when 64 bits are read, is x*y or (quietly, by the standard) 0.
bool asks_for_wide_ints(void* handle) {
  const std::int64_t n = static_cast<std::int64_t>(0xFFFFFFFF00000001u);
  const std::int64_t one = 1;
  const double x = 2;
  using Dot = double (*)(const void*, const double*, const void*, const double*, const void*);
  if (void* dot = find(handle, "ddot_")) return as<Dot>(dot)(&n, &x, &one, &x, &one) == 0;
  using CDot = double (*)(std::int64_t, const double*, std::int64_t, const double*, std::int64_t);
  if (void* dot = find(handle, "cblas_ddot")) return as<CDot>(dot)(n, &x, 1, &x, 1) == 0;
  return false;
}

bool find_gemm(void* handle, BlasLibrary& library) {
  constexpr DataType kTypes[] = {DataType::f32, DataType::f64, DataType::c32, DataType::c64};
  for (const Naming& naming : kNamings) {
    bool any = false;
    for (DataType type : kTypes) {
      const std::string before = naming.before + std::string(word_of(type));
      const std::string after = naming.after + std::string_view("gemm").size();
      const auto at = static_cast<std::size_t>(type.storage);
      void* symbol = find(handle, before + naming.after);
      library.gemm[at] = symbol;
      library.gemv[at] = find(handle, before + "gemv" + after);
      library.axpy[at] = find(handle, before + "axpy" + after);
      library.trmm[at] = find(handle, before + "trmm" + after);
      library.trsm[at] = find(handle, before + "trsm" + after);
      any = any || symbol != nullptr;
    }
    if (!any) continue;
    library.fortran = naming.fortran;
    library.wide_ints =
        naming.ints == Ints::ask ? asks_for_wide_ints(handle) : naming.ints == Ints::wide;
    return true;
  }
  return false;
}

// Counts are passed and returned in registers: a library with 32-bit integers sees the lower half
// of ours, and the upper half of what it returns means nothing.
struct ThreadControl {
  const char* set;
  const char* get;
};

constexpr ThreadControl kThreadControls[] = {
    {"scipy_openblas_set_num_threads64_", "scipy_openblas_get_num_threads64_"},
    {"scipy_openblas_set_num_threads", "scipy_openblas_get_num_threads"},
    {"openblas_set_num_threads64_", "openblas_get_num_threads64_"},
    {"openblas_set_num_threads", "openblas_get_num_threads"},
    {"bli_thread_set_num_threads", "bli_thread_get_num_threads"},
    {"MKL_Set_Num_Threads", "MKL_Get_Max_Threads"}};

void find_thread_control(void* handle, BlasLibrary& library) {
  for (const ThreadControl& control : kThreadControls) {
    void* set = find(handle, control.set);
    void* get = find(handle, control.get);
    if (set == nullptr || get == nullptr) continue;
    library.set_threads = as<void (*)(std::int64_t)>(set);
    library.get_threads = as<std::int64_t (*)()>(get);
    return;
  }
}

std::string version_of(void* handle) {
  for (const char* name : {"scipy_openblas_get_config64_", "scipy_openblas_get_config",
                           "openblas_get_config64_", "openblas_get_config"})
    if (void* config = find(handle, name)) return as<const char* (*)()>(config)();
  if (void* info = find(handle, "bli_info_get_version_str"))
    return std::string("BLIS ") + as<const char* (*)()>(info)();
  if (void* get = find(handle, "MKL_Get_Version_String")) {
    char text[200] = "";
    as<void (*)(char*, int)>(get)(text, sizeof text - 1);
    return text;
  }
  return "";
}

template <typename Int>
void call_fortran(void* symbol, const BlasCall& c) {
  // The two lengths at the end belong to the character arguments.
  using Gemm = void (*)(const char*, const char*, const Int*, const Int*, const Int*, const void*,
                        const void*, const Int*, const void*, const Int*, const void*, void*,
                        const Int*, std::size_t, std::size_t);
  const auto m = static_cast<Int>(c.m), n = static_cast<Int>(c.n), k = static_cast<Int>(c.k);
  const auto lda = static_cast<Int>(c.lda), ldb = static_cast<Int>(c.ldb),
             ldc = static_cast<Int>(c.ldc);
  as<Gemm>(symbol)(&c.trans_a, &c.trans_b, &m, &n, &k, c.alpha, c.a, &lda, c.b, &ldb, c.beta, c.c,
                   &ldc, 1, 1);
}

int cblas_flag(char trans) {
  constexpr int kNoTrans = 111, kTrans = 112, kConjTrans = 113;
  return trans == 'N' ? kNoTrans : trans == 'T' ? kTrans : kConjTrans;
}

/// Scalar is the real type itself, or const void* for complex ones.
template <typename Int, typename Scalar>
void call_cblas(void* symbol, const BlasCall& c, Scalar alpha, Scalar beta) {
  using Gemm = void (*)(int, int, int, Int, Int, Int, Scalar, const void*, Int, const void*, Int,
                        Scalar, void*, Int);
  constexpr int kColumnMajor = 102;
  const auto narrow = [](std::int64_t value) { return static_cast<Int>(value); };
  as<Gemm>(symbol)(kColumnMajor, cblas_flag(c.trans_a), cblas_flag(c.trans_b), narrow(c.m),
                   narrow(c.n), narrow(c.k), alpha, c.a, narrow(c.lda), c.b, narrow(c.ldb), beta,
                   c.c, narrow(c.ldc));
}

template <typename Int>
void call_cblas(void* symbol, Storage storage, const BlasCall& c) {
  if (storage == Storage::f32)
    call_cblas<Int>(symbol, c, *static_cast<const float*>(c.alpha),
                    *static_cast<const float*>(c.beta));
  else if (storage == Storage::f64)
    call_cblas<Int>(symbol, c, *static_cast<const double*>(c.alpha),
                    *static_cast<const double*>(c.beta));
  else
    call_cblas<Int>(symbol, c, c.alpha, c.beta);
}

template <typename Int>
void call_fortran(void* symbol, const GemvCall& c) {
  using Gemv = void (*)(const char*, const Int*, const Int*, const void*, const void*, const Int*,
                        const void*, const Int*, const void*, void*, const Int*, std::size_t);
  const auto m = static_cast<Int>(c.m), n = static_cast<Int>(c.n), lda = static_cast<Int>(c.lda),
             incx = static_cast<Int>(c.incx), incy = static_cast<Int>(c.incy);
  as<Gemv>(symbol)(&c.trans, &m, &n, c.alpha, c.a, &lda, c.x, &incx, c.beta, c.y, &incy, 1);
}

template <typename Int>
void call_fortran(void* symbol, const AxpyCall& c) {
  using Axpy = void (*)(const Int*, const void*, const void*, const Int*, void*, const Int*);
  const auto n = static_cast<Int>(c.n), incx = static_cast<Int>(c.incx),
             incy = static_cast<Int>(c.incy);
  as<Axpy>(symbol)(&n, c.alpha, c.x, &incx, c.y, &incy);
}

template <typename Int>
void call_fortran(void* symbol, const TriangularCall& c) {
  // The four lengths at the end belong to the character arguments.
  using Triangular = void (*)(const char*, const char*, const char*, const char*, const Int*,
                              const Int*, const void*, const void*, const Int*, void*, const Int*,
                              std::size_t, std::size_t, std::size_t, std::size_t);
  const auto m = static_cast<Int>(c.m), n = static_cast<Int>(c.n), lda = static_cast<Int>(c.lda),
             ldb = static_cast<Int>(c.ldb);
  as<Triangular>(symbol)(&c.side, &c.uplo, &c.trans, &c.diag, &m, &n, c.alpha, c.a, &lda, c.b, &ldb,
                         1, 1, 1, 1);
}

template <typename Int, typename Scalar>
void call_cblas(void* symbol, const TriangularCall& c, Scalar alpha) {
  using Triangular =
      void (*)(int, int, int, int, int, Int, Int, Scalar, const void*, Int, void*, Int);
  constexpr int kColumnMajor = 102, kUpper = 121, kLower = 122, kNonUnit = 131, kUnit = 132,
                kLeft = 141, kRight = 142;
  const auto narrow = [](std::int64_t value) { return static_cast<Int>(value); };
  as<Triangular>(symbol)(kColumnMajor, c.side == 'L' ? kLeft : kRight,
                         c.uplo == 'L' ? kLower : kUpper, cblas_flag(c.trans),
                         c.diag == 'U' ? kUnit : kNonUnit, narrow(c.m), narrow(c.n), alpha, c.a,
                         narrow(c.lda), c.b, narrow(c.ldb));
}

template <typename Int, typename Scalar>
void call_cblas(void* symbol, const GemvCall& c, Scalar alpha, Scalar beta) {
  using Gemv =
      void (*)(int, int, Int, Int, Scalar, const void*, Int, const void*, Int, Scalar, void*, Int);
  constexpr int kColumnMajor = 102;
  const auto narrow = [](std::int64_t value) { return static_cast<Int>(value); };
  as<Gemv>(symbol)(kColumnMajor, cblas_flag(c.trans), narrow(c.m), narrow(c.n), alpha, c.a,
                   narrow(c.lda), c.x, narrow(c.incx), beta, c.y, narrow(c.incy));
}

template <typename Int, typename Scalar>
void call_cblas(void* symbol, const AxpyCall& c, Scalar alpha) {
  using Axpy = void (*)(Int, Scalar, const void*, Int, void*, Int);
  const auto narrow = [](std::int64_t value) { return static_cast<Int>(value); };
  as<Axpy>(symbol)(narrow(c.n), alpha, c.x, narrow(c.incx), c.y, narrow(c.incy));
}

/// Calls `work` with each scalar as CBLAS wants it: by value where it is real.
template <typename Work, typename... Scalars>
void with_scalars(Storage storage, Work work, Scalars... scalars) {
  if (storage == Storage::f32)
    work(*static_cast<const float*>(scalars)...);
  else if (storage == Storage::f64)
    work(*static_cast<const double*>(scalars)...);
  else
    work(scalars...);
}

template <typename Int>
void call_cblas(void* symbol, Storage storage, const GemvCall& c) {
  with_scalars(
      storage, [&](auto alpha, auto beta) { call_cblas<Int>(symbol, c, alpha, beta); }, c.alpha,
      c.beta);
}

template <typename Int>
void call_cblas(void* symbol, Storage storage, const AxpyCall& c) {
  with_scalars(
      storage, [&](auto alpha) { call_cblas<Int>(symbol, c, alpha); }, c.alpha);
}

template <typename Int>
void call_cblas(void* symbol, Storage storage, const TriangularCall& c) {
  with_scalars(
      storage, [&](auto alpha) { call_cblas<Int>(symbol, c, alpha); }, c.alpha);
}

template <typename Call>
void call_symbol(const BlasLibrary& library, void* symbol, Storage storage, const Call& call) {
  if (library.fortran)
    library.wide_ints ? call_fortran<std::int64_t>(symbol, call)
                      : call_fortran<std::int32_t>(symbol, call);
  else
    library.wide_ints ? call_cblas<std::int64_t>(symbol, storage, call)
                      : call_cblas<std::int32_t>(symbol, storage, call);
}

}  // namespace

void BlasLibrary::call(Storage storage, const GemvCall& call) const {
  call_symbol(*this, gemv[static_cast<std::size_t>(storage)], storage, call);
}

void BlasLibrary::call(Storage storage, const AxpyCall& call) const {
  call_symbol(*this, axpy[static_cast<std::size_t>(storage)], storage, call);
}

void BlasLibrary::call(Storage storage, const TriangularCall& call) const {
  call_symbol(*this, (call.solves ? trsm : trmm)[static_cast<std::size_t>(storage)], storage, call);
}

void BlasLibrary::call(Storage storage, const BlasCall& call) const {
  call_symbol(*this, gemm[static_cast<std::size_t>(storage)], storage, call);
}

std::optional<BlasLibrary> open_blas(const std::string& file, std::string& why) {
  const ThreadStateGuard guard;
  BlasLibrary library;
  library.file = file;
  if (void* loaded = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) {
    library.in_use_before = true;
    dlclose(loaded);
  }
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* message = dlerror();
    why = message != nullptr ? message : file + " cannot be loaded";
    return std::nullopt;
  }
  if (!find_gemm(handle, library)) {
    why = file + " has no gemm under a known name";
    dlclose(handle);
    return std::nullopt;
  }
  library.lapack = find_lapack([handle](const std::string& name) { return find(handle, name); },
                               asks_for_wide_ints(handle));
  find_thread_control(handle, library);
  library.version = version_of(handle);
  return library;
}

}  // namespace fleet
