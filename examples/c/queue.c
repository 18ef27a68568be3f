/* SPDX-License-Identifier: BSD-3-Clause
 *
 * queue.c: a triangular solve, and a product on its result, queued one after the other: they are
 * planned as one, and X stays on the devices between them. The program checks the result.
 */
#include <fleetblas/fleetblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static fleet_status failed(fleet_status status) {
  if (status != FLEET_OK) fprintf(stderr, "%s: %s\n", fleet_status_string(status), fleet_message());
  return status;
}

int main(void) {
  const int64_t n = 400;
  double* data[4]; /* T, X, D, C */
  fleet_matrix* matrix[4];
  for (int m = 0; m < 4; m++) {
    data[m] = malloc((size_t)(n * n) * sizeof *data[m]);
    if (!data[m]) return 1;
    /* T is 2 on its diagonal and 0 elsewhere; X and D are ones, C is 0. */
    for (int64_t i = 0; i < n * n; i++) data[m][i] = m == 0 ? (i % (n + 1) ? 0.0 : 2.0) : m < 3;
    if (failed(fleet_matrix_wrap(NULL, FLEET_F64, n, n, data[m], n, &matrix[m]))) return 1;
  }

  /* X := T^-1 X, then C := D X + C */
  if (failed(fleet_dtrsm_async(NULL, FLEET_LEFT, FLEET_LOWER, FLEET_NO_TRANS, FLEET_NON_UNIT, 1.0,
                               matrix[0], matrix[1], NULL)) ||
      failed(fleet_dgemm_async(NULL, FLEET_NO_TRANS, FLEET_NO_TRANS, 1.0, matrix[2], matrix[1], 1.0,
                               matrix[3], NULL)))
    return 1;
  /* The program may do something else here. Reading waits for the calls, and brings C home. */
  if (failed(fleet_matrix_read(matrix[3], 0, 0, n, n))) return 1;

  for (int64_t i = 0; i < n * n; i++)
    if (fabs(data[3][i] - 0.5 * (double)n) > 1e-9) return 1;
  printf("every element of C is %g\n", data[3][0]);
  for (int m = 0; m < 4; m++) {
    fleet_matrix_destroy(matrix[m]);
    free(data[m]);
  }
  return 0;
}
