// SPDX-License-Identifier: BSD-3-Clause
// names.hpp: every symbol name under which programs call level 3 of the BLAS, in one table. It
// knows nothing of how a call is served.
#pragma once
#include <cstdint>

#include "preload/routines.hpp"

// The names of one routine and type, for an X macro with the columns
//   name       the exported symbol
//   word       the routine in that name
//   routine    what it is: gemmtr is the reference's word for gemmt
//   T          element type
//   shape      fortran (everything by reference) or cblas (sizes by value, with a layout)
//   Int        integers: int32_t (LP64) or int64_t (ILP64)
//   xerbla     the Fortran error handler of the same family of names
//   cblas_err  the CBLAS error handler of the same family of names
// Who calls them: plain names, Debian's NumPy, R, Octave, SciPy <= 1.13; `64_`, NumPy 1.26;
// `_64_`, Julia; `_64`, MKL's ILP64 interface; `scipy_`, the wheels of NumPy >= 2 and of
// SciPy >= 1.14. Names without any underscore (`dgemm`) are left alone: libraries have functions
// of their own under them.
#define FLEET_NAMES_OF(X, word, routine, t, T)                                                    \
  X(t##word##_, word, routine, T, fortran, std::int32_t, "xerbla_", "cblas_xerbla")               \
  X(scipy_##t##word##_, word, routine, T, fortran, std::int32_t, "scipy_xerbla_",                 \
    "scipy_cblas_xerbla")                                                                         \
  X(t##word##_64_, word, routine, T, fortran, std::int64_t, "xerbla_64_", "cblas_xerbla64_")      \
  X(t##word##64_, word, routine, T, fortran, std::int64_t, "xerbla64_", "cblas_xerbla64_")        \
  X(scipy_##t##word##_64_, word, routine, T, fortran, std::int64_t, "scipy_xerbla_64_",           \
    "scipy_cblas_xerbla64_")                                                                      \
  X(cblas_##t##word, word, routine, T, cblas, std::int32_t, "xerbla_", "cblas_xerbla")            \
  X(scipy_cblas_##t##word, word, routine, T, cblas, std::int32_t, "scipy_xerbla_",                \
    "scipy_cblas_xerbla")                                                                         \
  X(cblas_##t##word##64_, word, routine, T, cblas, std::int64_t, "xerbla_64_", "cblas_xerbla64_") \
  X(cblas_##t##word##_64, word, routine, T, cblas, std::int64_t, "xerbla_64_", "cblas_xerbla_64") \
  X(scipy_cblas_##t##word##64_, word, routine, T, cblas, std::int64_t, "scipy_xerbla_64_",        \
    "scipy_cblas_xerbla64_")

#define FLEET_NAMES_OF_REAL(X, word, routine) \
  FLEET_NAMES_OF(X, word, routine, s, float)  \
  FLEET_NAMES_OF(X, word, routine, d, double)
#define FLEET_NAMES_OF_COMPLEX(X, word, routine)    \
  FLEET_NAMES_OF(X, word, routine, c, ComplexFloat) \
  FLEET_NAMES_OF(X, word, routine, z, ComplexDouble)
#define FLEET_NAMES_OF_ALL(X, word, routine) \
  FLEET_NAMES_OF_REAL(X, word, routine)      \
  FLEET_NAMES_OF_COMPLEX(X, word, routine)

#define FLEET_NAMES(X)                    \
  FLEET_NAMES_OF_ALL(X, gemm, gemm)       \
  FLEET_NAMES_OF_ALL(X, gemmt, gemmt)     \
  FLEET_NAMES_OF_ALL(X, gemmtr, gemmt)    \
  FLEET_NAMES_OF_ALL(X, symm, symm)       \
  FLEET_NAMES_OF_COMPLEX(X, hemm, hemm)   \
  FLEET_NAMES_OF_ALL(X, syrk, syrk)       \
  FLEET_NAMES_OF_COMPLEX(X, herk, herk)   \
  FLEET_NAMES_OF_ALL(X, syr2k, syr2k)     \
  FLEET_NAMES_OF_COMPLEX(X, her2k, her2k) \
  FLEET_NAMES_OF_ALL(X, trmm, trmm)       \
  FLEET_NAMES_OF_ALL(X, trsm, trsm)

namespace fleet::preload {

/// A row of the table: k_dgemm_, k_cblas_dgemm64_, ...
enum SymbolId : int {
#define FLEET_ID(name, ...) k_##name,
  FLEET_NAMES(FLEET_ID)
#undef FLEET_ID
      kSymbolCount
};

/// PrototypeOf<k_dgemm_> is the Prototype of the function of that name.
template <SymbolId kId>
struct PrototypeOfSymbol;
#define FLEET_PROTOTYPE(name, word, routine, T, shape, Int, ...)          \
  template <>                                                             \
  struct PrototypeOfSymbol<k_##name> {                                    \
    using type = Prototype<fleet_dropin_##routine, T, Shape::shape, Int>; \
  };
FLEET_NAMES(FLEET_PROTOTYPE)
#undef FLEET_PROTOTYPE
template <SymbolId kId>
using PrototypeOf = typename PrototypeOfSymbol<kId>::type;

}  // namespace fleet::preload
