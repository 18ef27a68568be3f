/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fleetblas.h: level-3 BLAS on all the devices of a node. C99. This header is the manual.
 *
 * Matrices are column-major; all sizes, leading dimensions and strides are int64_t, in elements.
 * Every function may be called from any thread. Those whose name ends in _async are queued and
 * return at once. Calls of several threads on one context run at the same time, each on devices of
 * its own, where that finishes them sooner than one after the other; fleet_stats_json counts them.
 * Two calls with operands in pageable memory, or with a part for the CPU, do not.
 * Functions return FLEET_OK or a status; fleet_message() has the one-line reason, per thread.
 * Nothing is printed unless asked for (FLEETBLAS_VERBOSE, FLEETBLAS_LOG_LEVEL), nothing aborts.
 *
 * After a fork the child computes on the CPU with one thread and cannot use any context's devices:
 * operands that the CPU cannot reach are FLEET_UNSUPPORTED there. The parent continues as before.
 * While the process exits, calls from exit handlers compute on the CPU, and other threads wait.
 * The library stays loaded once it is used.
 */
#ifndef FLEETBLAS_H
#define FLEETBLAS_H
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define FLEET_API __attribute__((visibility("default")))
#else
#define FLEET_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define FLEETBLAS_VERSION_MAJOR 0
#define FLEETBLAS_VERSION_MINOR 1
#define FLEETBLAS_VERSION_PATCH 0

/* After FLEET_DEVICE_FAILED C is undefined, after every other error it is untouched. */
typedef enum fleet_status {
  FLEET_OK = 0,
  FLEET_BAD_ARGUMENT = 1,  /* a size, flag or pointer is illegal; nothing was touched */
  FLEET_NO_MEMORY = 2,     /* neither devices nor host have enough; C untouched */
  FLEET_DEVICE_FAILED = 3, /* a device failed, and the CPU could not complete C */
  FLEET_UNREACHABLE = 4,   /* no route between two places that must exchange data */
  FLEET_BAD_OPTION = 5,    /* an option has a value that means nothing */
  FLEET_BAD_FILE = 6,      /* a machine file is missing, damaged or of another schema */
  FLEET_UNSUPPORTED = 7,   /* a combination that this version does not do */
  FLEET_INTERNAL = 8       /* a bug in the library */
} fleet_status;

typedef enum fleet_op { FLEET_NO_TRANS = 'n', FLEET_TRANS = 't', FLEET_CONJ_TRANS = 'c' } fleet_op;
/* On which side of B a symmetric or triangular matrix stands, and which triangle is stored or
 * written. */
typedef enum fleet_side { FLEET_LEFT = 'l', FLEET_RIGHT = 'r' } fleet_side;
typedef enum fleet_uplo { FLEET_LOWER = 'l', FLEET_UPPER = 'u' } fleet_uplo;
/* Whether the diagonal of a triangular matrix is stored or all ones. */
typedef enum fleet_diag { FLEET_NON_UNIT = 'n', FLEET_UNIT = 'u' } fleet_diag;
/* What elements are, and for fleet_gemm_ex how products are computed. */
typedef enum fleet_type {
  FLEET_F32 = 's',
  FLEET_F64 = 'd',
  FLEET_C32 = 'c',
  FLEET_C64 = 'z',
  FLEET_F16 = 'h',  /* IEEE binary16: 2 bytes */
  FLEET_BF16 = 'b', /* bfloat16, the upper half of a float: 2 bytes */
  FLEET_TF32 = 't'  /* a way to compute on floats, never a storage type: see fleet_gemm_ex */
} fleet_type;

/* Locations of memory: a device 0, 1, ..., or one of these. */
#define FLEET_HOST (-1)          /* pinned host memory */
#define FLEET_HOST_PAGEABLE (-2) /* any other host memory: malloc's, NumPy's, CUDA's managed */

/* Devices, plans and pools. Every function that takes a context takes NULL for the process-wide
 * default context, which is made on first use from the environment and never destroyed. */
typedef struct fleet_context fleet_context;

/* "0.1.0" */
FLEET_API const char* fleet_version(void);
/* "ok", "bad_argument", ... */
FLEET_API const char* fleet_status_string(fleet_status status);
/* Why this thread's last call failed, one line; "" if it did not. Valid until its next call. */
FLEET_API const char* fleet_message(void);

/* Makes a context. `options` is NULL or "name=value" lines (';' also separates): the settings of
 * the environment without FLEETBLAS_, in lower case: backend, devices, machine, tile, rules,
 * memory_cap, offload, ... They override the environment. A bad value in either gives
 * FLEET_BAD_OPTION or FLEET_BAD_FILE, and backend=cuda without a driver, or without a CUDA backend
 * beside the library, FLEET_UNSUPPORTED; *context is NULL then. (The default context keeps the
 * default of a setting that it cannot use, and says so at FLEETBLAS_LOG_LEVEL=2.) */
FLEET_API fleet_status fleet_context_create(const char* options, fleet_context** context);
/* Waits for calls in progress and queued, for the events that these wait for, and for streams that
 * fleet_stream_after holds; then frees all memory that fleet_alloc gave from the context, and
 * unpins what is still registered. That waits for the GPUs, which breaks a capture (CUDA graphs)
 * that is under way on one of them. So does a call that fails in replaying a plan as a graph, and
 * the start of devices if the captured stream is a blocking one; others break none. Does nothing
 * for NULL. */
FLEET_API fleet_status fleet_context_destroy(fleet_context* context);

/* Allocates memory at a location. `*data` is aligned to 256 bytes; 0 bytes give NULL. */
FLEET_API fleet_status fleet_alloc(fleet_context* context, int location, size_t bytes, void** data);
FLEET_API fleet_status fleet_free(fleet_context* context, void* data);
/* Copies between any two locations; returns when done. */
FLEET_API fleet_status fleet_copy(fleet_context* context, void* to, const void* from, size_t bytes);
/* Returns when the work that is now in this stream of a device is done (a cudaStream_t; the legacy
 * default stream is NULL or 1, the per-thread one 2), so that later calls start after it, queued
 * ones too. Use it for operands that the caller's own kernels may still write or read. Calls are
 * complete when they return, so work that the caller starts after them needs no such call. Queued
 * calls need not keep the caller waiting: see fleet_event_record. FLEET_BAD_ARGUMENT: the context
 * does not use this device; FLEET_UNSUPPORTED: it uses none, or the stream is being captured (CUDA
 * graphs), or it is the default stream and waits for such a one; the capture goes on. Virtual
 * devices have no streams: the function does nothing for them. */
FLEET_API fleet_status fleet_wait_stream(fleet_context* context, int device, void* stream);
/* What a plan is predicted to cost. */
typedef struct fleet_cost {
  double seconds;
  double joules;      /* of the devices that take part; NAN where their watts are not known */
  double joules_node; /* of all devices and, as far as it is known, the host; or NAN */
  int64_t devices;    /* that take part: with a kernel, or at an end of a copy */
} fleet_cost;
/* The number that a plan is chosen by: less is better, and one that is not finite is never taken.
 * Called many times by calls that plan, in their threads; it must not call this library, but for
 * fleet_free, which is done later. */
typedef double (*fleet_objective)(void* user, const fleet_cost* cost);
/* The context's plans are made for `objective` from now on; NULL: for the setting `objective`
 * again. `user` is passed on and has to live as long. Joules are known if the machine file has
 * watts. On GPUs with energy counters they are measured, in 3 s, if this is called before the first
 * call starts the devices, and kept with the measured machine (each context measures for a named
 * one). A call for none of whose plans the number is finite runs on the CPU; asking for its plan is
 * FLEET_BAD_ARGUMENT. */
FLEET_API fleet_status fleet_set_objective(fleet_context* context, fleet_objective objective,
                                           void* user);
/* Gives pooled device memory back to the system. */
FLEET_API fleet_status fleet_trim(fleet_context* context);
/* Makes existing host memory reachable for devices (pinned) until it is unregistered. If the system
 * refuses, the memory stays pageable and works as such: FLEET_OK. */
FLEET_API fleet_status fleet_host_register(fleet_context* context, void* data, size_t bytes);
/* Waits for calls in progress, and until fleet_stream_after holds no stream, of any context. */
FLEET_API fleet_status fleet_host_unregister(fleet_context* context, void* data);

/* C := alpha*op(A)*op(B) + beta*C on the devices expected to finish it first.
 *   op(A)  m x k    lda >= max(1, transa == FLEET_NO_TRANS ? m : k)
 *   op(B)  k x n    ldb >= max(1, transb == FLEET_NO_TRANS ? k : n)
 *   C      m x n    ldc >= max(1, m); not read when beta == 0, so it may hold NaN
 * A and B are not read when alpha == 0 or k == 0. Each matrix may lie in host memory or in the
 * memory of any one device of the context. A and B may overlap each other. The CPU BLAS does a call
 * whose C overlaps A or B; its result is then as undefined as in the reference BLAS. Scalars of
 * complex types are read from host memory, as two numbers.
 *
 * Returns when C is complete:
 *   FLEET_OK
 *   FLEET_BAD_ARGUMENT   a flag or size is illegal, a leading dimension too small, or an operand on
 *                        a GPU that the context does not use; C untouched
 *   FLEET_NO_MEMORY      neither devices nor host can hold what the call needs; C untouched
 *   FLEET_DEVICE_FAILED  C is undefined: a device that holds an operand was lost, or a device
 *                        failed or memory ran out after C was changed, and the CPU could not
 *                        complete C
 */
FLEET_API fleet_status fleet_sgemm(fleet_context* context, fleet_op transa, fleet_op transb,
                                   int64_t m, int64_t n, int64_t k, float alpha, const float* a,
                                   int64_t lda, const float* b, int64_t ldb, float beta, float* c,
                                   int64_t ldc);
FLEET_API fleet_status fleet_dgemm(fleet_context* context, fleet_op transa, fleet_op transb,
                                   int64_t m, int64_t n, int64_t k, double alpha, const double* a,
                                   int64_t lda, const double* b, int64_t ldb, double beta,
                                   double* c, int64_t ldc);
FLEET_API fleet_status fleet_cgemm(fleet_context* context, fleet_op transa, fleet_op transb,
                                   int64_t m, int64_t n, int64_t k, const void* alpha,
                                   const void* a, int64_t lda, const void* b, int64_t ldb,
                                   const void* beta, void* c, int64_t ldc);
FLEET_API fleet_status fleet_zgemm(fleet_context* context, fleet_op transa, fleet_op transb,
                                   int64_t m, int64_t n, int64_t k, const void* alpha,
                                   const void* a, int64_t lda, const void* b, int64_t ldb,
                                   const void* beta, void* c, int64_t ldc);

/* The same for any types: A, B and C of their own types, arithmetic as `compute` says, alpha and
 * beta of the compute type (FLEET_TF32: float). This version does these; others:
 * FLEET_UNSUPPORTED.
 *   A, B, C             compute
 *   F32, F64, C32, C64  the same
 *   F16 or BF16         F32    each product of tiles is summed in float; C is rounded to its type
 *                              after each step of k. With s steps, u the rounding unit of the type
 *                              (2^-11 for F16, 2^-8 for BF16) and v = 2^-24, the error is at most
 *                              about ((s + 2)*u + (k + 2)*v) * (|alpha|*|op(A)|*|op(B)| +
 *                              |beta|*|C|), plus s*2^-25 where F16 becomes subnormal
 *   F32                 TF32   devices may round A and B to 11 significant bits (2^-11 each);
 *                              sums in float. The CPU does not round */
FLEET_API fleet_status fleet_gemm_ex(fleet_context* context, fleet_op transa, fleet_op transb,
                                     int64_t m, int64_t n, int64_t k, const void* alpha,
                                     const void* a, fleet_type atype, int64_t lda, const void* b,
                                     fleet_type btype, int64_t ldb, const void* beta, void* c,
                                     fleet_type ctype, int64_t ldc, fleet_type compute);

/* `batch` independent products: item i uses a + i*stride_a, b + i*stride_b, c + i*stride_c. The
 * items are spread over the devices. A stride of 0 for A or B means one matrix for all items, which
 * is moved once. Items of C must not overlap (FLEET_BAD_ARGUMENT if the strides make them).
 * batch == 0 does nothing. */
FLEET_API fleet_status fleet_sgemm_strided_batched(fleet_context* context, fleet_op transa,
                                                   fleet_op transb, int64_t m, int64_t n, int64_t k,
                                                   float alpha, const float* a, int64_t lda,
                                                   int64_t stride_a, const float* b, int64_t ldb,
                                                   int64_t stride_b, float beta, float* c,
                                                   int64_t ldc, int64_t stride_c, int64_t batch);
FLEET_API fleet_status fleet_dgemm_strided_batched(fleet_context* context, fleet_op transa,
                                                   fleet_op transb, int64_t m, int64_t n, int64_t k,
                                                   double alpha, const double* a, int64_t lda,
                                                   int64_t stride_a, const double* b, int64_t ldb,
                                                   int64_t stride_b, double beta, double* c,
                                                   int64_t ldc, int64_t stride_c, int64_t batch);
FLEET_API fleet_status fleet_cgemm_strided_batched(fleet_context* context, fleet_op transa,
                                                   fleet_op transb, int64_t m, int64_t n, int64_t k,
                                                   const void* alpha, const void* a, int64_t lda,
                                                   int64_t stride_a, const void* b, int64_t ldb,
                                                   int64_t stride_b, const void* beta, void* c,
                                                   int64_t ldc, int64_t stride_c, int64_t batch);
FLEET_API fleet_status fleet_zgemm_strided_batched(fleet_context* context, fleet_op transa,
                                                   fleet_op transb, int64_t m, int64_t n, int64_t k,
                                                   const void* alpha, const void* a, int64_t lda,
                                                   int64_t stride_a, const void* b, int64_t ldb,
                                                   int64_t stride_b, const void* beta, void* c,
                                                   int64_t ldc, int64_t stride_c, int64_t batch);
FLEET_API fleet_status fleet_gemm_strided_batched_ex(
    fleet_context* context, fleet_op transa, fleet_op transb, int64_t m, int64_t n, int64_t k,
    const void* alpha, const void* a, fleet_type atype, int64_t lda, int64_t stride_a,
    const void* b, fleet_type btype, int64_t ldb, int64_t stride_b, const void* beta, void* c,
    fleet_type ctype, int64_t ldc, int64_t stride_c, int64_t batch, fleet_type compute);

/* Routines that use one triangle of C or of A. The opposite triangle is neither read nor written.
 * Hermitian matrices have real diagonals: the imaginary parts there are not read, and become 0 in C
 * if anything in C changes. All else, statuses included, is as for fleet_dgemm.
 *
 *   gemmt   C := alpha*op(A)*op(B) + beta*C, n x n, op(A) n x k, op(B) k x n */
FLEET_API fleet_status fleet_sgemmt(fleet_context* context, fleet_uplo uplo, fleet_op transa,
                                    fleet_op transb, int64_t n, int64_t k, float alpha,
                                    const float* a, int64_t lda, const float* b, int64_t ldb,
                                    float beta, float* c, int64_t ldc);
FLEET_API fleet_status fleet_dgemmt(fleet_context* context, fleet_uplo uplo, fleet_op transa,
                                    fleet_op transb, int64_t n, int64_t k, double alpha,
                                    const double* a, int64_t lda, const double* b, int64_t ldb,
                                    double beta, double* c, int64_t ldc);
FLEET_API fleet_status fleet_cgemmt(fleet_context* context, fleet_uplo uplo, fleet_op transa,
                                    fleet_op transb, int64_t n, int64_t k, const void* alpha,
                                    const void* a, int64_t lda, const void* b, int64_t ldb,
                                    const void* beta, void* c, int64_t ldc);
FLEET_API fleet_status fleet_zgemmt(fleet_context* context, fleet_uplo uplo, fleet_op transa,
                                    fleet_op transb, int64_t n, int64_t k, const void* alpha,
                                    const void* a, int64_t lda, const void* b, int64_t ldb,
                                    const void* beta, void* c, int64_t ldc);
/*   symm, hemm   C := alpha*A*B + beta*C (FLEET_LEFT) or alpha*B*A + beta*C, m x n; A symmetric or
 *                Hermitian, m x m or n x n, stored in the triangle `uplo` */
FLEET_API fleet_status fleet_ssymm(fleet_context* context, fleet_side side, fleet_uplo uplo,
                                   int64_t m, int64_t n, float alpha, const float* a, int64_t lda,
                                   const float* b, int64_t ldb, float beta, float* c, int64_t ldc);
FLEET_API fleet_status fleet_dsymm(fleet_context* context, fleet_side side, fleet_uplo uplo,
                                   int64_t m, int64_t n, double alpha, const double* a, int64_t lda,
                                   const double* b, int64_t ldb, double beta, double* c,
                                   int64_t ldc);
FLEET_API fleet_status fleet_csymm(fleet_context* context, fleet_side side, fleet_uplo uplo,
                                   int64_t m, int64_t n, const void* alpha, const void* a,
                                   int64_t lda, const void* b, int64_t ldb, const void* beta,
                                   void* c, int64_t ldc);
FLEET_API fleet_status fleet_zsymm(fleet_context* context, fleet_side side, fleet_uplo uplo,
                                   int64_t m, int64_t n, const void* alpha, const void* a,
                                   int64_t lda, const void* b, int64_t ldb, const void* beta,
                                   void* c, int64_t ldc);
FLEET_API fleet_status fleet_chemm(fleet_context* context, fleet_side side, fleet_uplo uplo,
                                   int64_t m, int64_t n, const void* alpha, const void* a,
                                   int64_t lda, const void* b, int64_t ldb, const void* beta,
                                   void* c, int64_t ldc);
FLEET_API fleet_status fleet_zhemm(fleet_context* context, fleet_side side, fleet_uplo uplo,
                                   int64_t m, int64_t n, const void* alpha, const void* a,
                                   int64_t lda, const void* b, int64_t ldb, const void* beta,
                                   void* c, int64_t ldc);
/*   syrk, herk   C := alpha*op(A)*op(A)^T + beta*C, n x n, op(A) n x k; herk: ^H, alpha and beta
 *                real. trans is FLEET_NO_TRANS, FLEET_TRANS (syrk) or FLEET_CONJ_TRANS (herk; the
 *                same as FLEET_TRANS for real types) */
FLEET_API fleet_status fleet_ssyrk(fleet_context* context, fleet_uplo uplo, fleet_op trans,
                                   int64_t n, int64_t k, float alpha, const float* a, int64_t lda,
                                   float beta, float* c, int64_t ldc);
FLEET_API fleet_status fleet_dsyrk(fleet_context* context, fleet_uplo uplo, fleet_op trans,
                                   int64_t n, int64_t k, double alpha, const double* a, int64_t lda,
                                   double beta, double* c, int64_t ldc);
FLEET_API fleet_status fleet_csyrk(fleet_context* context, fleet_uplo uplo, fleet_op trans,
                                   int64_t n, int64_t k, const void* alpha, const void* a,
                                   int64_t lda, const void* beta, void* c, int64_t ldc);
FLEET_API fleet_status fleet_zsyrk(fleet_context* context, fleet_uplo uplo, fleet_op trans,
                                   int64_t n, int64_t k, const void* alpha, const void* a,
                                   int64_t lda, const void* beta, void* c, int64_t ldc);
FLEET_API fleet_status fleet_cherk(fleet_context* context, fleet_uplo uplo, fleet_op trans,
                                   int64_t n, int64_t k, float alpha, const void* a, int64_t lda,
                                   float beta, void* c, int64_t ldc);
FLEET_API fleet_status fleet_zherk(fleet_context* context, fleet_uplo uplo, fleet_op trans,
                                   int64_t n, int64_t k, double alpha, const void* a, int64_t lda,
                                   double beta, void* c, int64_t ldc);
/*   syr2k, her2k   C := alpha*op(A)*op(B)^T + alpha*op(B)*op(A)^T + beta*C; her2k: ^H, the second
 *                  alpha conjugated, beta real */
FLEET_API fleet_status fleet_ssyr2k(fleet_context* context, fleet_uplo uplo, fleet_op trans,
                                    int64_t n, int64_t k, float alpha, const float* a, int64_t lda,
                                    const float* b, int64_t ldb, float beta, float* c, int64_t ldc);
FLEET_API fleet_status fleet_dsyr2k(fleet_context* context, fleet_uplo uplo, fleet_op trans,
                                    int64_t n, int64_t k, double alpha, const double* a,
                                    int64_t lda, const double* b, int64_t ldb, double beta,
                                    double* c, int64_t ldc);
FLEET_API fleet_status fleet_csyr2k(fleet_context* context, fleet_uplo uplo, fleet_op trans,
                                    int64_t n, int64_t k, const void* alpha, const void* a,
                                    int64_t lda, const void* b, int64_t ldb, const void* beta,
                                    void* c, int64_t ldc);
FLEET_API fleet_status fleet_zsyr2k(fleet_context* context, fleet_uplo uplo, fleet_op trans,
                                    int64_t n, int64_t k, const void* alpha, const void* a,
                                    int64_t lda, const void* b, int64_t ldb, const void* beta,
                                    void* c, int64_t ldc);
FLEET_API fleet_status fleet_cher2k(fleet_context* context, fleet_uplo uplo, fleet_op trans,
                                    int64_t n, int64_t k, const void* alpha, const void* a,
                                    int64_t lda, const void* b, int64_t ldb, float beta, void* c,
                                    int64_t ldc);
FLEET_API fleet_status fleet_zher2k(fleet_context* context, fleet_uplo uplo, fleet_op trans,
                                    int64_t n, int64_t k, const void* alpha, const void* a,
                                    int64_t lda, const void* b, int64_t ldb, double beta, void* c,
                                    int64_t ldc);

/*   trmm   B := alpha*op(A)*B (FLEET_LEFT) or alpha*B*op(A), m x n; A triangular, m x m or
 *          n x n, stored in the triangle `uplo`; with FLEET_UNIT its diagonal is all ones and
 *          not read
 *   trsm   B := X, with op(A)*X = alpha*B (FLEET_LEFT) or X*op(A) = alpha*B
 *
 * With alpha == 0, B becomes 0, and neither A nor B is read. A singular A is not noticed: X is then
 * not finite. GPUs solve blocks of order 128 by their inverses, so an element of B or of A's
 * diagonal that is not finite makes up to 128 neighbours in its column of X (FLEET_RIGHT: row) not
 * finite too. */
FLEET_API fleet_status fleet_strmm(fleet_context* context, fleet_side side, fleet_uplo uplo,
                                   fleet_op transa, fleet_diag diag, int64_t m, int64_t n,
                                   float alpha, const float* a, int64_t lda, float* b, int64_t ldb);
FLEET_API fleet_status fleet_dtrmm(fleet_context* context, fleet_side side, fleet_uplo uplo,
                                   fleet_op transa, fleet_diag diag, int64_t m, int64_t n,
                                   double alpha, const double* a, int64_t lda, double* b,
                                   int64_t ldb);
FLEET_API fleet_status fleet_ctrmm(fleet_context* context, fleet_side side, fleet_uplo uplo,
                                   fleet_op transa, fleet_diag diag, int64_t m, int64_t n,
                                   const void* alpha, const void* a, int64_t lda, void* b,
                                   int64_t ldb);
FLEET_API fleet_status fleet_ztrmm(fleet_context* context, fleet_side side, fleet_uplo uplo,
                                   fleet_op transa, fleet_diag diag, int64_t m, int64_t n,
                                   const void* alpha, const void* a, int64_t lda, void* b,
                                   int64_t ldb);
FLEET_API fleet_status fleet_strsm(fleet_context* context, fleet_side side, fleet_uplo uplo,
                                   fleet_op transa, fleet_diag diag, int64_t m, int64_t n,
                                   float alpha, const float* a, int64_t lda, float* b, int64_t ldb);
FLEET_API fleet_status fleet_dtrsm(fleet_context* context, fleet_side side, fleet_uplo uplo,
                                   fleet_op transa, fleet_diag diag, int64_t m, int64_t n,
                                   double alpha, const double* a, int64_t lda, double* b,
                                   int64_t ldb);
FLEET_API fleet_status fleet_ctrsm(fleet_context* context, fleet_side side, fleet_uplo uplo,
                                   fleet_op transa, fleet_diag diag, int64_t m, int64_t n,
                                   const void* alpha, const void* a, int64_t lda, void* b,
                                   int64_t ldb);
FLEET_API fleet_status fleet_ztrsm(fleet_context* context, fleet_side side, fleet_uplo uplo,
                                   fleet_op transa, fleet_diag diag, int64_t m, int64_t n,
                                   const void* alpha, const void* a, int64_t lda, void* b,
                                   int64_t ldb);

/* Levels 1 and 2 on the devices expected to finish first. They read every element once or twice, so
 * devices pay off for operands on devices, and where links are faster than the CPU's memory.
 *
 *   gemv   y := alpha*op(A)*x + beta*y; A m x n, lda >= max(1, m)
 *   axpy   y := alpha*x + y, n elements each
 *   dot    *result := sum of x[i]*y[i], over n elements; dotc: of conj(x[i])*y[i]
 *
 * With FLEET_NO_TRANS x has n elements and y m, else x m and y n. y is not read when beta == 0. As
 * in the reference BLAS, gemv changes nothing if m or n is 0, axpy reads no x when alpha == 0, and
 * for n <= 0 axpy changes nothing and dot is 0.
 *
 * Element i of a vector is x[i*incx], or x[(i-n+1)*incx] where incx is negative: the pointer is the
 * lowest address in any case. axpy and dot take an increment of 0: the same element over and over.
 * Complex scalars, vectors and results are pointers to pairs of floats or doubles; scalars lie in
 * host memory, vectors and results anywhere. The CPU does calls whose output overlaps an input. The
 * same plan gives the same bits.
 *
 * Completion, threads and errors are as for fleet_dgemm; and
 *   FLEET_BAD_ARGUMENT   an increment of gemv is 0; nothing changed
 *   FLEET_UNSUPPORTED    an increment is 0 and an operand is on a device; nothing changed
 */
FLEET_API fleet_status fleet_sgemv(fleet_context* context, fleet_op trans, int64_t m, int64_t n,
                                   float alpha, const float* a, int64_t lda, const float* x,
                                   int64_t incx, float beta, float* y, int64_t incy);
FLEET_API fleet_status fleet_dgemv(fleet_context* context, fleet_op trans, int64_t m, int64_t n,
                                   double alpha, const double* a, int64_t lda, const double* x,
                                   int64_t incx, double beta, double* y, int64_t incy);
FLEET_API fleet_status fleet_cgemv(fleet_context* context, fleet_op trans, int64_t m, int64_t n,
                                   const void* alpha, const void* a, int64_t lda, const void* x,
                                   int64_t incx, const void* beta, void* y, int64_t incy);
FLEET_API fleet_status fleet_zgemv(fleet_context* context, fleet_op trans, int64_t m, int64_t n,
                                   const void* alpha, const void* a, int64_t lda, const void* x,
                                   int64_t incx, const void* beta, void* y, int64_t incy);
FLEET_API fleet_status fleet_saxpy(fleet_context* context, int64_t n, float alpha, const float* x,
                                   int64_t incx, float* y, int64_t incy);
FLEET_API fleet_status fleet_daxpy(fleet_context* context, int64_t n, double alpha, const double* x,
                                   int64_t incx, double* y, int64_t incy);
FLEET_API fleet_status fleet_caxpy(fleet_context* context, int64_t n, const void* alpha,
                                   const void* x, int64_t incx, void* y, int64_t incy);
FLEET_API fleet_status fleet_zaxpy(fleet_context* context, int64_t n, const void* alpha,
                                   const void* x, int64_t incx, void* y, int64_t incy);
FLEET_API fleet_status fleet_sdot(fleet_context* context, int64_t n, const float* x, int64_t incx,
                                  const float* y, int64_t incy, float* result);
FLEET_API fleet_status fleet_ddot(fleet_context* context, int64_t n, const double* x, int64_t incx,
                                  const double* y, int64_t incy, double* result);
FLEET_API fleet_status fleet_cdotu(fleet_context* context, int64_t n, const void* x, int64_t incx,
                                   const void* y, int64_t incy, void* result);
FLEET_API fleet_status fleet_cdotc(fleet_context* context, int64_t n, const void* x, int64_t incx,
                                   const void* y, int64_t incy, void* result);
FLEET_API fleet_status fleet_zdotu(fleet_context* context, int64_t n, const void* x, int64_t incx,
                                   const void* y, int64_t incy, void* result);
FLEET_API fleet_status fleet_zdotc(fleet_context* context, int64_t n, const void* x, int64_t incx,
                                   const void* y, int64_t incy, void* result);

/* ---- queued calls on matrices ----
 *
 * A call whose name ends in _async returns at once. Calls that are queued one after another are
 * planned as one as far as they can be: copies for the next call go while the one before computes.
 * They are computed as if one after another, in the order in which they were queued, unless a
 * priority or an event changes that for calls that share no memory which one of them writes.
 * Devices do them whenever the context has some, in tiles that depend on the sizes of the matrices
 * alone, so the bits of a result do not depend on what was queued with it or when. This is not
 * promised of calls that are planned by themselves: those whose output overlaps what they read, and
 * those of which a device does not hold a handful of tiles. And cuBLAS may round otherwise where
 * it finds an operand in the memory of its device than where it is given a copy; with the option
 * deterministic it is given copies only.
 *
 * Results, and copies of what was read, stay on the devices for later calls, within their memory.
 * So memory of a matrix is the program's again only through these:
 *   fleet_matrix_read     before the program reads the memory: the part is complete there
 *   fleet_matrix_wrote    after it has changed the memory: copies of the part are given up
 * Between them the program may do both. A part is home, too, once the last matrix and view of the
 * memory are destroyed. An event says that a call is computed, not that its result is home.
 *
 * The memory of operands must live, and must not be changed by the program, until the calls that
 * use it are done. Other calls on the context, fleet_copy, fleet_free and fleet_host_unregister
 * wait for queued calls that use their memory, and find it complete; what they write is known to
 * later queued calls, and what failed calls have left undefined is an error there too. Calls that a
 * drop-in hands to the BLAS behind it are the program's own reads and writes. A forked child has
 * none of its parent's queued calls, and computes its own at once; results that were on devices
 * when it was forked are FLEET_UNSUPPORTED there. A process that exits waits for no queued call,
 * and brings nothing home.
 */

/* A matrix in memory, column-major, or a part of one. */
typedef struct fleet_matrix fleet_matrix;
/* Something that is going to be done, and its status: a queued call, work in a stream, or what the
 * program says. Events of calls come with them (see below). A program may destroy an event at any
 * time; what it stands for goes on. */
typedef struct fleet_event fleet_event;
/* Memory of the context at a place, with undefined contents; it is freed with the last matrix and
 * view that use it. Destroy matrices before their context. Places:
 *   "h", "p"        pinned and pageable host memory
 *   "0", "1", ...   a device
 *   "c2x2:1024"     block-cyclic: blocks of 1024 x 1024 belong to 2 x 2 devices in turn
 *   "c2x2", "c"     the same with blocks, or blocks and devices, by the model
 * The devices of a block-cyclic matrix are numbered row by row. A block-cyclic
 * matrix lies on devices alone; fleet_matrix_scatter and _gather fill and empty it. Calls are
 * computed in its blocks, results where they belong unless that takes longer. All other functions
 * take it as well: its host memory (fleet_matrix_data) is reserved, and is used once
 * fleet_matrix_read or a call in other tiles needs elements at home. So they do where the devices'
 * memory does not hold it, where there are no devices, and after faults. Operands of a call that
 * meet along a dimension should have the same blocks: else those of C count, then A's, and the
 * other operand's elements come home first. Views that begin and end at blocks share their tiles
 * with the matrix. FLEET_BAD_ARGUMENT: the place has more devices than the context, or is no place.
 */
FLEET_API fleet_status fleet_matrix_create(fleet_context* context, fleet_type type, int64_t rows,
                                           int64_t cols, const char* place, fleet_matrix** matrix);
/* Memory of the caller, on the host or on a device of the context: ld >= max(1, rows). Several
 * matrices may be of the same memory. */
FLEET_API fleet_status fleet_matrix_wrap(fleet_context* context, fleet_type type, int64_t rows,
                                         int64_t cols, void* data, int64_t ld,
                                         fleet_matrix** matrix);
/* The rows x cols elements of `matrix` from (row, col) on, counted from 0. Calls on views that
 * overlap are computed in their order, too, but not as one plan. */
FLEET_API fleet_status fleet_matrix_view(const fleet_matrix* matrix, int64_t row, int64_t col,
                                         int64_t rows, int64_t cols, fleet_matrix** view);
/* The address of element (0, 0), and the leading dimension (`ld` may be NULL). What is there is
 * complete after fleet_matrix_read. */
FLEET_API fleet_status fleet_matrix_data(const fleet_matrix* matrix, void** data, int64_t* ld);
/* Waits until no queued call uses this part, and brings home what lies on devices, so that the
 * program may read and write it. Whole tiles come home; copies stay on the devices. If a call that
 * was to write some of it has failed, and nobody has written it since: the status of that call,
 * which fleet_message() names; if a device that alone had some of it was lost: FLEET_DEVICE_FAILED.
 * Queued calls that read such a part fail in the same way. */
FLEET_API fleet_status fleet_matrix_read(const fleet_matrix* matrix, int64_t row, int64_t col,
                                         int64_t rows, int64_t cols);
/* Queues that: returns at once, and the part is at home when the event is done. Where the matrix is
 * a result of calls before, its tiles leave the devices as soon as each is final. `event` may be
 * NULL; errors come with it. */
FLEET_API fleet_status fleet_matrix_read_async(const fleet_matrix* matrix, int64_t row, int64_t col,
                                               int64_t rows, int64_t cols, fleet_event** event);
/* Fills the matrix (or view) from memory of its shape, on the host or on a device, ld >= max(1,
 * rows): in its turn among queued calls. Tiles of a block-cyclic matrix go straight to the devices
 * that they belong to; other matrices are written in their memory. Waits until that is done; with
 * _async `data` must live and not change until the event is done (`event` may be NULL).
 * FLEET_BAD_ARGUMENT: ld is too small, or `data` is memory of the matrix. */
FLEET_API fleet_status fleet_matrix_scatter(const fleet_matrix* matrix, const void* data,
                                            int64_t ld);
FLEET_API fleet_status fleet_matrix_scatter_async(const fleet_matrix* matrix, const void* data,
                                                  int64_t ld, fleet_event** event);
/* The reverse: copies the elements into `data`, straight from the devices where they lie there
 * alone. Errors as for fleet_matrix_read. */
FLEET_API fleet_status fleet_matrix_gather(const fleet_matrix* matrix, void* data, int64_t ld);
FLEET_API fleet_status fleet_matrix_gather_async(const fleet_matrix* matrix, void* data, int64_t ld,
                                                 fleet_event** event);
/* From its turn among queued calls on the tiles of the matrix, no view of a part, belong to the
 * devices of a block-cyclic place, and copies of them go there ahead of the calls that need them:
 * for memory of the caller, too. Where the devices do not hold them they stay at home. `event` may
 * be NULL. FLEET_BAD_ARGUMENT: as for fleet_matrix_create, or the place is not block-cyclic. */
FLEET_API fleet_status fleet_matrix_distribute(const fleet_matrix* matrix, const char* place,
                                               fleet_event** event);
/* To be called when the program has written this part: later calls read it from its memory again,
 * and a call or an event that failed to write it is forgotten. Results around the part, which the
 * program has not written, are not lost. */
FLEET_API fleet_status fleet_matrix_wrote(const fleet_matrix* matrix, int64_t row, int64_t col,
                                          int64_t rows, int64_t cols);
/* With the last matrix of memory: memory of the context is freed, after the calls that use it.
 * Memory of the caller is complete: what calls have made of it comes home now, what queued calls
 * will make of it with their events. Does nothing for NULL. */
FLEET_API fleet_status fleet_matrix_destroy(fleet_matrix* matrix);

/* Waits until it is done (a call: until it is computed) and returns its status; fleet_message()
 * then names the call that failed. In a forked child and at exit nothing waits: FLEET_UNSUPPORTED
 * if it is not done. */
FLEET_API fleet_status fleet_event_wait(const fleet_event* event);
/* 1 if it is done or has failed, else 0; never waits. */
FLEET_API fleet_status fleet_event_query(const fleet_event* event, int* done);
/* Does nothing for NULL. */
FLEET_API fleet_status fleet_event_destroy(fleet_event* event);
/* An event of the program's own, such as a message that arrives. Destroying one that was not set
 * makes it fail with FLEET_UNSUPPORTED, so that nothing waits for it for ever. */
FLEET_API fleet_status fleet_event_create(fleet_event** event);
/* It is done (FLEET_OK) or has failed; from any thread. FLEET_BAD_ARGUMENT: it was set before, or
 * is not one of fleet_event_create. */
FLEET_API fleet_status fleet_event_set(const fleet_event* event, fleet_status status);
/* An event that is done when the work that is now in this stream is (device, stream and errors as
 * for fleet_wait_stream). Returns at once. On virtual devices it is done. */
FLEET_API fleet_status fleet_event_record(fleet_context* context, int device, void* stream,
                                          fleet_event** event);
/* Calls that are queued from now on and use this matrix, or any of its memory, start after the
 * event, which may be one of any context; others do not wait. Until then the memory counts as used
 * by a call that writes it: fleet_matrix_read and calls that are not queued wait as well. If the
 * event fails, these calls fail with its status and a message that names what failed, C untouched,
 * until fleet_matrix_wrote says that the program has written the matrix. When the event is done,
 * the memory counts as written (fleet_matrix_wrote), so calls that were queued before and use the
 * matrix have to be done by then, and what they have made of it is lost unless it was read:
 * fleet_matrix_read before this call sees to both. In a forked child and at exit: the event's
 * status, or FLEET_UNSUPPORTED if it is not done. */
FLEET_API fleet_status fleet_matrix_after(const fleet_matrix* matrix, const fleet_event* event);
/* What the program puts into this stream from now on starts after the event (device, stream and
 * errors as for fleet_wait_stream). For work that uses the result of a call: the event of
 * fleet_matrix_read_async, since results stay where they were computed. The device waits, not the
 * program, with one exception: CUDA loads kernels only while no stream waits, so the function first
 * waits, for a second at most, for queued calls that may start and are the first of their kind and
 * sizes. What needs a kernel that is not loaded while a stream waits is computed by the CPU. The
 * stream goes on after an event that failed, too, and when the process exits: fleet_event_wait has
 * the status. Until the event is done, whatever waits for the stream waits for the event, such as
 * cudaDeviceSynchronize, cudaFree or, unless the stream was made with cudaStreamNonBlocking, the
 * default stream; do nothing of the kind in a thread on which the event depends, and no
 * fleet_host_unregister. A context that starts several devices, as its first call does, waits for
 * them too. Streams share a few hardware queues, in which what is behind a waiting stream waits
 * too. Ours have another priority than streams have by default, and so other queues; a program with
 * many streams, or with priorities, should set CUDA_DEVICE_MAX_CONNECTIONS=32, and none should set
 * CUDA_MODULE_LOADING=EAGER: beside a waiting stream, calls did not end with it on H100.
 * FLEET_NO_MEMORY: 4096 streams wait already. Virtual devices have no streams: nothing waits. */
FLEET_API fleet_status fleet_stream_after(fleet_context* context, int device, void* stream,
                                          const fleet_event* event);
/* The priority of calls that any thread queues on the context from now on; 0 at first. What the
 * devices are given next are the calls of the highest priority that may start, after those that
 * they depend on; a call that is under way is not interrupted. No bit of a result depends on it. */
FLEET_API fleet_status fleet_set_priority(fleet_context* context, int priority);

/* The routines, as without _async but with sizes and leading dimensions from the matrices: A, B and
 * C have the shapes that the routine reads and writes, and the type in the routine's name. Vectors
 * are matrices of one row or column, the result of a dot is 1 x 1. `event` may be NULL. What can be
 * seen of an illegal argument is FLEET_BAD_ARGUMENT at once; all else comes with the event. */
FLEET_API fleet_status fleet_sgemm_async(fleet_context* context, fleet_op transa, fleet_op transb,
                                         float alpha, const fleet_matrix* a, const fleet_matrix* b,
                                         float beta, fleet_matrix* c, fleet_event** event);
FLEET_API fleet_status fleet_dgemm_async(fleet_context* context, fleet_op transa, fleet_op transb,
                                         double alpha, const fleet_matrix* a, const fleet_matrix* b,
                                         double beta, fleet_matrix* c, fleet_event** event);
FLEET_API fleet_status fleet_cgemm_async(fleet_context* context, fleet_op transa, fleet_op transb,
                                         const void* alpha, const fleet_matrix* a,
                                         const fleet_matrix* b, const void* beta, fleet_matrix* c,
                                         fleet_event** event);
FLEET_API fleet_status fleet_zgemm_async(fleet_context* context, fleet_op transa, fleet_op transb,
                                         const void* alpha, const fleet_matrix* a,
                                         const fleet_matrix* b, const void* beta, fleet_matrix* c,
                                         fleet_event** event);
FLEET_API fleet_status fleet_sgemmt_async(fleet_context* context, fleet_uplo uplo, fleet_op transa,
                                          fleet_op transb, float alpha, const fleet_matrix* a,
                                          const fleet_matrix* b, float beta, fleet_matrix* c,
                                          fleet_event** event);
FLEET_API fleet_status fleet_dgemmt_async(fleet_context* context, fleet_uplo uplo, fleet_op transa,
                                          fleet_op transb, double alpha, const fleet_matrix* a,
                                          const fleet_matrix* b, double beta, fleet_matrix* c,
                                          fleet_event** event);
FLEET_API fleet_status fleet_cgemmt_async(fleet_context* context, fleet_uplo uplo, fleet_op transa,
                                          fleet_op transb, const void* alpha, const fleet_matrix* a,
                                          const fleet_matrix* b, const void* beta, fleet_matrix* c,
                                          fleet_event** event);
FLEET_API fleet_status fleet_zgemmt_async(fleet_context* context, fleet_uplo uplo, fleet_op transa,
                                          fleet_op transb, const void* alpha, const fleet_matrix* a,
                                          const fleet_matrix* b, const void* beta, fleet_matrix* c,
                                          fleet_event** event);
FLEET_API fleet_status fleet_ssymm_async(fleet_context* context, fleet_side side, fleet_uplo uplo,
                                         float alpha, const fleet_matrix* a, const fleet_matrix* b,
                                         float beta, fleet_matrix* c, fleet_event** event);
FLEET_API fleet_status fleet_dsymm_async(fleet_context* context, fleet_side side, fleet_uplo uplo,
                                         double alpha, const fleet_matrix* a, const fleet_matrix* b,
                                         double beta, fleet_matrix* c, fleet_event** event);
FLEET_API fleet_status fleet_csymm_async(fleet_context* context, fleet_side side, fleet_uplo uplo,
                                         const void* alpha, const fleet_matrix* a,
                                         const fleet_matrix* b, const void* beta, fleet_matrix* c,
                                         fleet_event** event);
FLEET_API fleet_status fleet_zsymm_async(fleet_context* context, fleet_side side, fleet_uplo uplo,
                                         const void* alpha, const fleet_matrix* a,
                                         const fleet_matrix* b, const void* beta, fleet_matrix* c,
                                         fleet_event** event);
FLEET_API fleet_status fleet_chemm_async(fleet_context* context, fleet_side side, fleet_uplo uplo,
                                         const void* alpha, const fleet_matrix* a,
                                         const fleet_matrix* b, const void* beta, fleet_matrix* c,
                                         fleet_event** event);
FLEET_API fleet_status fleet_zhemm_async(fleet_context* context, fleet_side side, fleet_uplo uplo,
                                         const void* alpha, const fleet_matrix* a,
                                         const fleet_matrix* b, const void* beta, fleet_matrix* c,
                                         fleet_event** event);
FLEET_API fleet_status fleet_ssyrk_async(fleet_context* context, fleet_uplo uplo, fleet_op trans,
                                         float alpha, const fleet_matrix* a, float beta,
                                         fleet_matrix* c, fleet_event** event);
FLEET_API fleet_status fleet_dsyrk_async(fleet_context* context, fleet_uplo uplo, fleet_op trans,
                                         double alpha, const fleet_matrix* a, double beta,
                                         fleet_matrix* c, fleet_event** event);
FLEET_API fleet_status fleet_csyrk_async(fleet_context* context, fleet_uplo uplo, fleet_op trans,
                                         const void* alpha, const fleet_matrix* a, const void* beta,
                                         fleet_matrix* c, fleet_event** event);
FLEET_API fleet_status fleet_zsyrk_async(fleet_context* context, fleet_uplo uplo, fleet_op trans,
                                         const void* alpha, const fleet_matrix* a, const void* beta,
                                         fleet_matrix* c, fleet_event** event);
FLEET_API fleet_status fleet_cherk_async(fleet_context* context, fleet_uplo uplo, fleet_op trans,
                                         float alpha, const fleet_matrix* a, float beta,
                                         fleet_matrix* c, fleet_event** event);
FLEET_API fleet_status fleet_zherk_async(fleet_context* context, fleet_uplo uplo, fleet_op trans,
                                         double alpha, const fleet_matrix* a, double beta,
                                         fleet_matrix* c, fleet_event** event);
FLEET_API fleet_status fleet_ssyr2k_async(fleet_context* context, fleet_uplo uplo, fleet_op trans,
                                          float alpha, const fleet_matrix* a, const fleet_matrix* b,
                                          float beta, fleet_matrix* c, fleet_event** event);
FLEET_API fleet_status fleet_dsyr2k_async(fleet_context* context, fleet_uplo uplo, fleet_op trans,
                                          double alpha, const fleet_matrix* a,
                                          const fleet_matrix* b, double beta, fleet_matrix* c,
                                          fleet_event** event);
FLEET_API fleet_status fleet_csyr2k_async(fleet_context* context, fleet_uplo uplo, fleet_op trans,
                                          const void* alpha, const fleet_matrix* a,
                                          const fleet_matrix* b, const void* beta, fleet_matrix* c,
                                          fleet_event** event);
FLEET_API fleet_status fleet_zsyr2k_async(fleet_context* context, fleet_uplo uplo, fleet_op trans,
                                          const void* alpha, const fleet_matrix* a,
                                          const fleet_matrix* b, const void* beta, fleet_matrix* c,
                                          fleet_event** event);
FLEET_API fleet_status fleet_cher2k_async(fleet_context* context, fleet_uplo uplo, fleet_op trans,
                                          const void* alpha, const fleet_matrix* a,
                                          const fleet_matrix* b, float beta, fleet_matrix* c,
                                          fleet_event** event);
FLEET_API fleet_status fleet_zher2k_async(fleet_context* context, fleet_uplo uplo, fleet_op trans,
                                          const void* alpha, const fleet_matrix* a,
                                          const fleet_matrix* b, double beta, fleet_matrix* c,
                                          fleet_event** event);
FLEET_API fleet_status fleet_strmm_async(fleet_context* context, fleet_side side, fleet_uplo uplo,
                                         fleet_op transa, fleet_diag diag, float alpha,
                                         const fleet_matrix* a, fleet_matrix* b,
                                         fleet_event** event);
FLEET_API fleet_status fleet_dtrmm_async(fleet_context* context, fleet_side side, fleet_uplo uplo,
                                         fleet_op transa, fleet_diag diag, double alpha,
                                         const fleet_matrix* a, fleet_matrix* b,
                                         fleet_event** event);
FLEET_API fleet_status fleet_ctrmm_async(fleet_context* context, fleet_side side, fleet_uplo uplo,
                                         fleet_op transa, fleet_diag diag, const void* alpha,
                                         const fleet_matrix* a, fleet_matrix* b,
                                         fleet_event** event);
FLEET_API fleet_status fleet_ztrmm_async(fleet_context* context, fleet_side side, fleet_uplo uplo,
                                         fleet_op transa, fleet_diag diag, const void* alpha,
                                         const fleet_matrix* a, fleet_matrix* b,
                                         fleet_event** event);
FLEET_API fleet_status fleet_strsm_async(fleet_context* context, fleet_side side, fleet_uplo uplo,
                                         fleet_op transa, fleet_diag diag, float alpha,
                                         const fleet_matrix* a, fleet_matrix* b,
                                         fleet_event** event);
FLEET_API fleet_status fleet_dtrsm_async(fleet_context* context, fleet_side side, fleet_uplo uplo,
                                         fleet_op transa, fleet_diag diag, double alpha,
                                         const fleet_matrix* a, fleet_matrix* b,
                                         fleet_event** event);
FLEET_API fleet_status fleet_ctrsm_async(fleet_context* context, fleet_side side, fleet_uplo uplo,
                                         fleet_op transa, fleet_diag diag, const void* alpha,
                                         const fleet_matrix* a, fleet_matrix* b,
                                         fleet_event** event);
FLEET_API fleet_status fleet_ztrsm_async(fleet_context* context, fleet_side side, fleet_uplo uplo,
                                         fleet_op transa, fleet_diag diag, const void* alpha,
                                         const fleet_matrix* a, fleet_matrix* b,
                                         fleet_event** event);
FLEET_API fleet_status fleet_sgemv_async(fleet_context* context, fleet_op trans, float alpha,
                                         const fleet_matrix* a, const fleet_matrix* x, float beta,
                                         fleet_matrix* y, fleet_event** event);
FLEET_API fleet_status fleet_dgemv_async(fleet_context* context, fleet_op trans, double alpha,
                                         const fleet_matrix* a, const fleet_matrix* x, double beta,
                                         fleet_matrix* y, fleet_event** event);
FLEET_API fleet_status fleet_cgemv_async(fleet_context* context, fleet_op trans, const void* alpha,
                                         const fleet_matrix* a, const fleet_matrix* x,
                                         const void* beta, fleet_matrix* y, fleet_event** event);
FLEET_API fleet_status fleet_zgemv_async(fleet_context* context, fleet_op trans, const void* alpha,
                                         const fleet_matrix* a, const fleet_matrix* x,
                                         const void* beta, fleet_matrix* y, fleet_event** event);
FLEET_API fleet_status fleet_saxpy_async(fleet_context* context, float alpha, const fleet_matrix* x,
                                         fleet_matrix* y, fleet_event** event);
FLEET_API fleet_status fleet_daxpy_async(fleet_context* context, double alpha,
                                         const fleet_matrix* x, fleet_matrix* y,
                                         fleet_event** event);
FLEET_API fleet_status fleet_caxpy_async(fleet_context* context, const void* alpha,
                                         const fleet_matrix* x, fleet_matrix* y,
                                         fleet_event** event);
FLEET_API fleet_status fleet_zaxpy_async(fleet_context* context, const void* alpha,
                                         const fleet_matrix* x, fleet_matrix* y,
                                         fleet_event** event);
FLEET_API fleet_status fleet_sdot_async(fleet_context* context, const fleet_matrix* x,
                                        const fleet_matrix* y, fleet_matrix* result,
                                        fleet_event** event);
FLEET_API fleet_status fleet_ddot_async(fleet_context* context, const fleet_matrix* x,
                                        const fleet_matrix* y, fleet_matrix* result,
                                        fleet_event** event);
FLEET_API fleet_status fleet_cdotu_async(fleet_context* context, const fleet_matrix* x,
                                         const fleet_matrix* y, fleet_matrix* result,
                                         fleet_event** event);
FLEET_API fleet_status fleet_zdotu_async(fleet_context* context, const fleet_matrix* x,
                                         const fleet_matrix* y, fleet_matrix* result,
                                         fleet_event** event);
FLEET_API fleet_status fleet_cdotc_async(fleet_context* context, const fleet_matrix* x,
                                         const fleet_matrix* y, fleet_matrix* result,
                                         fleet_event** event);
FLEET_API fleet_status fleet_zdotc_async(fleet_context* context, const fleet_matrix* x,
                                         const fleet_matrix* y, fleet_matrix* result,
                                         fleet_event** event);

/* Texts. `*text` is allocated by the library: give it back with fleet_free_text.
 * A problem is written as "dgemm m=8192 n=8192 k=8192 a@h b@0 c@h" with, where they differ from
 * the default, transa=t transb=c beta=0 batch=16; `@h` pinned host, `@p` pageable host, `@0` device
 * 0. The routines are sgemm, dgemm, cgemm, zgemm, hgemm (F16), bf16gemm and tf32gemm, and those
 * with vectors: "dgemv m=8192 n=4096 a@h x@h y@h transa=t", "daxpy n=8192 x@0 y@0", "zdotc n=8192
 * x@h y@h r@h" (r: the result); and with triangles: "dsyrk n=8192 k=4096 a@h c@h uplo=u transa=t",
 * "zhemm m=8192 n=512 a@h b@h c@h side=r". */
FLEET_API void fleet_free_text(char* text);
/* The plan for a problem, and why: workers, grid, tile, tasks, bytes_by_link, plan_s, predicted_s,
 * bound_s, limited_by, rules, and more. `why` lists at most 32 candidates, best first, each with
 * its verdict, reason, estimate_s, predicted_s (null if it was not planned), tasks and tuning;
 * why_left_out counts the others. joules are those of the devices that take part, joules_node of
 * all; predicted_value is the objective's number and bound_value the least that any plan can have.
 * They are null where they are not known. cpu_share is the part of the multiply-adds that the CPU
 * computes beside the devices, and cpu_left_out why it computes none; in_place lists the operands
 * in host memory that devices use in place. `corrections` lists what runs have changed in the
 * machine ({"rate": "products d of device 0", "factor": 0.75}, see `online` in
 * docs/reference/settings.md). No device is needed: the context's machine is enough. */
FLEET_API fleet_status fleet_plan_json(fleet_context* context, const char* problem, char** text);
/* The simulated timeline of that plan, as Chrome trace JSON. */
FLEET_API fleet_status fleet_simulate_json(fleet_context* context, const char* problem,
                                           char** text);
/* The same of several calls, planned as one: a problem a line, with operands as "a=NAME@PLACE";
 * operands with one name are one matrix. Its tiles depend on shapes and the machine only. `alone_s`
 * is the predicted time of each call by itself. */
FLEET_API fleet_status fleet_plan_program_json(fleet_context* context, const char* program,
                                               char** text);
FLEET_API fleet_status fleet_simulate_program_json(fleet_context* context, const char* program,
                                                   char** text);
/* {"bound_s": ..., "limited_by": ...} */
FLEET_API fleet_status fleet_bound_json(fleet_context* context, const char* problem, char** text);
/* The measured timeline of the context's last call that ran a plan; FLEET_UNSUPPORTED if none did.
 * GPUs measure single tasks only with timeline=1, and after a run that was not as predicted; else
 * each task has the time of the run. */
FLEET_API fleet_status fleet_trace_json(fleet_context* context, char** text);
/* The machine that the context plans for, with what runs have corrected, which is probed now if it
 * is not known yet. */
FLEET_API fleet_status fleet_machine_json(fleet_context* context, char** text);
/* Version, settings in force and where they come from, backend, devices, the CPU BLAS in use, the
 * machine's name and corrections. */
FLEET_API fleet_status fleet_config_json(fleet_context* context, char** text);
/* Calls so far, where they ran and why, devices that they did without, what the CPU did beside
 * devices (cpu_beside: calls, and its share of their work), programs of queued calls whose plan was
 * made while the devices ran others (planned_ahead), calls that began while others were on devices
 * of their own (at_once), the calls of LAPACK that the drop-in was given, by name (lapack: all,
 * those that the LAPACK behind did, seconds, flops), what the pool of large blocks did in this
 * process (pool: blocks given, and bytes given, reused, pinned and left to malloc), corrections of
 * the model, bytes per link, seconds; and the last call by itself. */
FLEET_API fleet_status fleet_stats_json(fleet_context* context, char** text);
/* Called during long work with the share that is done (0 to 1) and the current step. A result other
 * than 0 stops the work. */
typedef int (*fleet_progress)(void* user, double share, const char* what);
/* Measures the devices that `options` name (as in fleet_context_create) as a machine file: links
 * alone and under load, kernels at several tiles, shared ports, the CPU BLAS, pinning. Each value
 * is measured at least 10 times, until its 95 % confidence interval is within 5 % of the mean or
 * its share of `budget_s` seconds is spent, which its notes then say. `types` are the kernels to
 * measure, as in "d,s"; NULL or "" means all. Each part replaces `file` (or NULL) by a whole
 * machine file; an unfinished one is continued. `progress` may be NULL; if it stops the probe, the
 * machine is as after the last part. FLEET_UNSUPPORTED: there is no device; FLEET_BAD_FILE: `file`
 * cannot be written. */
FLEET_API fleet_status fleet_probe_json(const char* options, const char* types, const char* file,
                                        double budget_s, fleet_progress progress, void* user,
                                        char** text);
/* Checks this machine: each place and each link verified by data, the CPU BLAS, memory, limits,
 * settings. `options` as in fleet_context_create, but a bad setting in the environment, or a
 * backend that cannot start, is a finding and no error.
 * {"healthy": no finding is broken, "findings": [{"subject": ..., "verdict": "ok", "slow" or
 * "broken", "text": ..., "advice": ...}, ...]} */
FLEET_API fleet_status fleet_doctor_json(const char* options, char** text);

#ifdef __cplusplus
}
#endif
#endif
