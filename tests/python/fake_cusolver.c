// SPDX-License-Identifier: BSD-3-Clause
// fake_cusolver.c: the entries of libcusolver and libcusolverMg that the benchmark's peers call, in
// double, computing on host memory, so that they can be tested without a GPU. Compiled once per
// library, with -DFAKE_CUSOLVER or -DFAKE_CUSOLVERMG. Knows nothing of FleetBLAS.
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, INVALID = 3, ALLOC_FAILED = 2, REAL_64 = 1, LOWER = 0 };
#define A(i, j) a[(i) + (j)*lda]

static int potrf(int uplo, int64_t n, double* a, int64_t lda) {
  for (int64_t k = 0; k < n; ++k) {
    if (A(k, k) <= 0) return (int)k + 1;
    A(k, k) = sqrt(A(k, k));
    for (int64_t i = k + 1; i < n; ++i) *(uplo == LOWER ? &A(i, k) : &A(k, i)) /= A(k, k);
    for (int64_t j = k + 1; j < n; ++j)
      for (int64_t i = j; i < n; ++i) {
        if (uplo == LOWER)
          A(i, j) -= A(i, k) * A(j, k);
        else
          A(j, i) -= A(k, i) * A(k, j);
      }
  }
  if (getenv("FAKE_WRONG")) a[0] += 1;
  return 0;
}

// Pivots count from 1.
static int getrf(int64_t m, int64_t n, double* a, int64_t lda, int64_t* pivots) {
  int info = 0;
  for (int64_t k = 0; k < (m < n ? m : n); ++k) {
    int64_t best = k;
    for (int64_t i = k; i < m; ++i)
      if (fabs(A(i, k)) > fabs(A(best, k))) best = i;
    pivots[k] = best + 1;
    for (int64_t j = 0; j < n; ++j) {
      const double held = A(k, j);
      A(k, j) = A(best, j);
      A(best, j) = held;
    }
    if (A(k, k) == 0) {
      if (info == 0) info = (int)k + 1;
      continue;
    }
    for (int64_t i = k + 1; i < m; ++i) A(i, k) /= A(k, k);
    for (int64_t j = k + 1; j < n; ++j)
      for (int64_t i = k + 1; i < m; ++i) A(i, j) -= A(i, k) * A(k, j);
  }
  if (getenv("FAKE_WRONG")) a[0] += 1;
  return info;
}

static void getrs(int64_t n, int64_t columns, const double* a, int64_t lda, const int64_t* pivots,
                  double* b, int64_t ldb) {
  for (int64_t c = 0; c < columns; ++c) {
    double* x = b + c * ldb;
    for (int64_t k = 0; k < n; ++k) {
      const double held = x[k];
      x[k] = x[pivots[k] - 1];
      x[pivots[k] - 1] = held;
    }
    for (int64_t k = 0; k < n; ++k)
      for (int64_t i = k + 1; i < n; ++i) x[i] -= A(i, k) * x[k];
    for (int64_t k = n - 1; k >= 0; --k) {
      x[k] /= A(k, k);
      for (int64_t i = 0; i < k; ++i) x[i] -= A(i, k) * x[k];
    }
  }
}

#ifdef FAKE_CUSOLVER
static void geqrf(int64_t m, int64_t n, double* a, int64_t lda, double* tau) {
  for (int64_t k = 0; k < (m < n ? m : n); ++k) {
    double sum = 0;
    for (int64_t i = k + 1; i < m; ++i) sum += A(i, k) * A(i, k);
    tau[k] = 0;
    if (sum == 0) continue;
    const double beta = -copysign(sqrt(A(k, k) * A(k, k) + sum), A(k, k));
    tau[k] = (beta - A(k, k)) / beta;
    for (int64_t i = k + 1; i < m; ++i) A(i, k) /= A(k, k) - beta;
    A(k, k) = beta;
    for (int64_t j = k + 1; j < n; ++j) {
      double product = A(k, j);
      for (int64_t i = k + 1; i < m; ++i) product += A(i, k) * A(i, j);
      A(k, j) -= tau[k] * product;
      for (int64_t i = k + 1; i < m; ++i) A(i, j) -= tau[k] * product * A(i, k);
    }
  }
  if (getenv("FAKE_WRONG")) tau[0] += 0.5;
}

struct handle {
  int parameters;
};
int cusolverDnCreate(struct handle** handle) {
  *handle = calloc(1, sizeof **handle);
  return OK;
}
int cusolverDnDestroy(struct handle* handle) {
  free(handle);
  return OK;
}
int cusolverDnCreateParams(struct handle** parameters) {
  cusolverDnCreate(parameters);
  (*parameters)->parameters = 1;
  return OK;
}
int cusolverDnDestroyParams(struct handle* parameters) { return cusolverDnDestroy(parameters); }

enum { ON_DEVICE = 64, ON_HOST = 16 };
static int sized(struct handle* handle, struct handle* parameters, int type, size_t* on_device,
                 size_t* on_host) {
  if (handle == NULL || parameters == NULL || !parameters->parameters || type != REAL_64)
    return INVALID;
  *on_device = ON_DEVICE;
  *on_host = ON_HOST;
  return getenv("FAKE_NO_MEMORY") ? ALLOC_FAILED : OK;
}
static int is_ready(struct handle* handle, int type, void* work, size_t size, void* host_work,
                    size_t host_size) {
  // All of it may be used.
  memset(work, 1, size);
  memset(host_work, 1, host_size);
  return handle != NULL && type == REAL_64 && size == ON_DEVICE && host_size == ON_HOST;
}
int cusolverDnXpotrf_bufferSize(struct handle* handle, struct handle* parameters, int uplo,
                                int64_t n, int type, const void* a, int64_t lda, int compute,
                                size_t* on_device, size_t* on_host) {
  if (uplo > 1 || a == NULL || lda < n || compute != type) return INVALID;
  return sized(handle, parameters, type, on_device, on_host);
}
int cusolverDnXpotrf(struct handle* handle, struct handle* parameters, int uplo, int64_t n,
                     int type, void* a, int64_t lda, int compute, void* work, size_t size,
                     void* host_work, size_t host_size, int* info) {
  if (!is_ready(handle, type, work, size, host_work, host_size) || compute != type || !parameters)
    return INVALID;
  *info = potrf(uplo, n, a, lda);
  return OK;
}
int cusolverDnXgetrf_bufferSize(struct handle* handle, struct handle* parameters, int64_t m,
                                int64_t n, int type, const void* a, int64_t lda, int compute,
                                size_t* on_device, size_t* on_host) {
  if (a == NULL || n < 1 || lda < m || compute != type) return INVALID;
  return sized(handle, parameters, type, on_device, on_host);
}
int cusolverDnXgetrf(struct handle* handle, struct handle* parameters, int64_t m, int64_t n,
                     int type, void* a, int64_t lda, int64_t* pivots, int compute, void* work,
                     size_t size, void* host_work, size_t host_size, int* info) {
  if (!is_ready(handle, type, work, size, host_work, host_size) || compute != type || !parameters)
    return INVALID;
  *info = getrf(m, n, a, lda, pivots);
  return OK;
}
int cusolverDnXgeqrf_bufferSize(struct handle* handle, struct handle* parameters, int64_t m,
                                int64_t n, int type, const void* a, int64_t lda, int tau_type,
                                const void* tau, int compute, size_t* on_device, size_t* on_host) {
  if (a == NULL || tau == NULL || n < 1 || lda < m || compute != type || tau_type != type)
    return INVALID;
  return sized(handle, parameters, type, on_device, on_host);
}
int cusolverDnXgeqrf(struct handle* handle, struct handle* parameters, int64_t m, int64_t n,
                     int type, void* a, int64_t lda, int tau_type, void* tau, int compute,
                     void* work, size_t size, void* host_work, size_t host_size, int* info) {
  if (!is_ready(handle, type, work, size, host_work, host_size) || compute != type || !parameters ||
      tau_type != type)
    return INVALID;
  geqrf(m, n, a, lda, tau);
  *info = 0;
  return OK;
}
int cusolverDnXgetrs(struct handle* handle, struct handle* parameters, int op, int64_t n,
                     int64_t columns, int type, const void* a, int64_t lda, const int64_t* pivots,
                     int b_type, void* b, int64_t ldb, int* info) {
  if (handle == NULL || parameters == NULL || op != 0 || type != REAL_64 || b_type != type)
    return INVALID;
  getrs(n, columns, a, lda, pivots, b, ldb);
  *info = 0;
  return OK;
}
#endif

#ifdef FAKE_CUSOLVERMG
struct object {
  int devices, selected;
  int64_t rows, columns, block;
};
static int make(struct object** made) {
  *made = calloc(1, sizeof **made);
  return OK;
}
static int drop(struct object* object) {
  free(object);
  return OK;
}
int cusolverMgCreate(struct object** handle) { return make(handle); }
int cusolverMgDestroy(struct object* handle) { return drop(handle); }
int cusolverMgDestroyGrid(struct object* grid) { return drop(grid); }
int cusolverMgDestroyMatrixDesc(struct object* layout) { return drop(layout); }
int cusolverMgDeviceSelect(struct object* handle, int count, const int* ids) {
  handle->selected = count;
  return ids[0] < 0 ? INVALID : OK;
}
int cusolverMgCreateDeviceGrid(struct object** grid, int32_t rows, int32_t columns,
                               const int32_t* ids, int mapping) {
  make(grid);
  (*grid)->devices = columns;
  return rows != 1 || ids[0] < 0 || mapping != 0 ? INVALID : OK;
}
int cusolverMgCreateMatrixDesc(struct object** layout, int64_t rows, int64_t columns,
                               int64_t row_block, int64_t block, int type, struct object* grid) {
  make(layout);
  **layout = (struct object){.devices = grid->devices, .rows = rows, .columns = columns};
  (*layout)->block = block;
  return row_block != rows || type != REAL_64 ? INVALID : OK;
}
// Column j of what is laid out as `columns`, with this many elements each.
static void* at(void* const* parts, const struct object* layout, int64_t j, size_t bytes) {
  const int64_t number = j / layout->block;
  const int64_t local = number / layout->devices * layout->block + j % layout->block;
  return (char*)parts[number % layout->devices] + (size_t)local * bytes;
}
static double* gathered(void* const* parts, const struct object* layout) {
  const size_t bytes = sizeof(double) * (size_t)layout->rows;
  double* whole = malloc(bytes * (size_t)layout->columns);
  for (int64_t j = 0; j < layout->columns; ++j)
    memcpy(whole + j * layout->rows, at(parts, layout, j, bytes), bytes);
  return whole;
}
static void scatter(double* whole, void* const* parts, const struct object* layout) {
  const size_t bytes = sizeof(double) * (size_t)layout->rows;
  for (int64_t j = 0; j < layout->columns; ++j)
    memcpy(at(parts, layout, j, bytes), whole + j * layout->rows, bytes);
  free(whole);
}
enum { WORK = 32 };
static int use(struct object* handle, int type, void* const* work, int64_t length) {
  if (handle == NULL || handle->selected == 0 || type != REAL_64 || length < WORK) return INVALID;
  for (int d = 0; d < handle->selected; ++d) memset(work[d], 1, WORK * sizeof(double));
  return OK;
}
static int ask(const struct object* layout, int64_t* length) {
  const char* full = getenv("FAKE_NO_MEMORY_BLOCK");
  if (full && (atoi(full) == layout->block || atoi(full) == 0)) return ALLOC_FAILED;
  *length = WORK;
  return OK;
}
int cusolverMgPotrf_bufferSize(struct object* handle, int uplo, int n, void* const* parts, int row,
                               int column, struct object* layout, int type, int64_t* length) {
  if (handle == NULL || parts == NULL || uplo != LOWER || n != layout->columns || row != 1 ||
      column != 1 || type != REAL_64)
    return INVALID;
  return ask(layout, length);
}
int cusolverMgPotrf(struct object* handle, int uplo, int n, void* const* parts, int row, int column,
                    struct object* layout, int type, void* const* work, int64_t length, int* info) {
  double* whole = gathered(parts, layout);
  if (row != 1 || column != 1) return INVALID;
  usleep((unsigned)layout->block * 500);
  *info = potrf(uplo, n, whole, n);
  scatter(whole, parts, layout);
  return use(handle, type, work, length);
}
int cusolverMgGetrf_bufferSize(struct object* handle, int m, int n, void* const* parts, int row,
                               int column, struct object* layout, void* const* pivots, int type,
                               int64_t* length) {
  if (handle == NULL || parts == NULL || m != n || n != layout->columns || row != 1 ||
      column != 1 || pivots == NULL || type != REAL_64)
    return INVALID;
  return ask(layout, length);
}
int cusolverMgGetrf(struct object* handle, int m, int n, void* const* parts, int row, int column,
                    struct object* layout, void* const* pivots, int type, void* const* work,
                    int64_t length, int* info) {
  double* whole = gathered(parts, layout);
  int64_t* found = malloc(sizeof(int64_t) * (size_t)n);
  if (row != 1 || column != 1) return INVALID;
  usleep((unsigned)layout->block * 500);
  *info = getrf(m, n, whole, m, found);
  for (int64_t j = 0; j < n; ++j) *(int*)at(pivots, layout, j, sizeof(int)) = (int)found[j];
  free(found);
  scatter(whole, parts, layout);
  return use(handle, type, work, length);
}
int cusolverMgGetrs_bufferSize(struct object* handle, int op, int n, int columns,
                               void* const* parts, int row, int column, struct object* layout,
                               void* const* pivots, void* const* b_parts, int b_row, int b_column,
                               struct object* b_layout, int type, int64_t* length) {
  if (handle == NULL || op != 0 || parts == NULL || pivots == NULL || b_parts == NULL ||
      row + column + b_row + b_column != 4 || columns != b_layout->columns || type != REAL_64)
    return INVALID;
  *length = WORK + (n > 0 && layout->rows == n ? 0 : 1);
  return OK;
}
int cusolverMgGetrs(struct object* handle, int op, int n, int columns, void* const* parts, int row,
                    int column, struct object* layout, void* const* pivots, void* const* b_parts,
                    int b_row, int b_column, struct object* b_layout, int type, void* const* work,
                    int64_t length, int* info) {
  double *a = gathered(parts, layout), *b = gathered(b_parts, b_layout);
  int64_t* found = malloc(sizeof(int64_t) * (size_t)n);
  if (op != 0 || row + column + b_row + b_column != 4) return INVALID;
  for (int64_t j = 0; j < n; ++j) found[j] = *(int*)at(pivots, layout, j, sizeof(int));
  getrs(n, columns, a, n, found, b, n);
  scatter(b, b_parts, b_layout);
  free(a);
  free(found);
  *info = 0;
  return use(handle, type, work, length);
}
#endif
