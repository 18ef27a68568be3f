/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lapack_lost.c: an equation by LAPACK's name whose right sides are on device 0, which is lost
 * while it solves (FLEETBLAS_INJECT=lost:0@1). Prints the info. It is linked to the core, for the
 * memory.
 */
#include <stdio.h>
#include <stdlib.h>

#include "fleetblas/fleetblas.h"

extern void dtrtrs_(const char* uplo, const char* trans, const char* diag, const int* n,
                    const int* nrhs, const double* a, const int* lda, double* b, const int* ldb,
                    int* info, size_t, size_t, size_t);

int main(void) {
  const int n = 200;
  const size_t bytes = (size_t)n * (size_t)n * sizeof(double);
  double* a = calloc(1, bytes);
  void* b = NULL;
  int info = -99;
  for (int i = 0; i < n; ++i) a[i + i * n] = 2;
  if (fleet_alloc(NULL, 0, bytes, &b) || fleet_copy(NULL, b, a, bytes)) {
    printf("%s\n", fleet_message());
    return 1;
  }
  dtrtrs_("L", "N", "N", &n, &n, a, &n, b, &n, &info, 1, 1, 1);
  printf("%d\n", info);
  return 0;
}
