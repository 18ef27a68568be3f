/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mpi.h: products, equations and factorizations of matrices that are dealt over the ranks of an MPI
 * program, as ScaLAPACK deals them. C99. A library of its own, libfleetblas_mpi.so, built where
 * there is an MPI, and for that MPI alone. Each rank computes on its cores, with the CPU BLAS that
 * libfleetblas finds, and products, LU factors and equations on a device of its own where that is
 * faster (option devices).
 *
 * A matrix is M x N in square blocks: block (i, j) is on row (RSRC + i) mod P and column
 * (CSRC + j) mod Q of a grid of P x Q ranks, and what a rank has is one column-major array. The
 * nine numbers of a descriptor are ScaLAPACK's:
 *
 *   desc[0] 1              desc[3] N             desc[6] RSRC
 *   desc[1] not looked at  desc[4] rows          desc[7] CSRC
 *   desc[2] M              desc[5] columns       desc[8] the local leading dimension
 *                          of a block
 *
 * All are ints, as in ipiv: those of a ScaLAPACK with 64-bit integers (ILP64) are not. desc[1] is
 * ScaLAPACK's context; a grid takes its place, so no BLACS is needed. Functions take a part of the
 * matrix: its first row and column count from 1, as ScaLAPACK's ia and ja, and lie at the beginning
 * of a block. All matrices of a call have square blocks of one size. Only rows (columns) that are
 * all of one block may begin anywhere in it, and its size matters less: as for a right side whose
 * blocks are nb x 1. What is otherwise is FLEET_UNSUPPORTED.
 *
 * All ranks of a grid call a function together, with the same arguments but for pointers and the
 * leading dimension, and get the same status, but see below. While they compute, a thread of each
 * rank drives the messages if the program lets threads call MPI in turn: MPI_Init_thread with
 * MPI_THREAD_SERIALIZED or more. No other thread of the rank may call MPI meanwhile, unless the
 * program has MPI_THREAD_MULTIPLE. Without, messages are driven between products. A grid serves one
 * thread of a rank at a time.
 *
 * Each function returns FLEET_OK, or
 *   FLEET_BAD_ARGUMENT   an argument of some rank is illegal, or ranks' arguments differ;
 *                        fleet_mpi_message() names it; nothing was touched
 *   FLEET_UNSUPPORTED    see above, or messages would be longer than MPI allows; nothing was
 *                        touched
 *   FLEET_NO_MEMORY      fleet_mpi_dgetrf, fleet_mpi_dgesv: some rank has not the memory that they
 *                        say they take; nothing was touched. A system that promises more than it
 *                        has ends the process later
 *   FLEET_DEVICE_FAILED  a rank does not answer, has no memory for messages, or its device fails
 *                        while it computes; what the function writes is undefined, and the grid can
 *                        only be destroyed
 * The first three are the same on all ranks. The last one is not: a rank that has all it needs from
 * the others returns FLEET_OK, though one of them may fail after that. It hears of it by the next
 * call on the grid, which waits for that rank for patience_s seconds.
 */
#ifndef FLEETBLAS_MPI_H
#define FLEETBLAS_MPI_H
#include <mpi.h>

#include "fleetblas/fleetblas.h"

#ifdef __cplusplus
extern "C" {
#endif

/* P x Q ranks, and what each of them computes with. */
typedef struct fleet_mpi_grid fleet_mpi_grid;

/**
 * The ranks of `comm`, p*q of them, in rows and columns. order: 'r' or 'R' numbers them along the
 * rows, 'c' or 'C' along the columns, as BLACS_GRIDINIT does. All of them call it together, but for
 * the options with the same arguments, and get the same status: only where comm is MPI_COMM_NULL,
 * or MPI is not initialized, a rank hears of it alone. Messages have communicators of their own.
 * From Fortran's mpi_f08, comm is what MPI_Comm_f2c makes of comm%MPI_VAL.
 *
 * options: NULL, or words like "cores=4;patience_s=60". The environment variable FLEETBLAS_MPI has
 * the same; options win.
 *   cores=N        of each rank; 0, the default: those that the process may use, shared with the
 *                  ranks of its node that may use them too
 *   patience_s=N   the longest that a rank waits for another one; 600, 0: for ever
 *   overlap=WORD   full: messages travel during products; none: each is waited for
 *   devices=WORD   none, the default: cores compute everything. auto: fleet_mpi_dgemm, _dsyrk,
 *                  _dgetrf and _dgesv compute on one device of each rank that has at least 4096^3
 *                  multiply-adds to do, and 256 for each number that is copied for them. always:
 *                  whatever the size. The first such call starts the device: one of the rank's
 *                  part of its node's, as the setting devices=split deals them. Where the user has
 *                  set `devices` of the library (FLEETBLAS_DEVICES), the ranks of a grid take
 *                  those in turn on each node. All other functions compute on cores, and so do
 *                  ranks whose device does not start or has no room (the log says why from level 1
 *                  on), and all where MPI was initialized with less than MPI_THREAD_SERIALIZED
 *
 * *grid is NULL where the status is not FLEET_OK: FLEET_BAD_ARGUMENT (also where `overlap` or
 * `devices` is not the same on all ranks), FLEET_BAD_OPTION, FLEET_NO_MEMORY, or
 * FLEET_DEVICE_FAILED (this MPI is not that of the library, the system gives no threads).
 */
FLEET_API fleet_status fleet_mpi_grid_create(MPI_Comm comm, char order, int p, int q,
                                             const char* options, fleet_mpi_grid** grid);
/** All ranks call it together, before MPI_Finalize. NULL is fine. */
FLEET_API fleet_status fleet_mpi_grid_destroy(fleet_mpi_grid* grid);
/** This rank's row and column, from 0 on. */
FLEET_API fleet_status fleet_mpi_grid_place(const fleet_mpi_grid* grid, int* row, int* col);

/** Why this thread's last call failed, one line; "" if it did not. Valid until its next call. */
FLEET_API const char* fleet_mpi_message(void);

/** How many of n rows (columns) in blocks of nb the row (column) `part` of the grid has, of
 * `parts`; part `first` has the first block. ScaLAPACK's NUMROC. */
FLEET_API int64_t fleet_mpi_local_size(int64_t n, int64_t nb, int part, int first, int parts);

/** C := alpha*op(A)*op(B) + beta*C: op(A) m x k, op(B) k x n, C m x n. C is not read when beta is
 * 0. On a device a rank's part of C is there until the call ends, beside two strips of each factor.
 */
FLEET_API fleet_status fleet_mpi_dgemm(fleet_mpi_grid* grid, fleet_op transa, fleet_op transb,
                                       int64_t m, int64_t n, int64_t k, double alpha,
                                       const double* a, int64_t ia, int64_t ja, const int* desca,
                                       const double* b, int64_t ib, int64_t jb, const int* descb,
                                       double beta, double* c, int64_t ic, int64_t jc,
                                       const int* descc);

/** C := alpha*op(A)*op(A)^T + beta*C, C n x n, of which one triangle is read and written; op(A)
 * n x k. */
FLEET_API fleet_status fleet_mpi_dsyrk(fleet_mpi_grid* grid, fleet_uplo uplo, fleet_op trans,
                                       int64_t n, int64_t k, double alpha, const double* a,
                                       int64_t ia, int64_t ja, const int* desca, double beta,
                                       double* c, int64_t ic, int64_t jc, const int* descc);

/** B := alpha*op(A)^-1*B (FLEET_LEFT) or alpha*B*op(A)^-1: B m x n, A a triangle. */
FLEET_API fleet_status fleet_mpi_dtrsm(fleet_mpi_grid* grid, fleet_side side, fleet_uplo uplo,
                                       fleet_op transa, fleet_diag diag, int64_t m, int64_t n,
                                       double alpha, const double* a, int64_t ia, int64_t ja,
                                       const int* desca, double* b, int64_t ib, int64_t jb,
                                       const int* descb);

/** A = L*L^T (FLEET_LOWER) or U^T*U: A symmetric, n x n, in one triangle, which the factor takes.
 * *info = i: the leading minor of order i is not positive definite, and the factorization ended
 * there; 0 otherwise. The status is FLEET_OK both times. */
FLEET_API fleet_status fleet_mpi_dpotrf(fleet_mpi_grid* grid, fleet_uplo uplo, int64_t n, double* a,
                                        int64_t ia, int64_t ja, const int* desca, int64_t* info);

/** P*A = L*U: A m x n with m = n (others are FLEET_UNSUPPORTED), L with ones on its diagonal. ipiv:
 * one int for each row of the whole matrix that the rank has, as pdgetrf has them: row i of the
 * matrix (from 1 on, as ia counts) was exchanged with row ipiv[local row of i], on the ranks that
 * have row i. *info = i: U(i, i) is exactly 0, and equations cannot be solved with it; 0 otherwise.
 * Before anything is touched each rank takes as much memory again as its part of A has, and that of
 * two panels and of their rows in all columns: else FLEET_NO_MEMORY. That is memory of devices, and
 * of the host for messages alone, where every rank has a device with so much; else all ranks
 * compute on cores. */
FLEET_API fleet_status fleet_mpi_dgetrf(fleet_mpi_grid* grid, int64_t m, int64_t n, double* a,
                                        int64_t ia, int64_t ja, const int* desca, int* ipiv,
                                        int64_t* info);

/** A*X = B: fleet_mpi_dgetrf, and the n x nrhs solutions in the place of B, which is untouched
 * where *info is not 0. The memory is that of fleet_mpi_dgetrf; rows of B travel by 128 columns. */
FLEET_API fleet_status fleet_mpi_dgesv(fleet_mpi_grid* grid, int64_t n, int64_t nrhs, double* a,
                                       int64_t ia, int64_t ja, const int* desca, int* ipiv,
                                       double* b, int64_t ib, int64_t jb, const int* descb,
                                       int64_t* info);

#ifdef __cplusplus
}
#endif
#endif
