/* SPDX-License-Identifier: BSD-3-Clause
 *
 * product.h: one dgemm_ with a right answer that is known beforehand, for the programs beside it.
 * It knows nothing of the preload library.
 */
#ifndef FLEETBLAS_TESTS_DROPIN_PRODUCT_H
#define FLEETBLAS_TESTS_DROPIN_PRODUCT_H
#include <stdlib.h>

extern void dgemm_(const char*, const char*, const int*, const int*, const int*, const double*,
                   const double*, const int*, const double*, const int*, const double*, double*,
                   const int*, size_t, size_t);

/* Multiplies two n x n matrices of small integers, so that sums are exact: A(i,l) = i - l,
 * B(l,j) = l + seed*j. Returns the number of wrong elements of C (a sample of up to 1000), -1
 * without memory. */
static int wrong_elements(int n, int seed) {
  const size_t count = (size_t)n * (size_t)n;
  double* data = malloc(3 * count * sizeof *data);
  if (!data) return -1;
  double *a = data, *b = a + count, *c = b + count;
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < n; ++i) {
      a[i + (size_t)j * n] = i - j;
      b[i + (size_t)j * n] = i + seed * j;
      c[i + (size_t)j * n] = 1;
    }
  const double one = 1, two = 2;
  dgemm_("n", "n", &n, &n, &n, &one, a, &n, b, &n, &two, c, &n, 1, 1);

  int wrong = 0;
  for (size_t e = 0; e < count; e += 1 + count / 1000) {
    const double i = (double)(e % n), j = (double)(e / n);
    double expected = 2;
    for (int l = 0; l < n; ++l) expected += (i - l) * (l + seed * j);
    wrong += c[e] != expected;
  }
  free(data);
  return wrong;
}
#endif
