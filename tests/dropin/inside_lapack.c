/* SPDX-License-Identifier: BSD-3-Clause
 *
 * inside_lapack.c: a factorization of ours, for which the CPU's LAPACK calls products by names that
 * the preload library stands in front of. Prints the largest error of |R|'s columns, whose norms
 * are those of A's.
 */
#include <fleetblas/lapack.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 600 };

static double norm(const double* x, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += x[i] * x[i];
  return sqrt(sum);
}

int main(void) {
  double* a = malloc(sizeof *a * N * N);
  double *norms = malloc(sizeof *norms * N), *tau = malloc(sizeof *tau * N), most = 0;
  if (!a || !norms || !tau) return 1;
  srand(1);
  for (int i = 0; i < N * N; i++) a[i] = rand() / (double)RAND_MAX - 0.5;
  for (int col = 0; col < N; col++) norms[col] = norm(a + col * N, N);

  if (fleet_dgeqrf(NULL, N, N, a, N, tau) != FLEET_OK) {
    fprintf(stderr, "%s\n", fleet_message());
    return 1;
  }
  for (int col = 0; col < N; col++)
    most = fmax(most, fabs(norm(a + col * N, col + 1) - norms[col]));
  printf("%d\n", most < 1e-12);
  free(a);
  free(norms);
  free(tau);
  return 0;
}
