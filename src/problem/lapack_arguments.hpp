// SPDX-License-Identifier: BSD-3-Clause
// lapack_arguments.hpp: the arguments of LAPACK's routines in one table, and what LAPACK asks of
// each. It includes nothing, since the drop-in takes it into every program.
#pragma once

// The arguments of a routine in the order of the reference LAPACK, for an X(argument, check,
// extra):
//   argument   its member in a call, one of LapackArg: larfb's V and T are a and b, dsgesv's X is c
//   check      one of LapackCheck. LAPACK checks in the order of the arguments
#define FLEET_LAPACK_getrf(X, extra)                                             \
  X(m, size, extra), X(n, size, extra), X(a, any, extra), X(lda, rows_m, extra), \
      X(ipiv, any, extra), X(info, any, extra)
#define FLEET_LAPACK_potrf(X, extra)                                                \
  X(uplo, flag, extra), X(n, size, extra), X(a, any, extra), X(lda, rows_n, extra), \
      X(info, any, extra)
#define FLEET_LAPACK_geqrf(X, extra)                                             \
  X(m, size, extra), X(n, size, extra), X(a, any, extra), X(lda, rows_m, extra), \
      X(tau, any, extra), X(work, any, extra), X(lwork, room_n, extra), X(info, any, extra)
#define FLEET_LAPACK_getrs(X, extra)                                                       \
  X(trans, flag, extra), X(n, size, extra), X(nrhs, size, extra), X(a, any, extra),        \
      X(lda, rows_n, extra), X(ipiv, any, extra), X(b, any, extra), X(ldb, rows_n, extra), \
      X(info, any, extra)
#define FLEET_LAPACK_potrs(X, extra)                                               \
  X(uplo, flag, extra), X(n, size, extra), X(nrhs, size, extra), X(a, any, extra), \
      X(lda, rows_n, extra), X(b, any, extra), X(ldb, rows_n, extra), X(info, any, extra)
#define FLEET_LAPACK_gesv(X, extra)                                                 \
  X(n, size, extra), X(nrhs, size, extra), X(a, any, extra), X(lda, rows_n, extra), \
      X(ipiv, any, extra), X(b, any, extra), X(ldb, rows_n, extra), X(info, any, extra)
#define FLEET_LAPACK_posv FLEET_LAPACK_potrs
#define FLEET_LAPACK_getri(X, extra)                                               \
  X(n, size, extra), X(a, any, extra), X(lda, rows_n, extra), X(ipiv, any, extra), \
      X(work, any, extra), X(lwork, room_n, extra), X(info, any, extra)
#define FLEET_LAPACK_potri FLEET_LAPACK_potrf
#define FLEET_LAPACK_trtri(X, extra)                                               \
  X(uplo, flag, extra), X(diag, flag, extra), X(n, size, extra), X(a, any, extra), \
      X(lda, rows_n, extra), X(info, any, extra)
#define FLEET_LAPACK_trtrs(X, extra)                                                    \
  X(uplo, flag, extra), X(trans, flag, extra), X(diag, flag, extra), X(n, size, extra), \
      X(nrhs, size, extra), X(a, any, extra), X(lda, rows_n, extra), X(b, any, extra),  \
      X(ldb, rows_n, extra), X(info, any, extra)
#define FLEET_LAPACK_lauum FLEET_LAPACK_potrf
#define FLEET_LAPACK_orgqr(X, extra)                                                           \
  X(m, size, extra), X(n, up_to_m, extra), X(k, up_to_n, extra), X(a, any, extra),             \
      X(lda, rows_m, extra), X(tau, any, extra), X(work, any, extra), X(lwork, room_n, extra), \
      X(info, any, extra)
#define FLEET_LAPACK_ormqr(X, extra)                                                             \
  X(side, flag, extra), X(trans, flag, extra), X(m, size, extra), X(n, size, extra),             \
      X(k, up_to_order, extra), X(a, any, extra), X(lda, rows_order, extra), X(tau, any, extra), \
      X(c, any, extra), X(ldc, rows_m, extra), X(work, any, extra), X(lwork, room_other, extra), \
      X(info, any, extra)
// LAPACK checks nothing of larfb.
#define FLEET_LAPACK_larfb(X, extra)                                                              \
  X(side, any, extra), X(trans, any, extra), X(direct, any, extra), X(storev, any, extra),        \
      X(m, any, extra), X(n, any, extra), X(k, any, extra), X(a, any, extra), X(lda, any, extra), \
      X(b, any, extra), X(ldb, any, extra), X(c, any, extra), X(ldc, any, extra),                 \
      X(work, any, extra), X(lwork, any, extra)
#define FLEET_LAPACK_dsgesv(X, extra)                                                        \
  X(n, size, extra), X(nrhs, size, extra), X(a, any, extra), X(lda, rows_n, extra),          \
      X(ipiv, any, extra), X(b, any, extra), X(ldb, rows_n, extra), X(c, any, extra),        \
      X(ldc, rows_n, extra), X(work, any, extra), X(swork, any, extra), X(iter, any, extra), \
      X(info, any, extra)
#define FLEET_LAPACK_zcgesv(X, extra)                                                         \
  X(n, size, extra), X(nrhs, size, extra), X(a, any, extra), X(lda, rows_n, extra),           \
      X(ipiv, any, extra), X(b, any, extra), X(ldb, rows_n, extra), X(c, any, extra),         \
      X(ldc, rows_n, extra), X(work, any, extra), X(swork, any, extra), X(rwork, any, extra), \
      X(iter, any, extra), X(info, any, extra)

namespace fleet {

enum class LapackArg {
  // flags
  side,
  uplo,
  trans,
  diag,
  direct,
  storev,
  // integers
  m,
  n,
  k,
  nrhs,
  lda,
  ldb,
  ldc,
  lwork,
  // addresses
  a,
  b,
  c,
  tau,
  ipiv,
  work,
  swork,
  rwork,
  iter,
  info,
  // of flags: Fortran callers pass them behind all arguments
  length,
  length2
};

constexpr bool is_flag(LapackArg arg) { return arg <= LapackArg::storev; }
constexpr bool is_integer(LapackArg arg) { return arg >= LapackArg::m && arg <= LapackArg::lwork; }

/// Which values are legal. `order` is the edge of Q: m where it stands left of C, n right of it.
enum class LapackCheck {
  any,
  flag,
  size,     ///< not negative
  up_to_m,  ///< a size, m at most
  up_to_n,
  up_to_order,
  rows_m,  ///< a leading dimension of m rows: max(1, m) at least
  rows_n,
  rows_order,
  room_n,      ///< LWORK: max(1, n) at least, or -1 to ask for the best value
  room_other,  ///< the same of the edge of C that is not the order
};

}  // namespace fleet
