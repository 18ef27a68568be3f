/* SPDX-License-Identifier: BSD-3-Clause
 *
 * dropin.h: the interface between the thin preload library and the core. C, private to the
 * project; both sides come from the same build (FLEET_DROPIN_VERSION must match).
 */
#ifndef FLEETBLAS_DROPIN_H
#define FLEETBLAS_DROPIN_H
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FLEET_DROPIN_VERSION 4

typedef enum fleet_dropin_routine {
  fleet_dropin_gemm,
  fleet_dropin_gemmt,
  fleet_dropin_symm,
  fleet_dropin_hemm,
  fleet_dropin_syrk,
  fleet_dropin_herk,
  fleet_dropin_syr2k,
  fleet_dropin_her2k,
  fleet_dropin_trmm,
  fleet_dropin_trsm
} fleet_dropin_routine;

/* One BLAS call, column-major, arguments already checked by the preload library (row-major CBLAS
 * calls are turned round before). Flags are lower case; absent arguments are 0. */
typedef struct fleet_dropin_call {
  const char* symbol; /* the name that the program called, for the log: "cblas_dgemm64_"; static */
  fleet_dropin_routine routine;
  char type; /* s, d, c, z */
  char side, uplo, transa, transb, diag;
  /* m == n where C is a triangle; k is the edge of A where A is symmetric or a triangle. */
  int64_t m, n, k;
  const void* alpha; /* of the call's type; herk's alpha, and beta of herk and her2k, are real */
  const void* a;
  int64_t lda;
  const void* b; /* of trmm and trsm, which work in place, B is c */
  int64_t ldb;
  const void* beta;
  void* c;
  int64_t ldc;
} fleet_dropin_call;

typedef enum fleet_dropin_lapack_routine {
  fleet_dropin_getrf,
  fleet_dropin_potrf,
  fleet_dropin_geqrf,
  fleet_dropin_getrs,
  fleet_dropin_potrs,
  fleet_dropin_gesv,
  fleet_dropin_posv,
  fleet_dropin_getri,
  fleet_dropin_potri,
  fleet_dropin_trtri,
  fleet_dropin_trtrs,
  fleet_dropin_lauum,
  fleet_dropin_orgqr,
  fleet_dropin_ormqr,
  fleet_dropin_larfb,
  fleet_dropin_dsgesv,
  fleet_dropin_zcgesv
} fleet_dropin_lapack_routine;

/* One call of LAPACK, arguments already checked by the preload library. Flags are lower case ('t'
 * or 'c' in ormqr and larfb, as their type has it); absent arguments are 0. No size is 0, but for
 * nrhs in gesv, posv, trtrs, dsgesv and zcgesv, and k in orgqr. */
typedef struct fleet_dropin_lapack_call {
  const char* symbol; /* the name that the program called, for the log: "scipy_dgesv_64_"; static */
  fleet_dropin_lapack_routine routine;
  char type; /* s, d, c, z; that of A in dsgesv and zcgesv */
  char side, uplo, trans, diag, direct, storev;
  char int_bits; /* 32 or 64: of the numbers in ipiv and of iter */
  double flops; /* of the whole call, as LAPACK's own timings count; complex ones 4 times as many */
  int64_t m, n, k, nrhs;
  void* a; /* V in larfb */
  int64_t lda;
  void* b; /* T in larfb */
  int64_t ldb;
  void* c; /* X in dsgesv and zcgesv */
  int64_t ldc;
  void* tau;
  void* ipiv; /* from 1 */
  void* iter;
  void* work; /* of lwork elements, as LAPACK asks for; larfb's lwork is a leading dimension */
  int64_t lwork;
} fleet_dropin_lapack_call;

/* The functions of the core, behind one exported function so that one dlsym is enough. */
typedef struct fleet_dropin_core {
  int version;
  /* Calls with fewer flops (2mnk for gemm, n*n*k for syrk; complex 4 times that) than this are
   * never offered: the preload library calls the BLAS behind without asking. 0: ask always. The
   * options and the model decide it. */
  double min_flops;
  /* 1: log every call, also those below min_flops (FLEETBLAS_VERBOSE or a summary is on). */
  int wants_all;
  /* 1: done, C is complete. 0: not taken (unprofitable, no device, a forked child, an error that
   * left C untouched): the caller runs the BLAS behind. The core has noted the reason. */
  int (*offer)(const fleet_dropin_call* call);
  /* Does a call that no BLAS behind can do, on the CPU if need be. 0: an error that left C
   * untouched. 1: done, or the devices failed and C is undefined, which the core has logged. */
  int (*compute)(const fleet_dropin_call* call);
  /* Reports a call that the BLAS behind did (after offer returned 0, or below min_flops when
   * wants_all), with its seconds. */
  void (*note_host)(const fleet_dropin_call* call, double seconds);
  /* 0: calls of LAPACK are turned off, and nothing below is asked. */
  int serves_lapack;
  /* The same for calls of LAPACK. */
  double lapack_min_flops;
  /* 1: done, and *info is LAPACK's (also of larfb, where it is 0); or the devices failed and what
   * the call writes is undefined, or an operand is on a device and nobody could do the call, which
   * the core has logged: *info is larger than m and n then, a number that LAPACK never gives.
   * 0: not taken, nothing is touched. */
  int (*offer_lapack)(const fleet_dropin_lapack_call* call, int64_t* info);
  int (*compute_lapack)(const fleet_dropin_lapack_call* call, int64_t* info);
  void (*note_host_lapack)(const fleet_dropin_lapack_call* call, double seconds);
  /* The least block size nb, above < nb <= most, with which devices are expected to be clearly
   * faster than the CPU at an update of m x n by nb columns, in a blocked routine of LAPACK that is
   * not served. 0: there is none, or devices have not started. Waits for no call. */
  int64_t (*block_size)(char type, int64_t m, int64_t n, int64_t above, int64_t most);
} fleet_dropin_core;

/* Exported by libfleetblas.so. Starts the default context on first use; never throws, never fails:
 * without devices min_flops is infinite. */
__attribute__((visibility("default"))) const fleet_dropin_core* fleet_dropin(void);

#ifdef __cplusplus
}
#endif
#endif
