// SPDX-License-Identifier: BSD-3-Clause
// fake_cuda.c: the few entries of libcuda, libcublas, libnvblas and libnvidia-ml that the
// benchmark's peers call, computing on host memory, so that they can be tested without a GPU.
// Compiled once per library, with -DFAKE_DRIVER, -DFAKE_CUBLAS, -DFAKE_NVBLAS, -DFAKE_BLAS or
// -DFAKE_NVML. Knows nothing of FleetBLAS.
#define _GNU_SOURCE
#include <complex.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef FAKE_DRIVER
static int current = -1;
int cuInit(unsigned flags) { return (int)flags; }
int cuDeviceGetCount(int* count) {
  const char* given = getenv("FAKE_GPUS");
  *count = given ? atoi(given) : 2;
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = (void*)(intptr_t)(device + 1);
  return 0;
}
int cuCtxSetCurrent(void* context) {
  current = (int)(intptr_t)context - 1;
  return 0;
}
int cuDeviceGetPCIBusId(char* text, int length, int device) {
  return snprintf(text, (size_t)length, "0000:%02d:00.0", 7 - device) >= length;
}
int cuCtxEnablePeerAccess(void* context, unsigned flags) {
  // As between GPUs that are connected already, or are one.
  return context == NULL || flags != 0 || (int)(intptr_t)context - 1 == current ? 101 : 704;
}
int cuCtxSynchronize(void) { return current < 0 ? 201 : 0; }
int cuPointerGetAttribute(unsigned* kind, int attribute, uint64_t address) {
  if (address == 0 || attribute != 2 || getenv("FAKE_HOST_MEMORY")) return 1;
  *kind = 2;
  return 0;
}
#else

#if !defined(FAKE_NVML)
static void multiply(int ta, int tb, size_t m, size_t n, size_t k, double alpha, const double* a,
                     size_t lda, const double* b, size_t ldb, double beta, double* c, size_t ldc) {
  for (size_t j = 0; j < n; ++j)
    for (size_t i = 0; i < m; ++i) {
      double sum = 0;
      for (size_t l = 0; l < k; ++l)
        sum += (ta ? a[l + i * lda] : a[i + l * lda]) * (tb ? b[j + l * ldb] : b[l + j * ldb]);
      c[i + j * ldc] = alpha * sum + (beta == 0 ? 0 : beta * c[i + j * ldc]);
    }
  if (getenv("FAKE_WRONG") && m > 0 && n > 0) c[m / 2 + n / 2 * ldc] += 1;
}
#endif
#endif

#ifdef FAKE_NVML
// CUDA's devices 0 and 1 are at 07 and 06 on the bus, and draw 70 and 60 W; a counter moves every
// 100 ms.
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
  *device = (void*)(intptr_t)atoi(bus + 5);
  return 0;
}
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
  struct timespec now;
  const char* broken = getenv("FAKE_NVML");
  if (broken && strcmp(broken, "none") == 0) return 3;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const unsigned long long tenths =
      (unsigned long long)now.tv_sec * 10 + (unsigned long long)now.tv_nsec / 100000000;
  *millijoules = broken && strcmp(broken, "still") == 0
                     ? 5
                     : tenths * 100 * 10 * (unsigned long long)(intptr_t)device;
  return 0;
}
#endif

#ifdef FAKE_CUBLAS
struct handle {
  int devices, block, pinning;
};
int cublasGetProperty(int which, int* value) {
  *value = 13 - which;
  return 0;
}
int cublasCreate_v2(struct handle** handle) {
  *handle = calloc(1, sizeof **handle);
  return 0;
}
int cublasDestroy_v2(struct handle* handle) {
  free(handle);
  return 0;
}
int cublasDgemm_v2(struct handle* handle, int ta, int tb, int m, int n, int k, const double* alpha,
                   const double* a, int lda, const double* b, int ldb, const double* beta,
                   double* c, int ldc) {
  if (handle == NULL) return 1;
  multiply(ta, tb, (size_t)m, (size_t)n, (size_t)k, *alpha, a, (size_t)lda, b, (size_t)ldb, *beta,
           c, (size_t)ldc);
  return 0;
}
int cublasXtCreate(struct handle** handle) { return cublasCreate_v2(handle); }
int cublasXtDestroy(struct handle* handle) { return cublasDestroy_v2(handle); }
int cublasXtDeviceSelect(struct handle* handle, int count, const int* ids) {
  handle->devices = count;
  for (int i = 0; i < count; ++i)
    if (ids[i] != i) return 7;
  return 0;
}
int cublasXtSetBlockDim(struct handle* handle, int block) {
  handle->block = block;
  return 0;
}
int cublasXtSetPinningMemMode(struct handle* handle, int mode) {
  handle->pinning = mode;
  return 0;
}
// Blocks of 1024 are best unless they fail; pinning helps.
int cublasXtDgemm(struct handle* handle, int ta, int tb, size_t m, size_t n, size_t k,
                  const double* alpha, const double* a, size_t lda, const double* b, size_t ldb,
                  const double* beta, double* c, size_t ldc) {
  const char* full = getenv("FAKE_NO_MEMORY_BLOCK");
  if (handle->devices == 0) return 1;
  if (full && (atoi(full) == handle->block || atoi(full) == 0)) return 3;
  usleep((unsigned)(handle->block + (handle->pinning ? 0 : 512)) * 40);
  multiply(ta, tb, m, n, k, *alpha, a, lda, b, ldb, *beta, c, ldc);
  return 0;
}
#endif

#ifdef FAKE_CUBLAS
// The routines with triangles, by their definitions, in double and double complex ("Z").
typedef double complex number;
enum kind { SYMMETRIC, HERMITIAN, TRIANGULAR, UNIT };
struct matrix {
  void* data;
  size_t leading;
  int is_complex;
};
static number get(struct matrix x, size_t i, size_t j) {
  const size_t at = i + j * x.leading;
  return x.is_complex ? ((number*)x.data)[at] : ((double*)x.data)[at];
}
static void set(struct matrix x, size_t i, size_t j, number value) {
  const size_t at = i + j * x.leading;
  if (x.is_complex)
    ((number*)x.data)[at] = value;
  else
    ((double*)x.data)[at] = creal(value);
}
// Of a matrix of which one triangle is stored.
static number get_half(struct matrix x, enum kind kind, int upper, size_t i, size_t j) {
  const int stored = upper ? i <= j : i >= j;
  if (kind >= TRIANGULAR) return i == j && kind == UNIT ? 1 : stored ? get(x, i, j) : 0;
  if (kind == HERMITIAN && i == j) return creal(get(x, i, i));
  if (stored) return get(x, i, j);
  return kind == HERMITIAN ? conj(get(x, j, i)) : get(x, j, i);
}
static number turned(struct matrix x, enum kind kind, int upper, int op, size_t i, size_t j) {
  const number value = op ? get_half(x, kind, upper, j, i) : get_half(x, kind, upper, i, j);
  return op == 2 ? conj(value) : value;
}
static number scalar(const void* value, int is_complex) {
  return is_complex ? *(const number*)value : *(const double*)value;
}
// C = alpha * half A times B, or B times it, + beta * C; B may be C.
static int sided(struct handle* handle, int right, int upper, enum kind kind, int op, size_t m,
                 size_t n, number alpha, struct matrix a, struct matrix b, number beta,
                 struct matrix c) {
  number* sums = malloc(sizeof(number) * (m * n + 1));
  if (handle == NULL || sums == NULL) return 1;
  for (size_t j = 0; j < n; ++j)
    for (size_t i = 0; i < m; ++i) {
      number sum = 0;
      for (size_t l = 0; l < (right ? n : m); ++l)
        sum += right ? get(b, i, l) * turned(a, kind, upper, op, l, j)
                     : turned(a, kind, upper, op, i, l) * get(b, l, j);
      sums[i + j * m] = alpha * sum + (beta == 0 ? 0 : beta * get(c, i, j));
    }
  for (size_t j = 0; j < n; ++j)
    for (size_t i = 0; i < m; ++i) set(c, i, j, sums[i + j * m]);
  free(sums);
  return 0;
}
// B = the X with op(A) X = alpha * B, or X op(A) = alpha * B.
static int solve(struct handle* handle, int right, int upper, enum kind kind, int op, size_t m,
                 size_t n, number alpha, struct matrix a, struct matrix b) {
  const size_t order = right ? n : m;
  const int forwards = (upper == 0) ^ (op != 0) ^ right;
  if (handle == NULL) return 1;
  for (size_t other = 0; other < (right ? m : n); ++other)
    for (size_t step = 0; step < order; ++step) {
      const size_t i = forwards ? step : order - 1 - step;
      number sum = alpha * (right ? get(b, other, i) : get(b, i, other));
      for (size_t before = 0; before < step; ++before) {
        const size_t l = forwards ? before : order - 1 - before;
        sum -= right ? get(b, other, l) * turned(a, kind, upper, op, l, i)
                     : turned(a, kind, upper, op, i, l) * get(b, l, other);
      }
      sum /= turned(a, kind, upper, op, i, i);
      set(b, right ? other : i, right ? i : other, sum);
    }
  return 0;
}
// One triangle of C = alpha op(A) op(B)^T + beta C, and twice: + alpha op(B) op(A)^T; or ^H.
static int ranks(struct handle* handle, int upper, int op, size_t n, size_t k, number alpha,
                 struct matrix a, struct matrix b, number beta, struct matrix c, int hermitian,
                 int twice) {
  const number second = hermitian ? conj(alpha) : alpha;
  if (handle == NULL || (op != 0 && op != (hermitian ? 2 : 1))) return 1;
  for (size_t j = 0; j < n; ++j)
    for (size_t i = upper ? 0 : j; i < (upper ? j + 1 : n); ++i) {
      number sum = 0;
      for (size_t l = 0; l < k; ++l) {
        number ai = op ? get(a, l, i) : get(a, i, l), aj = op ? get(a, l, j) : get(a, j, l);
        number bi = op ? get(b, l, i) : get(b, i, l), bj = op ? get(b, l, j) : get(b, j, l);
        // Of ^H the right one of two is conjugated, or the left one where op is ^H itself.
        if (hermitian && op) ai = conj(ai), bi = conj(bi);
        if (hermitian && !op) aj = conj(aj), bj = conj(bj);
        sum += alpha * ai * bj + (twice ? second * bi * aj : 0);
      }
      const number old = get(c, i, j);
      sum += beta == 0 ? 0 : beta * (hermitian && i == j ? creal(old) : old);
      set(c, i, j, hermitian && i == j ? creal(sum) : sum);
    }
  return 0;
}
#define M(x, COMPLEX) ((struct matrix){(void*)(x), (size_t)ld##x, COMPLEX})
#define SIDED(NAME, INT, KIND, Z)                                                                \
  int NAME(struct handle* handle, int side, int uplo, INT m, INT n, const void* alpha,           \
           const void* a, INT lda, const void* b, INT ldb, const void* beta, void* c, INT ldc) { \
    return sided(handle, side, uplo, KIND, 0, (size_t)m, (size_t)n, scalar(alpha, Z), M(a, Z),   \
                 M(b, Z), scalar(beta, Z), M(c, Z));                                             \
  }
#define RANK(NAME, INT, HERMITIAN, Z)                                                             \
  int NAME(struct handle* handle, int uplo, int op, INT n, INT k, const void* alpha,              \
           const void* a, INT lda, const void* beta, void* c, INT ldc) {                          \
    return ranks(handle, uplo, op, (size_t)n, (size_t)k, scalar(alpha, Z && !HERMITIAN), M(a, Z), \
                 M(a, Z), scalar(beta, Z && !HERMITIAN), M(c, Z), HERMITIAN, 0);                  \
  }
#define RANK2(NAME, INT, HERMITIAN, Z)                                                           \
  int NAME(struct handle* handle, int uplo, int op, INT n, INT k, const void* alpha,             \
           const void* a, INT lda, const void* b, INT ldb, const void* beta, void* c, INT ldc) { \
    return ranks(handle, uplo, op, (size_t)n, (size_t)k, scalar(alpha, Z), M(a, Z), M(b, Z),     \
                 scalar(beta, Z && !HERMITIAN), M(c, Z), HERMITIAN, 1);                          \
  }
#define TRIANGLES(TRMM, TRSM, INT, Z)                                                             \
  int TRMM(struct handle* handle, int side, int uplo, int op, int diag, INT m, INT n,             \
           const void* alpha, const void* a, INT lda, const void* b, INT ldb, void* c, INT ldc) { \
    return sided(handle, side, uplo, diag ? UNIT : TRIANGULAR, op, (size_t)m, (size_t)n,          \
                 scalar(alpha, Z), M(a, Z), M(b, Z), 0, M(c, Z));                                 \
  }                                                                                               \
  int TRSM(struct handle* handle, int side, int uplo, int op, int diag, INT m, INT n,             \
           const void* alpha, const void* a, INT lda, void* b, INT ldb) {                         \
    return solve(handle, side, uplo, diag ? UNIT : TRIANGULAR, op, (size_t)m, (size_t)n,          \
                 scalar(alpha, Z), M(a, Z), M(b, Z));                                             \
  }
#define ALL(PREFIX, SUFFIX, INT)                                  \
  SIDED(PREFIX##Dsymm##SUFFIX, INT, SYMMETRIC, 0)                 \
  SIDED(PREFIX##Zsymm##SUFFIX, INT, SYMMETRIC, 1)                 \
  SIDED(PREFIX##Zhemm##SUFFIX, INT, HERMITIAN, 1)                 \
  RANK(PREFIX##Dsyrk##SUFFIX, INT, 0, 0)                          \
  RANK(PREFIX##Zsyrk##SUFFIX, INT, 0, 1)                          \
  RANK(PREFIX##Zherk##SUFFIX, INT, 1, 1)                          \
  RANK2(PREFIX##Dsyr2k##SUFFIX, INT, 0, 0)                        \
  RANK2(PREFIX##Zsyr2k##SUFFIX, INT, 0, 1)                        \
  RANK2(PREFIX##Zher2k##SUFFIX, INT, 1, 1)                        \
  TRIANGLES(PREFIX##Dtrmm##SUFFIX, PREFIX##Dtrsm##SUFFIX, INT, 0) \
  TRIANGLES(PREFIX##Ztrmm##SUFFIX, PREFIX##Ztrsm##SUFFIX, INT, 1)
ALL(cublas, _v2, int)
ALL(cublasXt, , size_t)
#endif

#ifdef FAKE_NVBLAS
// As the real one: the file of settings is read at the first call, and small products stay on the
// CPU.
static char log_file[512];
static int tile, autopin;
static void read_settings(void) {
  char line[1024];
  FILE* file = fopen(getenv("NVBLAS_CONFIG_FILE"), "r");
  while (file && fgets(line, sizeof line, file)) {
    sscanf(line, "NVBLAS_LOGFILE %511s", log_file);
    sscanf(line, "NVBLAS_TILE_DIM %d", &tile);
    if (strstr(line, "NVBLAS_AUTOPIN_MEM_ENABLED")) autopin = 1;
  }
  if (file) fclose(file);
}
void dgemm_(const char* ta, const char* tb, const int* m, const int* n, const int* k,
            const double* alpha, const double* a, const int* lda, const double* b, const int* ldb,
            const double* beta, double* c, const int* ldc) {
  static FILE* log;
  const char* kind = getenv("FAKE_NVBLAS");
  const int small = *m < 16;
  if (log == NULL) {
    read_settings();
    log = fopen(log_file, "w");
  }
  if (kind && strcmp(kind, "crash") == 0 && !small) abort();
  fprintf(log, "[NVBLAS] dgemm[%s]: m=%d\n",
          small || (kind && strcmp(kind, "cpu") == 0) ? "cpu" : "gpu", *m);
  if (!small) usleep((unsigned)(tile + (autopin ? 0 : 1024)) * 40);
  multiply(*ta != 'n' && *ta != 'N', *tb != 'n' && *tb != 'N', (size_t)*m, (size_t)*n, (size_t)*k,
           *alpha, a, (size_t)*lda, b, (size_t)*ldb, *beta, c, (size_t)*ldc);
}
#endif

#ifdef FAKE_BLAS
void dgemm_(const char* ta, const char* tb, const int* m, const int* n, const int* k,
            const double* alpha, const double* a, const int* lda, const double* b, const int* ldb,
            const double* beta, double* c, const int* ldc) {
  multiply(*ta != 'n' && *ta != 'N', *tb != 'n' && *tb != 'N', (size_t)*m, (size_t)*n, (size_t)*k,
           *alpha, a, (size_t)*lda, b, (size_t)*ldb, *beta, c, (size_t)*ldc);
}
#endif
