/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lapack.h: factorizations, equations and inverses on all the devices of a node. C99. They mean
 * what LAPACK's routines of the same names mean; fleetblas.h says what holds for all functions.
 *
 * Matrices are column-major, in host memory or in the memory of any one device each, as for level 3
 * (fleetblas.h). All sizes and leading dimensions are int64_t, in elements; a matrix with r rows
 * has a leading dimension of at least max(1, r). Of a triangle the opposite one is neither read nor
 * written. c and z functions take matrices and tau as void*: (re, im) pairs. ipiv, tau, info and
 * iter are in host memory, and pivots count from 1.
 *
 * A block-cyclic matrix on several devices is given by its host memory (fleet_matrix_data). potrf
 * of the lower triangle, getrf and geqrf factor it on its devices, where these have room for it
 * once more, and leave it there; where they have not, and for all else, it comes home.
 *
 * `*info` is 0, or LAPACK's positive info, which is no error: the function returns FLEET_OK. It is
 * set whenever that is returned, and may not be NULL.
 *
 * Each function returns FLEET_OK, or
 *   FLEET_BAD_ARGUMENT   an argument is illegal; fleet_message() names it; nothing was touched
 *   FLEET_NO_MEMORY      the host has no memory for a workspace; nothing was touched
 *   FLEET_DEVICE_FAILED  what the function writes is undefined
 */
#ifndef FLEETBLAS_LAPACK_H
#define FLEETBLAS_LAPACK_H
#include <stdint.h>

#include "fleetblas/fleetblas.h"

#ifdef __cplusplus
extern "C" {
#endif

/*   potrf   A = L*L^H (FLEET_LOWER) or U^H*U: A Hermitian (symmetric), n x n, in one triangle,
 *           which the factor takes. *info = i: the leading minor of order i is not positive
 *           definite, and the factorization ended there */
FLEET_API fleet_status fleet_spotrf(fleet_context* context, fleet_uplo uplo, int64_t n, float* a,
                                    int64_t lda, int64_t* info);
FLEET_API fleet_status fleet_dpotrf(fleet_context* context, fleet_uplo uplo, int64_t n, double* a,
                                    int64_t lda, int64_t* info);
FLEET_API fleet_status fleet_cpotrf(fleet_context* context, fleet_uplo uplo, int64_t n, void* a,
                                    int64_t lda, int64_t* info);
FLEET_API fleet_status fleet_zpotrf(fleet_context* context, fleet_uplo uplo, int64_t n, void* a,
                                    int64_t lda, int64_t* info);

/*   getrf   A = P*L*U, m x n: L below the diagonal, with ones on it, U above; row i was
 *           exchanged with row ipiv[i-1], rows counted from 1, for i = 1, 2, ..., min(m, n).
 *           *info = i: U(i, i) is exactly 0, and equations cannot be solved with it */
FLEET_API fleet_status fleet_sgetrf(fleet_context* context, int64_t m, int64_t n, float* a,
                                    int64_t lda, int64_t* ipiv, int64_t* info);
FLEET_API fleet_status fleet_dgetrf(fleet_context* context, int64_t m, int64_t n, double* a,
                                    int64_t lda, int64_t* ipiv, int64_t* info);
FLEET_API fleet_status fleet_cgetrf(fleet_context* context, int64_t m, int64_t n, void* a,
                                    int64_t lda, int64_t* ipiv, int64_t* info);
FLEET_API fleet_status fleet_zgetrf(fleet_context* context, int64_t m, int64_t n, void* a,
                                    int64_t lda, int64_t* ipiv, int64_t* info);

/* The steps of getrf, for programs that deal the columns of a matrix over devices or processes
 * themselves: the owner of some columns makes a panel of them, and all that have columns to the
 * right, in the same rows, apply it there. What a function takes lies in one place, on one device
 * or in host memory, and is computed there at once; a panel may be copied, as bytes, to any other
 * place of the same kind.
 *
 *   panel_bytes    the size of a panel of m x n elements of a type, m >= n
 *   getrf_panel    as getrf, in the place of A, m x n with m >= n; and makes the panel, in memory
 *                  that is aligned as fleet_alloc's is
 *   getrf_pivots   the n pivots of the panel, by its first row as 1, and getrf's info
 *   getrf_apply    C, m x k: its rows are exchanged as ipiv says, the first n become L1^-1 times
 *                  themselves, and the others lose L2 times these: L1 and L2 are the panel's L in
 *                  its first n rows and in the others
 *
 * FLEET_UNSUPPORTED: operands lie in different places, or the device has no room in its registers
 * for a column of m elements (hundreds of thousands). */
FLEET_API fleet_status fleet_getrf_panel_bytes(fleet_type type, int64_t m, int64_t n,
                                               int64_t* bytes);
FLEET_API fleet_status fleet_sgetrf_panel(fleet_context* context, int64_t m, int64_t n, float* a,
                                          int64_t lda, void* panel);
FLEET_API fleet_status fleet_sgetrf_pivots(fleet_context* context, int64_t m, int64_t n,
                                           const void* panel, int64_t* ipiv, int64_t* info);
FLEET_API fleet_status fleet_sgetrf_apply(fleet_context* context, int64_t m, int64_t n,
                                          const void* panel, int64_t k, float* c, int64_t ldc);
FLEET_API fleet_status fleet_dgetrf_panel(fleet_context* context, int64_t m, int64_t n, double* a,
                                          int64_t lda, void* panel);
FLEET_API fleet_status fleet_dgetrf_pivots(fleet_context* context, int64_t m, int64_t n,
                                           const void* panel, int64_t* ipiv, int64_t* info);
FLEET_API fleet_status fleet_dgetrf_apply(fleet_context* context, int64_t m, int64_t n,
                                          const void* panel, int64_t k, double* c, int64_t ldc);
FLEET_API fleet_status fleet_cgetrf_panel(fleet_context* context, int64_t m, int64_t n, void* a,
                                          int64_t lda, void* panel);
FLEET_API fleet_status fleet_cgetrf_pivots(fleet_context* context, int64_t m, int64_t n,
                                           const void* panel, int64_t* ipiv, int64_t* info);
FLEET_API fleet_status fleet_cgetrf_apply(fleet_context* context, int64_t m, int64_t n,
                                          const void* panel, int64_t k, void* c, int64_t ldc);
FLEET_API fleet_status fleet_zgetrf_panel(fleet_context* context, int64_t m, int64_t n, void* a,
                                          int64_t lda, void* panel);
FLEET_API fleet_status fleet_zgetrf_pivots(fleet_context* context, int64_t m, int64_t n,
                                           const void* panel, int64_t* ipiv, int64_t* info);
FLEET_API fleet_status fleet_zgetrf_apply(fleet_context* context, int64_t m, int64_t n,
                                          const void* panel, int64_t k, void* c, int64_t ldc);

/* The same for programs that deal the rows of a matrix too, and exchange them by messages.
 *
 *   lacpy         B := A, m x n, each in any place
 *   pack_rows     row i of P := row rows[i - 1] of A, m x n, for i = 1 to k; rows are counted
 *                 from 1, and the n elements of row i of P lie one after another from
 *                 p[(i - 1) * ldp] on, ldp >= n
 *   unpack_rows   row rows[i - 1] of A := row i of P; none may be named twice
 *   getrf_update  what getrf_apply does once rows are exchanged: U, n x k, becomes L1^-1 times
 *                 itself, and C, (m - n) x k, loses L2 times U. L1, a unit lower triangle, and L2
 *                 are the first n rows of L, m x n with m >= n, and the others
 *
 * A, P and the numbers of rows lie in one place, and so do L, U and C, as the operands of
 * getrf_apply. Numbers that are no rows of A are not noticed. */
FLEET_API fleet_status fleet_slacpy(fleet_context* context, int64_t m, int64_t n, const float* a,
                                    int64_t lda, float* b, int64_t ldb);
FLEET_API fleet_status fleet_spack_rows(fleet_context* context, int64_t k, const int64_t* rows,
                                        int64_t m, int64_t n, const float* a, int64_t lda, float* p,
                                        int64_t ldp);
FLEET_API fleet_status fleet_sunpack_rows(fleet_context* context, int64_t k, const int64_t* rows,
                                          int64_t m, int64_t n, float* a, int64_t lda,
                                          const float* p, int64_t ldp);
FLEET_API fleet_status fleet_sgetrf_update(fleet_context* context, int64_t m, int64_t n,
                                           const float* l, int64_t ldl, int64_t k, float* u,
                                           int64_t ldu, float* c, int64_t ldc);
FLEET_API fleet_status fleet_dlacpy(fleet_context* context, int64_t m, int64_t n, const double* a,
                                    int64_t lda, double* b, int64_t ldb);
FLEET_API fleet_status fleet_dpack_rows(fleet_context* context, int64_t k, const int64_t* rows,
                                        int64_t m, int64_t n, const double* a, int64_t lda,
                                        double* p, int64_t ldp);
FLEET_API fleet_status fleet_dunpack_rows(fleet_context* context, int64_t k, const int64_t* rows,
                                          int64_t m, int64_t n, double* a, int64_t lda,
                                          const double* p, int64_t ldp);
FLEET_API fleet_status fleet_dgetrf_update(fleet_context* context, int64_t m, int64_t n,
                                           const double* l, int64_t ldl, int64_t k, double* u,
                                           int64_t ldu, double* c, int64_t ldc);
FLEET_API fleet_status fleet_clacpy(fleet_context* context, int64_t m, int64_t n, const void* a,
                                    int64_t lda, void* b, int64_t ldb);
FLEET_API fleet_status fleet_cpack_rows(fleet_context* context, int64_t k, const int64_t* rows,
                                        int64_t m, int64_t n, const void* a, int64_t lda, void* p,
                                        int64_t ldp);
FLEET_API fleet_status fleet_cunpack_rows(fleet_context* context, int64_t k, const int64_t* rows,
                                          int64_t m, int64_t n, void* a, int64_t lda, const void* p,
                                          int64_t ldp);
FLEET_API fleet_status fleet_cgetrf_update(fleet_context* context, int64_t m, int64_t n,
                                           const void* l, int64_t ldl, int64_t k, void* u,
                                           int64_t ldu, void* c, int64_t ldc);
FLEET_API fleet_status fleet_zlacpy(fleet_context* context, int64_t m, int64_t n, const void* a,
                                    int64_t lda, void* b, int64_t ldb);
FLEET_API fleet_status fleet_zpack_rows(fleet_context* context, int64_t k, const int64_t* rows,
                                        int64_t m, int64_t n, const void* a, int64_t lda, void* p,
                                        int64_t ldp);
FLEET_API fleet_status fleet_zunpack_rows(fleet_context* context, int64_t k, const int64_t* rows,
                                          int64_t m, int64_t n, void* a, int64_t lda, const void* p,
                                          int64_t ldp);
FLEET_API fleet_status fleet_zgetrf_update(fleet_context* context, int64_t m, int64_t n,
                                           const void* l, int64_t ldl, int64_t k, void* u,
                                           int64_t ldu, void* c, int64_t ldc);

/*   geqrf   A = Q*R, m x n: R on and above the diagonal. Q = H(1)*H(2)*...*H(k), k = min(m, n),
 *           with H(i) = 1 - tau[i-1]*v*v^H: v is 0 above element i, which is 1, and below the
 *           diagonal of A's column i */
FLEET_API fleet_status fleet_sgeqrf(fleet_context* context, int64_t m, int64_t n, float* a,
                                    int64_t lda, float* tau);
FLEET_API fleet_status fleet_dgeqrf(fleet_context* context, int64_t m, int64_t n, double* a,
                                    int64_t lda, double* tau);
FLEET_API fleet_status fleet_cgeqrf(fleet_context* context, int64_t m, int64_t n, void* a,
                                    int64_t lda, void* tau);
FLEET_API fleet_status fleet_zgeqrf(fleet_context* context, int64_t m, int64_t n, void* a,
                                    int64_t lda, void* tau);

/* Equations A*X = B with n unknowns and nrhs right sides. X takes the place of B.
 *
 *   potrs   by what potrf left in A
 *   getrs   op(A)*X = B by what getrf left in A and ipiv
 *   posv    potrf, then potrs; B is untouched where *info > 0
 *   gesv    getrf, then getrs; B is untouched where *info > 0
 *   trtrs   op(A)*X = B with A triangular. *info = i: A(i, i) is exactly 0, and B is untouched */
FLEET_API fleet_status fleet_spotrs(fleet_context* context, fleet_uplo uplo, int64_t n,
                                    int64_t nrhs, const float* a, int64_t lda, float* b,
                                    int64_t ldb);
FLEET_API fleet_status fleet_dpotrs(fleet_context* context, fleet_uplo uplo, int64_t n,
                                    int64_t nrhs, const double* a, int64_t lda, double* b,
                                    int64_t ldb);
FLEET_API fleet_status fleet_cpotrs(fleet_context* context, fleet_uplo uplo, int64_t n,
                                    int64_t nrhs, const void* a, int64_t lda, void* b, int64_t ldb);
FLEET_API fleet_status fleet_zpotrs(fleet_context* context, fleet_uplo uplo, int64_t n,
                                    int64_t nrhs, const void* a, int64_t lda, void* b, int64_t ldb);
FLEET_API fleet_status fleet_sgetrs(fleet_context* context, fleet_op trans, int64_t n, int64_t nrhs,
                                    const float* a, int64_t lda, const int64_t* ipiv, float* b,
                                    int64_t ldb);
FLEET_API fleet_status fleet_dgetrs(fleet_context* context, fleet_op trans, int64_t n, int64_t nrhs,
                                    const double* a, int64_t lda, const int64_t* ipiv, double* b,
                                    int64_t ldb);
FLEET_API fleet_status fleet_cgetrs(fleet_context* context, fleet_op trans, int64_t n, int64_t nrhs,
                                    const void* a, int64_t lda, const int64_t* ipiv, void* b,
                                    int64_t ldb);
FLEET_API fleet_status fleet_zgetrs(fleet_context* context, fleet_op trans, int64_t n, int64_t nrhs,
                                    const void* a, int64_t lda, const int64_t* ipiv, void* b,
                                    int64_t ldb);
FLEET_API fleet_status fleet_sposv(fleet_context* context, fleet_uplo uplo, int64_t n, int64_t nrhs,
                                   float* a, int64_t lda, float* b, int64_t ldb, int64_t* info);
FLEET_API fleet_status fleet_dposv(fleet_context* context, fleet_uplo uplo, int64_t n, int64_t nrhs,
                                   double* a, int64_t lda, double* b, int64_t ldb, int64_t* info);
FLEET_API fleet_status fleet_cposv(fleet_context* context, fleet_uplo uplo, int64_t n, int64_t nrhs,
                                   void* a, int64_t lda, void* b, int64_t ldb, int64_t* info);
FLEET_API fleet_status fleet_zposv(fleet_context* context, fleet_uplo uplo, int64_t n, int64_t nrhs,
                                   void* a, int64_t lda, void* b, int64_t ldb, int64_t* info);
FLEET_API fleet_status fleet_sgesv(fleet_context* context, int64_t n, int64_t nrhs, float* a,
                                   int64_t lda, int64_t* ipiv, float* b, int64_t ldb,
                                   int64_t* info);
FLEET_API fleet_status fleet_dgesv(fleet_context* context, int64_t n, int64_t nrhs, double* a,
                                   int64_t lda, int64_t* ipiv, double* b, int64_t ldb,
                                   int64_t* info);
FLEET_API fleet_status fleet_cgesv(fleet_context* context, int64_t n, int64_t nrhs, void* a,
                                   int64_t lda, int64_t* ipiv, void* b, int64_t ldb, int64_t* info);
FLEET_API fleet_status fleet_zgesv(fleet_context* context, int64_t n, int64_t nrhs, void* a,
                                   int64_t lda, int64_t* ipiv, void* b, int64_t ldb, int64_t* info);
FLEET_API fleet_status fleet_strtrs(fleet_context* context, fleet_uplo uplo, fleet_op trans,
                                    fleet_diag diag, int64_t n, int64_t nrhs, const float* a,
                                    int64_t lda, float* b, int64_t ldb, int64_t* info);
FLEET_API fleet_status fleet_dtrtrs(fleet_context* context, fleet_uplo uplo, fleet_op trans,
                                    fleet_diag diag, int64_t n, int64_t nrhs, const double* a,
                                    int64_t lda, double* b, int64_t ldb, int64_t* info);
FLEET_API fleet_status fleet_ctrtrs(fleet_context* context, fleet_uplo uplo, fleet_op trans,
                                    fleet_diag diag, int64_t n, int64_t nrhs, const void* a,
                                    int64_t lda, void* b, int64_t ldb, int64_t* info);
FLEET_API fleet_status fleet_ztrtrs(fleet_context* context, fleet_uplo uplo, fleet_op trans,
                                    fleet_diag diag, int64_t n, int64_t nrhs, const void* a,
                                    int64_t lda, void* b, int64_t ldb, int64_t* info);

/* op(A)*X = B with n unknowns and nrhs right sides. A is only read: the factors of a matrix on the
 * host stay on the devices that make them, which solve with them, so that nothing but X comes back.
 * They come to memory of the library on the host, as those of a matrix on devices do, where the
 * devices lack memory: together for all of them, and where nrhs is more than n / 64, each for all
 * of them. X, n x nrhs, may be B. X is untouched where *info > 0, which getrf defines. */
FLEET_API fleet_status fleet_ssolve(fleet_context* context, fleet_op trans, int64_t n, int64_t nrhs,
                                    const float* a, int64_t lda, const float* b, int64_t ldb,
                                    float* x, int64_t ldx, int64_t* info);
FLEET_API fleet_status fleet_dsolve(fleet_context* context, fleet_op trans, int64_t n, int64_t nrhs,
                                    const double* a, int64_t lda, const double* b, int64_t ldb,
                                    double* x, int64_t ldx, int64_t* info);
FLEET_API fleet_status fleet_csolve(fleet_context* context, fleet_op trans, int64_t n, int64_t nrhs,
                                    const void* a, int64_t lda, const void* b, int64_t ldb, void* x,
                                    int64_t ldx, int64_t* info);
FLEET_API fleet_status fleet_zsolve(fleet_context* context, fleet_op trans, int64_t n, int64_t nrhs,
                                    const void* a, int64_t lda, const void* b, int64_t ldb, void* x,
                                    int64_t ldx, int64_t* info);

/* X := A^-1, n x n, as by solve with all columns of the unit matrix. A is only read, unless X is A:
 * then the factors come home, and getri makes the inverse of them. Where *info > 0, which getrf
 * defines, X holds nothing of use. */
FLEET_API fleet_status fleet_sinverse(fleet_context* context, int64_t n, const float* a,
                                      int64_t lda, float* x, int64_t ldx, int64_t* info);
FLEET_API fleet_status fleet_dinverse(fleet_context* context, int64_t n, const double* a,
                                      int64_t lda, double* x, int64_t ldx, int64_t* info);
FLEET_API fleet_status fleet_cinverse(fleet_context* context, int64_t n, const void* a, int64_t lda,
                                      void* x, int64_t ldx, int64_t* info);
FLEET_API fleet_status fleet_zinverse(fleet_context* context, int64_t n, const void* a, int64_t lda,
                                      void* x, int64_t ldx, int64_t* info);

/* The determinant of A, n x n, which is read as by solve: *sign * exp(*logabs). The sign of a
 * complex one is a number of modulus 1. 0 and minus infinity: A is singular by getrf's factors. */
FLEET_API fleet_status fleet_sslogdet(fleet_context* context, int64_t n, const float* a,
                                      int64_t lda, float* sign, double* logabs);
FLEET_API fleet_status fleet_dslogdet(fleet_context* context, int64_t n, const double* a,
                                      int64_t lda, double* sign, double* logabs);
FLEET_API fleet_status fleet_cslogdet(fleet_context* context, int64_t n, const void* a, int64_t lda,
                                      void* sign, double* logabs);
FLEET_API fleet_status fleet_zslogdet(fleet_context* context, int64_t n, const void* a, int64_t lda,
                                      void* sign, double* logabs);

/* A*X = B as gesv, with factors in single precision, and X, n x nrhs, refined by residuals in
 * double until its backward error is that of gesv (LAPACK's dsgesv and zcgesv). B is not
 * changed. Where the model expects devices to be faster and these have memory for A in both
 * precisions, A goes there once: it is narrowed and factored there, and so are solutions and
 * residuals computed. Factors may then have the errors of 22 instead of 24 bits. Else A is
 * narrowed on the host, and factors and residuals are calls as others are.
 *
 *   *iter >= 0   so many refinements; A is not changed, and ipiv belongs to the factors in
 *                single precision
 *   *iter < 0    done in double as gesv does it: A and ipiv have those factors. -1: there was
 *                no memory for factors in single precision; -2: an element is beyond what
 *                these hold; -3: A was singular in them; -31: no convergence in 30 refinements,
 *                or a residual that is not finite */
FLEET_API fleet_status fleet_dsgesv(fleet_context* context, int64_t n, int64_t nrhs, double* a,
                                    int64_t lda, int64_t* ipiv, const double* b, int64_t ldb,
                                    double* x, int64_t ldx, int64_t* iter, int64_t* info);
FLEET_API fleet_status fleet_zcgesv(fleet_context* context, int64_t n, int64_t nrhs, void* a,
                                    int64_t lda, int64_t* ipiv, const void* b, int64_t ldb, void* x,
                                    int64_t ldx, int64_t* iter, int64_t* info);

/* Inverses, in the place of A, n x n.
 *
 *   trtri   of a triangular A. *info = i: A(i, i) is exactly 0, and A is untouched
 *   getri   of the matrix that getrf left in A and ipiv. *info = i: U(i, i) is exactly 0;
 *           untouched
 *   potri   of the matrix that potrf left in A: its triangle. *info as trtri's
 *   lauum   no inverse: U*U^H (FLEET_UPPER) or L^H*L in the place of the triangle, as potri
 *           needs */
FLEET_API fleet_status fleet_strtri(fleet_context* context, fleet_uplo uplo, fleet_diag diag,
                                    int64_t n, float* a, int64_t lda, int64_t* info);
FLEET_API fleet_status fleet_dtrtri(fleet_context* context, fleet_uplo uplo, fleet_diag diag,
                                    int64_t n, double* a, int64_t lda, int64_t* info);
FLEET_API fleet_status fleet_ctrtri(fleet_context* context, fleet_uplo uplo, fleet_diag diag,
                                    int64_t n, void* a, int64_t lda, int64_t* info);
FLEET_API fleet_status fleet_ztrtri(fleet_context* context, fleet_uplo uplo, fleet_diag diag,
                                    int64_t n, void* a, int64_t lda, int64_t* info);
FLEET_API fleet_status fleet_sgetri(fleet_context* context, int64_t n, float* a, int64_t lda,
                                    const int64_t* ipiv, int64_t* info);
FLEET_API fleet_status fleet_dgetri(fleet_context* context, int64_t n, double* a, int64_t lda,
                                    const int64_t* ipiv, int64_t* info);
FLEET_API fleet_status fleet_cgetri(fleet_context* context, int64_t n, void* a, int64_t lda,
                                    const int64_t* ipiv, int64_t* info);
FLEET_API fleet_status fleet_zgetri(fleet_context* context, int64_t n, void* a, int64_t lda,
                                    const int64_t* ipiv, int64_t* info);
FLEET_API fleet_status fleet_spotri(fleet_context* context, fleet_uplo uplo, int64_t n, float* a,
                                    int64_t lda, int64_t* info);
FLEET_API fleet_status fleet_dpotri(fleet_context* context, fleet_uplo uplo, int64_t n, double* a,
                                    int64_t lda, int64_t* info);
FLEET_API fleet_status fleet_cpotri(fleet_context* context, fleet_uplo uplo, int64_t n, void* a,
                                    int64_t lda, int64_t* info);
FLEET_API fleet_status fleet_zpotri(fleet_context* context, fleet_uplo uplo, int64_t n, void* a,
                                    int64_t lda, int64_t* info);
FLEET_API fleet_status fleet_slauum(fleet_context* context, fleet_uplo uplo, int64_t n, float* a,
                                    int64_t lda);
FLEET_API fleet_status fleet_dlauum(fleet_context* context, fleet_uplo uplo, int64_t n, double* a,
                                    int64_t lda);
FLEET_API fleet_status fleet_clauum(fleet_context* context, fleet_uplo uplo, int64_t n, void* a,
                                    int64_t lda);
FLEET_API fleet_status fleet_zlauum(fleet_context* context, fleet_uplo uplo, int64_t n, void* a,
                                    int64_t lda);

/* The first n columns of Q = H(1)*...*H(k), m x n with m >= n >= k, in the place of the
 * reflectors that geqrf left in A. */
FLEET_API fleet_status fleet_sorgqr(fleet_context* context, int64_t m, int64_t n, int64_t k,
                                    float* a, int64_t lda, const float* tau);
FLEET_API fleet_status fleet_dorgqr(fleet_context* context, int64_t m, int64_t n, int64_t k,
                                    double* a, int64_t lda, const double* tau);
FLEET_API fleet_status fleet_cungqr(fleet_context* context, int64_t m, int64_t n, int64_t k,
                                    void* a, int64_t lda, const void* tau);
FLEET_API fleet_status fleet_zungqr(fleet_context* context, int64_t m, int64_t n, int64_t k,
                                    void* a, int64_t lda, const void* tau);

/* C := op(Q)*C (FLEET_LEFT) or C*op(Q), C m x n, with Q = H(1)*...*H(k) of order m or n
 * (FLEET_RIGHT) as geqrf left it in the first k columns of A. op(Q) is Q or Q^H: FLEET_TRANS is
 * illegal for c and z, and FLEET_CONJ_TRANS is the same for s and d. */
FLEET_API fleet_status fleet_sormqr(fleet_context* context, fleet_side side, fleet_op trans,
                                    int64_t m, int64_t n, int64_t k, const float* a, int64_t lda,
                                    const float* tau, float* c, int64_t ldc);
FLEET_API fleet_status fleet_dormqr(fleet_context* context, fleet_side side, fleet_op trans,
                                    int64_t m, int64_t n, int64_t k, const double* a, int64_t lda,
                                    const double* tau, double* c, int64_t ldc);
FLEET_API fleet_status fleet_cunmqr(fleet_context* context, fleet_side side, fleet_op trans,
                                    int64_t m, int64_t n, int64_t k, const void* a, int64_t lda,
                                    const void* tau, void* c, int64_t ldc);
FLEET_API fleet_status fleet_zunmqr(fleet_context* context, fleet_side side, fleet_op trans,
                                    int64_t m, int64_t n, int64_t k, const void* a, int64_t lda,
                                    const void* tau, void* c, int64_t ldc);

/* In which order reflectors are multiplied, and whether they are the columns of V or its rows. */
typedef enum fleet_direct { FLEET_FORWARD = 'f', FLEET_BACKWARD = 'b' } fleet_direct;
typedef enum fleet_storev { FLEET_COLUMNWISE = 'c', FLEET_ROWWISE = 'r' } fleet_storev;

/* C := op(H)*C (FLEET_LEFT) or C*op(H), C m x n, with k reflectors at once: H = 1 - V*T*V^H, V
 * having them as its columns (V^H*T*V as its rows). V is m x k or n x k (FLEET_RIGHT), for
 * FLEET_ROWWISE its transpose. T, k x k, is an upper triangle for FLEET_FORWARD, where element
 * i of reflector i is 1 and those before it are 0, and a lower triangle for FLEET_BACKWARD,
 * where the last k elements are a unit triangle. Ones and zeros of V are not read. op as in
 * ormqr. */
FLEET_API fleet_status fleet_slarfb(fleet_context* context, fleet_side side, fleet_op trans,
                                    fleet_direct direct, fleet_storev storev, int64_t m, int64_t n,
                                    int64_t k, const float* v, int64_t ldv, const float* t,
                                    int64_t ldt, float* c, int64_t ldc);
FLEET_API fleet_status fleet_dlarfb(fleet_context* context, fleet_side side, fleet_op trans,
                                    fleet_direct direct, fleet_storev storev, int64_t m, int64_t n,
                                    int64_t k, const double* v, int64_t ldv, const double* t,
                                    int64_t ldt, double* c, int64_t ldc);
FLEET_API fleet_status fleet_clarfb(fleet_context* context, fleet_side side, fleet_op trans,
                                    fleet_direct direct, fleet_storev storev, int64_t m, int64_t n,
                                    int64_t k, const void* v, int64_t ldv, const void* t,
                                    int64_t ldt, void* c, int64_t ldc);
FLEET_API fleet_status fleet_zlarfb(fleet_context* context, fleet_side side, fleet_op trans,
                                    fleet_direct direct, fleet_storev storev, int64_t m, int64_t n,
                                    int64_t k, const void* v, int64_t ldv, const void* t,
                                    int64_t ldt, void* c, int64_t ldc);

#ifdef __cplusplus
}
#endif
#endif
