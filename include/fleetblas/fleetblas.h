/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fleetblas.h: level-3 BLAS on all the devices of a node. C99. This header is the manual.
 *
 * Matrices are column-major; all sizes, leading dimensions and strides are int64_t, in elements.
 * Every function may be called from any thread. Calls on one context run in turn.
 * Functions return FLEET_OK or a status; fleet_message() has the one-line reason, per thread.
 * Nothing is printed unless asked for (FLEETBLAS_VERBOSE, FLEETBLAS_LOG_LEVEL), nothing aborts.
 *
 * After a fork the child computes on the CPU with one thread, and can make no context's devices
 * work: operands that the CPU cannot reach are FLEET_UNSUPPORTED there. The parent goes on as
 * before. While the process exits, calls from exit handlers compute on the CPU, and other threads
 * are held back. Once used the library stays loaded.
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
typedef enum fleet_type {
  FLEET_F32 = 's',
  FLEET_F64 = 'd',
  FLEET_C32 = 'c',
  FLEET_C64 = 'z',
  FLEET_F16 = 'h',  /* IEEE binary16: 2 bytes */
  FLEET_BF16 = 'b', /* bfloat16, the upper half of a float: 2 bytes */
  FLEET_TF32 = 't'  /* no storage type, only a way to compute on floats: see fleet_gemm_ex */
} fleet_type;

/* Locations of memory: a device 0, 1, ..., or one of these. */
#define FLEET_HOST (-1)          /* pinned host memory */
#define FLEET_HOST_PAGEABLE (-2) /* any other host memory: malloc's, NumPy's, CUDA's managed */

/* Devices, plans and pools. NULL stands for the process-wide default context wherever a
 * fleet_context* is taken: it is made on first use from the environment, and never destroyed. */
typedef struct fleet_context fleet_context;

/* "0.1.0" */
FLEET_API const char* fleet_version(void);
/* "ok", "bad_argument", ... */
FLEET_API const char* fleet_status_string(fleet_status status);
/* Why this thread's last call failed, one line; "" if it did not. Valid until its next call. */
FLEET_API const char* fleet_message(void);

/* Makes a context. `options` is NULL or "name=value" lines (';' also separates): the settings of
 * the environment without FLEETBLAS_, in lower case: backend, devices, machine, tile, rules,
 * memory_cap, offload, ... They go before the environment. Bad values, there or in the environment:
 * FLEET_BAD_OPTION or FLEET_BAD_FILE, and *context is NULL; so it is with backend=cuda where there
 * is no driver, or no CUDA backend beside the library: FLEET_UNSUPPORTED. (The default context
 * leaves what it cannot use at its default instead, and says so at FLEETBLAS_LOG_LEVEL=2.) */
FLEET_API fleet_status fleet_context_create(const char* options, fleet_context** context);
/* Waits for calls in progress, frees everything that fleet_alloc gave from it. NULL: nothing. */
FLEET_API fleet_status fleet_context_destroy(fleet_context* context);

/* Memory at a location. `*data` is aligned to 256 bytes; 0 bytes give NULL. */
FLEET_API fleet_status fleet_alloc(fleet_context* context, int location, size_t bytes, void** data);
FLEET_API fleet_status fleet_free(fleet_context* context, void* data);
/* Copies between any two locations; returns when done. */
FLEET_API fleet_status fleet_copy(fleet_context* context, void* to, const void* from, size_t bytes);
/* The context's next calls start after what is now in this stream of a device (a cudaStream_t; the
 * legacy default stream is NULL or 1, the one of each thread 2). For operands that the caller's own
 * kernels may still be writing or reading. Calls are complete when they return, so what the caller
 * starts after them needs nothing. FLEET_BAD_ARGUMENT: the context has no such device;
 * FLEET_UNSUPPORTED: it has none at all. Virtual devices have no streams: nothing is done. */
FLEET_API fleet_status fleet_wait_stream(fleet_context* context, int device, void* stream);
/* Gives pooled device memory back to the system. */
FLEET_API fleet_status fleet_trim(fleet_context* context);
/* Makes existing host memory reachable for devices (pinned) until it is unregistered. Where the
 * system refuses, it stays what it was, and works as that: FLEET_OK. */
FLEET_API fleet_status fleet_host_register(fleet_context* context, void* data, size_t bytes);
FLEET_API fleet_status fleet_host_unregister(fleet_context* context, void* data);

/* C := alpha*op(A)*op(B) + beta*C on the devices expected to finish it first.
 *   op(A)  m x k    lda >= max(1, transa == FLEET_NO_TRANS ? m : k)
 *   op(B)  k x n    ldb >= max(1, transb == FLEET_NO_TRANS ? k : n)
 *   C      m x n    ldc >= max(1, m); not read when beta == 0, so it may hold NaN
 * A and B are not read when alpha == 0 or k == 0. Each matrix may lie in host memory or in the
 * memory of any one device of the context. A and B may overlap each other. Where C overlaps A or B
 * the CPU BLAS does the call, with what its reference leaves undefined left undefined. The scalars
 * of complex types are read from host memory, as two numbers.
 *
 * Returns when C is complete:
 *   FLEET_OK
 *   FLEET_BAD_ARGUMENT   a flag or size is illegal, a leading dimension too small, or an operand on
 *                        a GPU that the context does not use; C untouched
 *   FLEET_NO_MEMORY      neither devices nor host can hold what the call needs; C untouched
 *   FLEET_DEVICE_FAILED  the device that holds an operand was lost, or after C was changed a device
 *                        failed or memory ran out and the CPU could not complete it; C is undefined
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
 *                              |beta|*|C|), and s*2^-25 besides where F16 gets subnormal
 *   F32                 TF32   devices may round A and B to 11 significant bits (2^-11 each);
 *                              sums in float. The CPU does not round */
FLEET_API fleet_status fleet_gemm_ex(fleet_context* context, fleet_op transa, fleet_op transb,
                                     int64_t m, int64_t n, int64_t k, const void* alpha,
                                     const void* a, fleet_type atype, int64_t lda, const void* b,
                                     fleet_type btype, int64_t ldb, const void* beta, void* c,
                                     fleet_type ctype, int64_t ldc, fleet_type compute);

/* `batch` independent products: item i uses a + i*stride_a, b + i*stride_b, c + i*stride_c. The
 * items are spread over the devices. A stride of 0 for A or B means one matrix for all items: it is
 * moved once. Items of C must not overlap (FLEET_BAD_ARGUMENT where the strides say that they do).
 * batch == 0: nothing is done. */
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

/* The routines of which one triangle counts, of C or of A. Of what is a triangle the other one is
 * neither read nor written; Hermitian matrices have real diagonals: the imaginary parts there are
 * not read, and become 0 in C where anything changes. Otherwise as fleet_dgemm, statuses too.
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
 * real. trans is FLEET_NO_TRANS, FLEET_TRANS (syrk) or FLEET_CONJ_TRANS (herk; the same as
 *                FLEET_TRANS for real types) */
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
 * alpha conjugated, beta real */
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
 *          n x n: the triangle `uplo`, and with FLEET_UNIT ones on the diagonal, which is not
 *          read then
 *   trsm   B := X, with op(A)*X = alpha*B (FLEET_LEFT) or X*op(A) = alpha*B
 *
 * alpha == 0: B becomes 0, and neither A nor B is read. A singular A is not noticed: X is then
 * not finite. On GPUs, what is not finite in B or on A's diagonal makes up to 128 neighbours in
 * the same column of X (FLEET_RIGHT: row) not finite too: blocks of that order are solved by
 * their inverses. */
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
 * that is worth it for operands on devices, and for what links bring sooner than the CPU's memory.
 *
 *   gemv   y := alpha*op(A)*x + beta*y; A m x n, lda >= max(1, m)
 *   axpy   y := alpha*x + y, n elements each
 *   dot    *result := sum of x[i]*y[i], over n elements; dotc: of conj(x[i])*y[i]
 *
 * With FLEET_NO_TRANS x has n elements and y m, else x m and y n. y is not read when beta == 0. As
 * in the reference BLAS, gemv changes nothing where m or n is 0; axpy reads no x when alpha == 0;
 * of no elements, or a negative number of them, axpy changes nothing and dot is 0.
 *
 * Element i of a vector is x[i*incx], or x[(i-n+1)*incx] where incx is negative: the pointer is the
 * lowest address in any case. axpy and dot take an increment of 0: the same element over and over.
 * Complex scalars, vectors and results are pointers to pairs of floats or doubles, in host memory
 * as scalars, anywhere as vectors and results. Where what is written overlaps what is read, the CPU
 * does it. The same plan gives the same bits.
 *
 * Completion, threads and errors are as for fleet_dgemm; and
 *   FLEET_BAD_ARGUMENT   gemv: an increment is 0; nothing changed
 *   FLEET_UNSUPPORTED    an increment is 0 and an operand on a device; nothing changed
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

/* Texts. `*text` is allocated by the library: give it back with fleet_free_text.
 * A problem is written as "dgemm m=8192 n=8192 k=8192 a@h b@0 c@h" with, where they differ from
 * the default, transa=t transb=c beta=0 batch=16; `@h` pinned host, `@p` pageable host, `@0` device
 * 0. The routines are sgemm, dgemm, cgemm, zgemm, hgemm (F16), bf16gemm and tf32gemm, and those
 * with vectors: "dgemv m=8192 n=4096 a@h x@h y@h transa=t", "daxpy n=8192 x@0 y@0", "zdotc n=8192
 * x@h y@h r@h" (r: the result); and with triangles: "dsyrk n=8192 k=4096 a@h c@h uplo=u transa=t",
 * "zhemm m=8192 n=512 a@h b@h c@h side=r". */
FLEET_API void fleet_free_text(char* text);
/* What would be done and why: workers, grid, tile, tasks, bytes_by_link, plan_s, predicted_s,
 * bound_s, limited_by, rules, and more. `why` lists what was considered, best first and at most 32:
 * each with its verdict, reason, estimate_s, predicted_s (null if it was not planned), tasks and
 * tuning; why_left_out counts the others. Needs no device: the context's machine is enough. */
FLEET_API fleet_status fleet_plan_json(fleet_context* context, const char* problem, char** text);
/* The simulated timeline of that plan, as Chrome trace JSON. */
FLEET_API fleet_status fleet_simulate_json(fleet_context* context, const char* problem,
                                           char** text);
/* {"bound_s": ..., "limited_by": ...} */
FLEET_API fleet_status fleet_bound_json(fleet_context* context, const char* problem, char** text);
/* The measured timeline of the context's last call that ran a plan; FLEET_UNSUPPORTED if none did.
 * GPUs measure single tasks with timeline=1 only; else each task has the time of the whole run. */
FLEET_API fleet_status fleet_trace_json(fleet_context* context, char** text);
/* The machine that the context plans for (probed now if it has to be). */
FLEET_API fleet_status fleet_machine_json(fleet_context* context, char** text);
/* Version, settings in force and where they come from, backend, devices, the CPU BLAS in use. */
FLEET_API fleet_status fleet_config_json(fleet_context* context, char** text);
/* Calls so far, where they ran and why, bytes per link, seconds; and the last call by itself. */
FLEET_API fleet_status fleet_stats_json(fleet_context* context, char** text);
/* Called while a long work goes on: the share of it that is done (0 to 1), and what is done now.
 * Anything but 0: stop here. */
typedef int (*fleet_progress)(void* user, double share, const char* what);
/* Measures the devices that `options` name (as in fleet_context_create) as a machine file: links
 * alone and under load, kernels at several tiles, shared ports, the CPU BLAS, pinning; each value
 * repeated until its 95 % confidence interval is within 5 % of the mean, 10 times at least, or
 * until its share of `budget_s` seconds is spent, which its notes then say. `types` are kernels to
 * measure, as in "d,s"; NULL or "": all. `file` (or NULL) is replaced after each part by a whole
 * machine file; one that was left unfinished is gone on with. `progress` may be NULL; stopped by
 * it, the machine is as after the last part. FLEET_UNSUPPORTED where there is no device,
 * FLEET_BAD_FILE where `file` cannot be written. */
FLEET_API fleet_status fleet_probe_json(const char* options, const char* types, const char* file,
                                        double budget_s, fleet_progress progress, void* user,
                                        char** text);
/* What was found on this machine and whether it works: each place and each link verified by data,
 * the CPU BLAS, memory, limits, settings. `options` as in fleet_context_create, but what is bad in
 * the environment, or cannot be started, is a finding and no error.
 * {"healthy": no finding is broken, "findings": [{"subject": ..., "verdict": "ok", "slow" or
 * "broken", "text": ..., "advice": ...}, ...]} */
FLEET_API fleet_status fleet_doctor_json(const char* options, char** text);

#ifdef __cplusplus
}
#endif
#endif
