/* SPDX-License-Identifier: BSD-3-Clause
 *
 * solve.c: A*X = B with A only read, by an LU factorization in A's place, and by factors in single
 * precision that are refined. The program checks all three.
 */
#include <fleetblas/lapack.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 400 };

/* A has 2 on its diagonal and 1/N elsewhere, and X is all ones: B has the sums of A's rows. */
static void set(double* a, double* b) {
  for (int col = 0; col < N; col++) {
    for (int row = 0; row < N; row++) a[row + col * N] = row == col ? 2.0 : 1.0 / N;
    b[col] = 2.0 + (N - 1.0) / N;
  }
}

static double error_of(const double* x) {
  double most = 0;
  for (int i = 0; i < N; i++) most = fmax(most, fabs(x[i] - 1.0));
  return most;
}

static int failed(fleet_status status, int64_t info) {
  if (status != FLEET_OK)
    fprintf(stderr, "%s: %s\n", fleet_status_string(status), fleet_message());
  else if (info != 0)
    fprintf(stderr, "U(%d, %d) is 0: A is singular\n", (int)info, (int)info);
  return status != FLEET_OK || info != 0;
}

int main(void) {
  double* a = malloc(sizeof *a * N * N);
  double *b = malloc(sizeof *b * N), *x = malloc(sizeof *x * N);
  int64_t* pivots = malloc(sizeof *pivots * N);
  int64_t info = 0, iterations = 0;
  if (!a || !b || !x || !pivots) return 1;

  set(a, b);
  if (failed(fleet_dsolve(NULL, FLEET_NO_TRANS, N, 1, a, N, b, N, x, N, &info), info)) return 1;
  printf("dsolve: the largest error is %.1e\n", error_of(x));
  if (!(error_of(x) < 1e-12)) return 1;

  set(a, b); /* gesv puts A's factors in the place of A, and X in that of B */
  if (failed(fleet_dgesv(NULL, N, 1, a, N, pivots, b, N, &info), info)) return 1;
  printf("dgesv: the largest error is %.1e\n", error_of(b));
  if (!(error_of(b) < 1e-12)) return 1;

  set(a, b);
  fleet_status status = fleet_dsgesv(NULL, N, 1, a, N, pivots, b, N, x, N, &iterations, &info);
  if (failed(status, info)) return 1;
  printf("dsgesv: the largest error is %.1e after %d refinements\n", error_of(x), (int)iterations);
  if (!(error_of(x) < 1e-12)) return 1;

  free(a);
  free(b);
  free(x);
  free(pivots);
  return 0;
}
