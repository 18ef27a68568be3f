// SPDX-License-Identifier: BSD-3-Clause
// hpl_matrix.c: keeps the matrix of an HPL that runs with this as LD_PRELOAD. It knows no
// FleetBLAS.
//
// HPL makes [A b] once more to verify its solution, and subtracts A*x from b by gemv: in its last
// call without a transpose, A is this rank's whole part of the matrix. y is the column after A's
// last one: b where the rank has it, and otherwise memory that beta = 0 leaves unread.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef void gemv_function(int order, int trans, int m, int n, double alpha, const double* a,
                           int lda, const double* x, int incx, double beta, double* y, int incy);

// Writes the file HPL_MATRIX.RANK: rows, columns, and the columns without what is between them.
static void keep(int64_t rows, int64_t cols, const double* a, int64_t lda) {
  const char* prefix = getenv("HPL_MATRIX");
  const char* rank = getenv("OMPI_COMM_WORLD_RANK");
  char path[4096];
  if (!prefix ||
      snprintf(path, sizeof path, "%s.%s", prefix, rank ? rank : "0") >= (int)sizeof path)
    return;
  FILE* file = fopen(path, "wb");
  if (!file) return;
  fwrite(&rows, sizeof rows, 1, file);
  fwrite(&cols, sizeof cols, 1, file);
  for (int64_t col = 0; col < cols; ++col) fwrite(a + col * lda, sizeof *a, (size_t)rows, file);
  fclose(file);
}

__attribute__((visibility("default"))) void cblas_dgemv(int order, int trans, int m, int n,
                                                        double alpha, const double* a, int lda,
                                                        const double* x, int incx, double beta,
                                                        double* y, int incy) {
  enum { column_major = 102, no_transpose = 111 };
  if (order == column_major && trans == no_transpose) keep(m, n + (beta != 0), a, lda);
  gemv_function* next;
  *(void**)&next = dlsym(RTLD_NEXT, "cblas_dgemv");
  next(order, trans, m, n, alpha, a, lda, x, incx, beta, y, incy);
}
