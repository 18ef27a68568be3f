// SPDX-License-Identifier: BSD-3-Clause
// names.cpp: ScaLAPACK's and PBLAS's names of what mpi.h has, before those of the program's own
// library. What is refused here is that library's: it does what this one cannot, and its errors are
// its own. All ranks decide alike, since a status is that of all ranks.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "comm_mpi/abort.hpp"
#include "scalapack/blacs.hpp"

namespace {

using fleet::scalapack::grid_of;

/// The place of the context in a descriptor, and what the first number of one is.
constexpr int kContext = 1, kDense = 1;

/// Whether matrices are dense ones of one context.
template <typename... Descriptors>
bool is_ours(const int* first, Descriptors... others) {
  return first[0] == kDense && ((others[kContext] == first[kContext]) && ...);
}

/// 'n', 't', 'c', ... of a Fortran word.
int lower(const char* word) { return *word | ('a' - 'A'); }
fleet_op op(const char* word) { return static_cast<fleet_op>(lower(word)); }

/// Calls since the program began.
std::atomic<std::int64_t> calls_done, calls_passed_on;

/// All ranks: ScaLAPACK knows no way to say that one cannot go on.
[[noreturn]] void end_all(const char* name, const char* why) noexcept {
  std::fprintf(stderr, "libfleetblas_scalapack: %s: %s\n", name, why);
  fleet::lu::end_all_ranks(1);
}

/// Calls the program's own routine with the same arguments.
template <typename... Arguments>
void pass_on(const char* name, Arguments... arguments) {
  const auto function = reinterpret_cast<void (*)(Arguments...)>(fleet::scalapack::next(name));
  if (function == nullptr)
    end_all(
        name,
        "no library of the program that this one can see has it (is it loaded with RTLD_LOCAL?)");
  ++calls_passed_on;
  function(arguments...);
}

/// Whether the call is done. Where it was refused nothing was touched; after a failure the run
/// cannot go on.
bool is_done(const char* name, fleet_status status) {
  if (status == FLEET_DEVICE_FAILED) end_all(name, fleet_mpi_message());
  if (status == FLEET_OK) ++calls_done;
  return status == FLEET_OK;
}

}  // namespace

extern "C" {

FLEET_API void fleet_scalapack_calls(std::int64_t* done, std::int64_t* passed_on) noexcept {
  *done = calls_done;
  *passed_on = calls_passed_on;
}

FLEET_API void pdgemm_(const char* transa, const char* transb, const int* m, const int* n,
                       const int* k, const double* alpha, const double* a, const int* ia,
                       const int* ja, const int* desca, const double* b, const int* ib,
                       const int* jb, const int* descb, const double* beta, double* c,
                       const int* ic, const int* jc, const int* descc) {
  if (is_ours(descc, desca, descb))
    if (fleet_mpi_grid* const grid = grid_of(descc[kContext]))
      if (is_done("pdgemm",
                  fleet_mpi_dgemm(grid, op(transa), op(transb), *m, *n, *k, *alpha, a, *ia, *ja,
                                  desca, b, *ib, *jb, descb, *beta, c, *ic, *jc, descc)))
        return;
  pass_on("pdgemm_", transa, transb, m, n, k, alpha, a, ia, ja, desca, b, ib, jb, descb, beta, c,
          ic, jc, descc);
}

FLEET_API void pdsyrk_(const char* uplo, const char* trans, const int* n, const int* k,
                       const double* alpha, const double* a, const int* ia, const int* ja,
                       const int* desca, const double* beta, double* c, const int* ic,
                       const int* jc, const int* descc) {
  if (is_ours(descc, desca))
    if (fleet_mpi_grid* const grid = grid_of(descc[kContext]))
      if (is_done("pdsyrk",
                  fleet_mpi_dsyrk(grid, static_cast<fleet_uplo>(lower(uplo)), op(trans), *n, *k,
                                  *alpha, a, *ia, *ja, desca, *beta, c, *ic, *jc, descc)))
        return;
  pass_on("pdsyrk_", uplo, trans, n, k, alpha, a, ia, ja, desca, beta, c, ic, jc, descc);
}

FLEET_API void pdtrsm_(const char* side, const char* uplo, const char* transa, const char* diag,
                       const int* m, const int* n, const double* alpha, const double* a,
                       const int* ia, const int* ja, const int* desca, double* b, const int* ib,
                       const int* jb, const int* descb) {
  if (is_ours(descb, desca))
    if (fleet_mpi_grid* const grid = grid_of(descb[kContext]))
      if (is_done("pdtrsm", fleet_mpi_dtrsm(grid, static_cast<fleet_side>(lower(side)),
                                            static_cast<fleet_uplo>(lower(uplo)), op(transa),
                                            static_cast<fleet_diag>(lower(diag)), *m, *n, *alpha, a,
                                            *ia, *ja, desca, b, *ib, *jb, descb)))
        return;
  pass_on("pdtrsm_", side, uplo, transa, diag, m, n, alpha, a, ia, ja, desca, b, ib, jb, descb);
}

FLEET_API void pdpotrf_(const char* uplo, const int* n, double* a, const int* ia, const int* ja,
                        const int* desca, int* info) {
  if (is_ours(desca))
    if (fleet_mpi_grid* const grid = grid_of(desca[kContext])) {
      int64_t found = 0;
      if (is_done("pdpotrf", fleet_mpi_dpotrf(grid, static_cast<fleet_uplo>(lower(uplo)), *n, a,
                                              *ia, *ja, desca, &found))) {
        *info = static_cast<int>(found);
        return;
      }
    }
  // Fortran's, which is told how long a word is.
  pass_on("pdpotrf_", uplo, n, a, ia, ja, desca, info, std::size_t{1});
}

FLEET_API void pdgetrf_(const int* m, const int* n, double* a, const int* ia, const int* ja,
                        const int* desca, int* ipiv, int* info) {
  if (is_ours(desca))
    if (fleet_mpi_grid* const grid = grid_of(desca[kContext])) {
      int64_t found = 0;
      if (is_done("pdgetrf", fleet_mpi_dgetrf(grid, *m, *n, a, *ia, *ja, desca, ipiv, &found))) {
        *info = static_cast<int>(found);
        return;
      }
    }
  pass_on("pdgetrf_", m, n, a, ia, ja, desca, ipiv, info);
}

FLEET_API void pdgesv_(const int* n, const int* nrhs, double* a, const int* ia, const int* ja,
                       const int* desca, int* ipiv, double* b, const int* ib, const int* jb,
                       const int* descb, int* info) {
  if (is_ours(desca, descb))
    if (fleet_mpi_grid* const grid = grid_of(desca[kContext])) {
      int64_t found = 0;
      if (is_done("pdgesv", fleet_mpi_dgesv(grid, *n, *nrhs, a, *ia, *ja, desca, ipiv, b, *ib, *jb,
                                            descb, &found))) {
        *info = static_cast<int>(found);
        return;
      }
    }
  pass_on("pdgesv_", n, nrhs, a, ia, ja, desca, ipiv, b, ib, jb, descb, info);
}

}  // extern "C"
