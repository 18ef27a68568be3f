// SPDX-License-Identifier: BSD-3-Clause
// chosen.cpp: chooses the BLAS behind libblas.so.3, and resolves names in it. One library serves
// all names, so that results do not depend on which name was called first. It must not
// know what is offloaded.
//
// There is no lock: threads that come at once all choose, and all choose the same.
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <initializer_list>

#include "libblas/forward.hpp"
#include "preload/behind.hpp"
#include "preload/elements.hpp"
#include "preload/front.hpp"
#include "preload/objects.hpp"
#include "preload/preload.hpp"

namespace fleet::preload {

const char* const kCoreFile = "../../libfleetblas.so";

}  // namespace fleet::preload

namespace fleet::libblas {
namespace {

using preload::find_in;
using preload::setting;

constexpr int kWarningLevel = 2;
constexpr int kStatusOfAMissingSymbol = 127;  // as the dynamic linker ends a program

struct Blas {
  void* library = nullptr;
  const char* prefix = "";  // before each of its names
};

constinit std::atomic<void*> chosen_library{nullptr};
constinit std::atomic<const char*> chosen_prefix{""};

// Names with a slash, since "libblas.so.3" would be ourselves: wherever distributions keep it, the
// optimised ones first.
constexpr const char* kFiles[] = {
    "libopenblas.so.0",
    "libblis.so.4",
    "libmkl_gf_lp64.so.2",
#if defined(__x86_64__)
    "/usr/lib/x86_64-linux-gnu/blas/libblas.so.3",
#elif defined(__aarch64__)
    "/usr/lib/aarch64-linux-gnu/blas/libblas.so.3",
#endif
    "/usr/lib64/libblas.so.3",
    "/usr/lib/libblas.so.3",
};
// The wheel scipy-openblas32, where it is installed beside the Python package.
constexpr const char* kWheel = "../../../../scipy_openblas32/lib/libscipy_openblas.so";

void* find_prefixed(const Blas& blas, const char* name) {
  char full_name[64];
  snprintf(full_name, sizeof full_name, "%s%s", blas.prefix, name);
  return find_in(blas.library, full_name);
}

// Complex results in registers, as gfortran has it, and not by a pointer before the arguments, as
// Intel's and f2c's: those would take `n` for it, and i for a size of 0, since its first bits are.
bool returns_like_gfortran(void* zdotu) {
  using Complex = preload::ComplexDouble;
  using Dot = Complex(void*, const void*, const void*, const void*, const void*, const void*);
  int64_t n[2] = {1, 0};
  const int64_t one = 1;
  const Complex i{0, 1};
  const Complex result = reinterpret_cast<Dot*>(zdotu)(n, &i, &one, &i, &one, &one);
  return n[0] == 1 && result.re == -1 && result.im == 0;
}

// The reason why a library cannot serve calls with 32-bit integers; nullptr when it can.
const char* objection(Blas& blas) {
  if (dlsym(blas.library, "fleetblas_preload_patch")) return "it is FleetBLAS itself";
  for (const char* prefix : {"", "scipy_"}) {
    blas.prefix = prefix;
    void* ddot = find_prefixed(blas, "ddot_");
    void* zdotu = find_prefixed(blas, "zdotu_");
    if (!ddot || !zdotu || !find_prefixed(blas, "dgemm_")) continue;
    if (!preload::has_narrow_ints(ddot)) return "its integers have 64 bits";
    return returns_like_gfortran(zdotu) ? nullptr : "it returns complex numbers as ifort does";
  }
  dlerror();
  return "it has no ddot_, zdotu_ and dgemm_ (ILP64 libraries have other names)";
}

// Threads that a library starts while it is loaded must not run the program's signal handlers.
void* open_quietly(const char* file) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  void* library = dlopen(file, RTLD_LAZY | RTLD_LOCAL);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return library;
}

void warn(const char* file, const char* why) {
  const char* level = setting("LOG_LEVEL");
  if (level && atoi(level) >= kWarningLevel)
    fprintf(stderr, "fleetblas: %s cannot be the BLAS behind libblas.so.3: %s\n", file, why);
}

// The fault of a file; nullptr when it is opened as `blas`.
const char* open_blas(const char* file, Blas& blas) {
  blas.library = open_quietly(file);
  if (!blas.library) return dlerror();
  const char* why = objection(blas);
  if (!why) return nullptr;
  dlclose(blas.library);
  blas.library = nullptr;
  return why;
}

bool find_blas(Blas& blas) {
  if (const char* named = setting("CPU_BLAS")) {
    const char* why = open_blas(named, blas);
    if (!why) return true;
    warn(named, why);
  }
  char wheel[preload::kPathBytes];
  if (preload::file_beside_us(kWheel, wheel) && !open_blas(wheel, blas)) return true;
  for (const char* file : kFiles)
    if (!open_blas(file, blas)) return true;
  dlerror();
  return false;
}

int report_illegal(const char* name, int* position, int name_length) {
  program_xerbla()(name, position, static_cast<unsigned long>(name_length));
  return 0;
}

// An OpenBLAS whose names have a prefix calls an error handler of its own, which the program cannot
// replace, unless it is told to call another one.
void connect_xerbla(const Blas& blas) {
  using Handler = int(const char*, int*, int);
  void* set = find_prefixed(blas, "openblas_set_xerbla");
  if (set && !find_prefixed(blas, "xerbla_"))
    reinterpret_cast<void (*)(Handler*)>(set)(&report_illegal);
}

Blas chosen() {
  Blas blas{.library = chosen_library.load(std::memory_order_acquire),
            .prefix = chosen_prefix.load(std::memory_order_relaxed)};
  if (blas.library || !find_blas(blas)) return blas;
  connect_xerbla(blas);
  chosen_prefix.store(blas.prefix, std::memory_order_relaxed);
  chosen_library.store(blas.library, std::memory_order_release);
  return blas;
}

[[noreturn]] void give_up(const char* name) {
  fprintf(stderr,
          "fleetblas: %s: libblas.so.3 finds no CPU BLAS for it. FLEETBLAS_CPU_BLAS must name one "
          "with 32-bit integers (no ILP64 library), or one must be installed, as libopenblas0 or "
          "the Python package scipy-openblas32\n",
          name);
  _exit(kStatusOfAMissingSymbol);
}

}  // namespace

/// Called by forward.S for the first call of a name, with that call's registers saved. A name that
/// leads nowhere ends the process, as the dynamic linker does: there is no status to return.
extern "C" [[gnu::visibility("hidden")]] void* fleet_resolve(Forwarded* row) {
  const Blas blas = chosen();
  void* target = blas.library ? find_prefixed(blas, row->name) : nullptr;
  if (!target) target = own_function(row->name);
  if (!target) give_up(row->name);
  std::atomic_ref(row->target).store(target, std::memory_order_release);
  return target;
}

}  // namespace fleet::libblas

namespace fleet::preload {

void* find_chosen(const char* name) {
  const libblas::Blas blas = libblas::chosen();
  return blas.library ? libblas::find_prefixed(blas, name) : nullptr;
}

// libblas.so.3 is no LAPACK: calls between LAPACK's routines do not pass a BLAS.
Served* find_lapack(const char*) { return nullptr; }
void forget_patched_lapack() {}

bool stands_behind_another() { return find_in(RTLD_DEFAULT, "fleetblas_preload_patch") != nullptr; }

}  // namespace fleet::preload
