// SPDX-License-Identifier: BSD-3-Clause
// lapack_names.hpp: every symbol name under which programs call the routines of LAPACK that are
// served, in one table. It knows nothing of how a call is served.
#pragma once
#include <cstdint>

#include "preload/elements.hpp"

// The names of one routine and type, for an X macro with the columns
//   name      the exported symbol
//   word      the routine in that name, with its type letter
//   routine   what it is: ungqr is LAPACK's word for orgqr in complex types
//   T         element type
//   Int       integers: int32_t (LP64) or int64_t (ILP64)
//   lengths   0, 1 or 2: see FLEET_LENGTHS_2
//   xerbla    the error handler of the same family of names
//   ddot      ddot in the same family
// The families are those of names.hpp. LAPACKE and row-major callers come through these.
#define FLEET_LAPACK_NAMES_OF(X, word, routine, T, lengths)                                   \
  X(word##_, word, routine, T, std::int32_t, lengths, "xerbla_", "ddot_")                     \
  X(scipy_##word##_, word, routine, T, std::int32_t, lengths, "scipy_xerbla_", "scipy_ddot_") \
  X(word##_64_, word, routine, T, std::int64_t, lengths, "xerbla_64_", "ddot_64_")            \
  X(word##64_, word, routine, T, std::int64_t, lengths, "xerbla64_", "ddot64_")               \
  X(scipy_##word##_64_, word, routine, T, std::int64_t, lengths, "scipy_xerbla_64_",          \
    "scipy_ddot_64_")

#define FLEET_LAPACK_NAMES_OF_ALL(X, word, routine, lengths)        \
  FLEET_LAPACK_NAMES_OF(X, s##word, routine, float, lengths)        \
  FLEET_LAPACK_NAMES_OF(X, d##word, routine, double, lengths)       \
  FLEET_LAPACK_NAMES_OF(X, c##word, routine, ComplexFloat, lengths) \
  FLEET_LAPACK_NAMES_OF(X, z##word, routine, ComplexDouble, lengths)
#define FLEET_LAPACK_NAMES_OF_BOTH(X, real_word, complex_word, routine) \
  FLEET_LAPACK_NAMES_OF(X, s##real_word, routine, float, 0)             \
  FLEET_LAPACK_NAMES_OF(X, d##real_word, routine, double, 0)            \
  FLEET_LAPACK_NAMES_OF(X, c##complex_word, routine, ComplexFloat, 0)   \
  FLEET_LAPACK_NAMES_OF(X, z##complex_word, routine, ComplexDouble, 0)

#define FLEET_LAPACK_NAMES(X)                         \
  FLEET_LAPACK_NAMES_OF_ALL(X, getrf, getrf, 0)       \
  FLEET_LAPACK_NAMES_OF_ALL(X, potrf, potrf, 1)       \
  FLEET_LAPACK_NAMES_OF_ALL(X, geqrf, geqrf, 0)       \
  FLEET_LAPACK_NAMES_OF_ALL(X, getrs, getrs, 0)       \
  FLEET_LAPACK_NAMES_OF_ALL(X, potrs, potrs, 0)       \
  FLEET_LAPACK_NAMES_OF_ALL(X, gesv, gesv, 0)         \
  FLEET_LAPACK_NAMES_OF_ALL(X, posv, posv, 0)         \
  FLEET_LAPACK_NAMES_OF_ALL(X, getri, getri, 0)       \
  FLEET_LAPACK_NAMES_OF_ALL(X, potri, potri, 1)       \
  FLEET_LAPACK_NAMES_OF_ALL(X, trtri, trtri, 2)       \
  FLEET_LAPACK_NAMES_OF_ALL(X, trtrs, trtrs, 0)       \
  FLEET_LAPACK_NAMES_OF_ALL(X, lauum, lauum, 1)       \
  FLEET_LAPACK_NAMES_OF_BOTH(X, orgqr, ungqr, orgqr)  \
  FLEET_LAPACK_NAMES_OF_BOTH(X, ormqr, unmqr, ormqr)  \
  FLEET_LAPACK_NAMES_OF_ALL(X, larfb, larfb, 0)       \
  FLEET_LAPACK_NAMES_OF(X, dsgesv, dsgesv, double, 0) \
  FLEET_LAPACK_NAMES_OF(X, zcgesv, zcgesv, ComplexDouble, 0)

// The lengths of flags that may be in registers, since the arguments leave some free (six on
// x86-64, eight on 64-bit ARM): a jump to the LAPACK behind would lose them. Those on the stack
// stay where they are, and an entry does not touch them.
#define FLEET_LENGTHS_0(X, extra)
#define FLEET_LENGTHS_1(X, extra) , X(length, any, extra)
#define FLEET_LENGTHS_2(X, extra) , X(length, any, extra), X(length2, any, extra)

namespace fleet::preload {

/// A row of the table: kl_dgetrf_, kl_scipy_dgesv_64_, ...
enum LapackId : int {
#define FLEET_ID(name, ...) kl_##name,
  FLEET_LAPACK_NAMES(FLEET_ID)
#undef FLEET_ID
      kLapackCount
};

}  // namespace fleet::preload
