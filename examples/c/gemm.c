/* SPDX-License-Identifier: BSD-3-Clause
 *
 * gemm.c: C = A*B with the default context: on the devices of this machine if it has any, else on
 * the CPU. The program checks the result.
 */
#include <fleetblas/fleetblas.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
  const int64_t n = 500;
  double* a = malloc((size_t)(n * n) * sizeof *a);
  double* b = malloc((size_t)(n * n) * sizeof *b);
  double* c = malloc((size_t)(n * n) * sizeof *c); /* beta == 0: need not be set */
  if (!a || !b || !c) return 1;
  for (int64_t i = 0; i < n * n; i++) {
    a[i] = 1.0;
    b[i] = 2.0;
  }

  fleet_status status =
      fleet_dgemm(NULL, FLEET_NO_TRANS, FLEET_NO_TRANS, n, n, n, 1.0, a, n, b, n, 0.0, c, n);
  if (status != FLEET_OK) {
    fprintf(stderr, "%s: %s\n", fleet_status_string(status), fleet_message());
    return 1;
  }
  for (int64_t i = 0; i < n * n; i++)
    if (c[i] != 2.0 * (double)n) return 1;
  printf("FleetBLAS %s: every element of C is %g\n", fleet_version(), c[0]);

  free(a);
  free(b);
  free(c);
  return 0;
}
