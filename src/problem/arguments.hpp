// SPDX-License-Identifier: BSD-3-Clause
// arguments.hpp: the arguments of every routine in one table, for all who take them, number them in
// messages or print them. It includes nothing, since the drop-in takes it into every program.
#pragma once

// The arguments of a routine in the order of the reference BLAS, for an X(argument, name, extra):
//   argument   its member in a call, one of Arg: the operand that a routine writes is c, and the
//              increment of a vector is its leading dimension
//   name       its name in the C API
#define FLEET_ARGUMENTS_gemm(X, extra)                                                            \
  X(transa, transa, extra), X(transb, transb, extra), X(m, m, extra), X(n, n, extra),             \
      X(k, k, extra), X(alpha, alpha, extra), X(a, a, extra), X(lda, lda, extra), X(b, b, extra), \
      X(ldb, ldb, extra), X(beta, beta, extra), X(c, c, extra), X(ldc, ldc, extra)
#define FLEET_ARGUMENTS_gemmt(X, extra)                                                           \
  X(uplo, uplo, extra), X(transa, transa, extra), X(transb, transb, extra), X(n, n, extra),       \
      X(k, k, extra), X(alpha, alpha, extra), X(a, a, extra), X(lda, lda, extra), X(b, b, extra), \
      X(ldb, ldb, extra), X(beta, beta, extra), X(c, c, extra), X(ldc, ldc, extra)
#define FLEET_ARGUMENTS_symm(X, extra)                                            \
  X(side, side, extra), X(uplo, uplo, extra), X(m, m, extra), X(n, n, extra),     \
      X(alpha, alpha, extra), X(a, a, extra), X(lda, lda, extra), X(b, b, extra), \
      X(ldb, ldb, extra), X(beta, beta, extra), X(c, c, extra), X(ldc, ldc, extra)
#define FLEET_ARGUMENTS_hemm FLEET_ARGUMENTS_symm
#define FLEET_ARGUMENTS_syrk(X, extra)                                                  \
  X(uplo, uplo, extra), X(transa, trans, extra), X(n, n, extra), X(k, k, extra),        \
      X(alpha, alpha, extra), X(a, a, extra), X(lda, lda, extra), X(beta, beta, extra), \
      X(c, c, extra), X(ldc, ldc, extra)
#define FLEET_ARGUMENTS_herk FLEET_ARGUMENTS_syrk
#define FLEET_ARGUMENTS_syr2k(X, extra)                                           \
  X(uplo, uplo, extra), X(transa, trans, extra), X(n, n, extra), X(k, k, extra),  \
      X(alpha, alpha, extra), X(a, a, extra), X(lda, lda, extra), X(b, b, extra), \
      X(ldb, ldb, extra), X(beta, beta, extra), X(c, c, extra), X(ldc, ldc, extra)
#define FLEET_ARGUMENTS_her2k FLEET_ARGUMENTS_syr2k
#define FLEET_ARGUMENTS_trmm(X, extra)                                                            \
  X(side, side, extra), X(uplo, uplo, extra), X(transa, transa, extra), X(diag, diag, extra),     \
      X(m, m, extra), X(n, n, extra), X(alpha, alpha, extra), X(a, a, extra), X(lda, lda, extra), \
      X(c, b, extra), X(ldc, ldb, extra)
#define FLEET_ARGUMENTS_trsm FLEET_ARGUMENTS_trmm
#define FLEET_ARGUMENTS_gemv(X, extra)                                                             \
  X(transa, trans, extra), X(m, m, extra), X(n, n, extra), X(alpha, alpha, extra), X(a, a, extra), \
      X(lda, lda, extra), X(b, x, extra), X(ldb, incx, extra), X(beta, beta, extra),               \
      X(c, y, extra), X(ldc, incy, extra)
#define FLEET_ARGUMENTS_axpy(X, extra)                                                         \
  X(n, n, extra), X(alpha, alpha, extra), X(a, x, extra), X(lda, incx, extra), X(c, y, extra), \
      X(ldc, incy, extra)
#define FLEET_ARGUMENTS_dot(X, extra)                                                       \
  X(n, n, extra), X(a, x, extra), X(lda, incx, extra), X(b, y, extra), X(ldb, incy, extra), \
      X(c, result, extra)

// Other forms of gemm, in the C API only.
#define FLEET_ARGUMENTS_gemm_strided_batched(X, extra)                                        \
  X(transa, transa, extra), X(transb, transb, extra), X(m, m, extra), X(n, n, extra),         \
      X(k, k, extra), X(alpha, alpha, extra), X(a, a, extra), X(lda, lda, extra),             \
      X(stride_a, stride_a, extra), X(b, b, extra), X(ldb, ldb, extra),                       \
      X(stride_b, stride_b, extra), X(beta, beta, extra), X(c, c, extra), X(ldc, ldc, extra), \
      X(stride_c, stride_c, extra), X(batch, batch, extra)
#define FLEET_ARGUMENTS_gemm_ex(X, extra)                                               \
  X(transa, transa, extra), X(transb, transb, extra), X(m, m, extra), X(n, n, extra),   \
      X(k, k, extra), X(alpha, alpha, extra), X(a, a, extra), X(atype, atype, extra),   \
      X(lda, lda, extra), X(b, b, extra), X(btype, btype, extra), X(ldb, ldb, extra),   \
      X(beta, beta, extra), X(c, c, extra), X(ctype, ctype, extra), X(ldc, ldc, extra), \
      X(compute, compute, extra)
#define FLEET_ARGUMENTS_gemm_strided_batched_ex(X, extra)                                       \
  X(transa, transa, extra), X(transb, transb, extra), X(m, m, extra), X(n, n, extra),           \
      X(k, k, extra), X(alpha, alpha, extra), X(a, a, extra), X(atype, atype, extra),           \
      X(lda, lda, extra), X(stride_a, stride_a, extra), X(b, b, extra), X(btype, btype, extra), \
      X(ldb, ldb, extra), X(stride_b, stride_b, extra), X(beta, beta, extra), X(c, c, extra),   \
      X(ctype, ctype, extra), X(ldc, ldc, extra), X(stride_c, stride_c, extra),                 \
      X(batch, batch, extra), X(compute, compute, extra)

// The same on matrices, which know their sizes and leading dimensions (fleet_dgemm_async).
#define FLEET_ASYNC_gemm(X, extra)                                                            \
  X(transa, transa, extra), X(transb, transb, extra), X(alpha, alpha, extra), X(a, a, extra), \
      X(b, b, extra), X(beta, beta, extra), X(c, c, extra)
#define FLEET_ASYNC_gemmt(X, extra) X(uplo, uplo, extra), FLEET_ASYNC_gemm(X, extra)
#define FLEET_ASYNC_symm(X, extra)                                                    \
  X(side, side, extra), X(uplo, uplo, extra), X(alpha, alpha, extra), X(a, a, extra), \
      X(b, b, extra), X(beta, beta, extra), X(c, c, extra)
#define FLEET_ASYNC_hemm FLEET_ASYNC_symm
#define FLEET_ASYNC_syrk(X, extra)                                                       \
  X(uplo, uplo, extra), X(transa, trans, extra), X(alpha, alpha, extra), X(a, a, extra), \
      X(beta, beta, extra), X(c, c, extra)
#define FLEET_ASYNC_herk FLEET_ASYNC_syrk
#define FLEET_ASYNC_syr2k(X, extra)                                                      \
  X(uplo, uplo, extra), X(transa, trans, extra), X(alpha, alpha, extra), X(a, a, extra), \
      X(b, b, extra), X(beta, beta, extra), X(c, c, extra)
#define FLEET_ASYNC_her2k FLEET_ASYNC_syr2k
#define FLEET_ASYNC_trmm(X, extra)                                                            \
  X(side, side, extra), X(uplo, uplo, extra), X(transa, transa, extra), X(diag, diag, extra), \
      X(alpha, alpha, extra), X(a, a, extra), X(c, b, extra)
#define FLEET_ASYNC_trsm FLEET_ASYNC_trmm
#define FLEET_ASYNC_gemv(X, extra)                                                 \
  X(transa, trans, extra), X(alpha, alpha, extra), X(a, a, extra), X(b, x, extra), \
      X(beta, beta, extra), X(c, y, extra)
#define FLEET_ASYNC_axpy(X, extra) X(alpha, alpha, extra), X(a, x, extra), X(c, y, extra)
#define FLEET_ASYNC_dot(X, extra) X(a, x, extra), X(b, y, extra), X(c, result, extra)

namespace fleet {

enum class Arg {
  // flags
  side,
  uplo,
  transa,
  transb,
  diag,
  // types
  atype,
  btype,
  ctype,
  compute,
  // integers: sizes, then what steps through operands
  m,
  n,
  k,
  batch,
  lda,
  ldb,
  ldc,
  stride_a,
  stride_b,
  stride_c,
  // addresses
  alpha,
  beta,
  a,
  b,
  c
};

constexpr bool is_flag(Arg arg) { return arg <= Arg::diag; }
constexpr bool is_type(Arg arg) { return arg >= Arg::atype && arg <= Arg::compute; }
constexpr bool is_size(Arg arg) { return arg >= Arg::m && arg <= Arg::k; }
constexpr bool is_scalar(Arg arg) { return arg == Arg::alpha || arg == Arg::beta; }
constexpr bool is_matrix(Arg arg) { return arg >= Arg::a; }

}  // namespace fleet
