// SPDX-License-Identifier: BSD-3-Clause
// names.hpp: every symbol name under which programs call GEMM, in one table. It knows nothing of
// how a call is served.
#pragma once
#include <cstdint>

#include "preload/elements.hpp"

// The names of one type, for an X macro with the columns
//   name       the exported symbol
//   T          element type
//   shape      fortran (everything by reference) or cblas (sizes by value, with a layout)
//   Int        integers: int32_t (LP64) or int64_t (ILP64)
//   xerbla     the Fortran error handler of the same family of names
//   cblas_err  the CBLAS error handler of the same family of names
// Who calls them: plain names, Debian's NumPy, R, Octave, SciPy <= 1.13; `64_`, NumPy 1.26;
// `_64_`, Julia; `_64`, MKL's ILP64 interface; `scipy_`, the wheels of NumPy >= 2 and of
// SciPy >= 1.14. Names without any underscore (`dgemm`) are left alone: libraries have functions
// of their own under them.
#define FLEET_GEMM_NAMES_OF(X, t, T)                                                            \
  X(t##gemm_, T, fortran, std::int32_t, "xerbla_", "cblas_xerbla")                              \
  X(scipy_##t##gemm_, T, fortran, std::int32_t, "scipy_xerbla_", "scipy_cblas_xerbla")          \
  X(t##gemm_64_, T, fortran, std::int64_t, "xerbla_64_", "cblas_xerbla64_")                     \
  X(t##gemm64_, T, fortran, std::int64_t, "xerbla64_", "cblas_xerbla64_")                       \
  X(scipy_##t##gemm_64_, T, fortran, std::int64_t, "scipy_xerbla_64_", "scipy_cblas_xerbla64_") \
  X(cblas_##t##gemm, T, cblas, std::int32_t, "xerbla_", "cblas_xerbla")                         \
  X(scipy_cblas_##t##gemm, T, cblas, std::int32_t, "scipy_xerbla_", "scipy_cblas_xerbla")       \
  X(cblas_##t##gemm64_, T, cblas, std::int64_t, "xerbla_64_", "cblas_xerbla64_")                \
  X(cblas_##t##gemm_64, T, cblas, std::int64_t, "xerbla_64_", "cblas_xerbla_64")                \
  X(scipy_cblas_##t##gemm64_, T, cblas, std::int64_t, "scipy_xerbla_64_", "scipy_cblas_xerbla64_")

#define FLEET_GEMM_NAMES(X)               \
  FLEET_GEMM_NAMES_OF(X, s, float)        \
  FLEET_GEMM_NAMES_OF(X, d, double)       \
  FLEET_GEMM_NAMES_OF(X, c, ComplexFloat) \
  FLEET_GEMM_NAMES_OF(X, z, ComplexDouble)

namespace fleet::preload {

/// A row of the table: k_dgemm_, k_cblas_dgemm64_, ...
enum SymbolId : int {
#define FLEET_ID(name, ...) k_##name,
  FLEET_GEMM_NAMES(FLEET_ID)
#undef FLEET_ID
      kSymbolCount
};

}  // namespace fleet::preload
