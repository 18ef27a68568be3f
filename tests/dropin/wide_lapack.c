/* SPDX-License-Identifier: BSD-3-Clause
 *
 * wide_lapack.c: a LAPACK of two functions that has integers of 64 bits under plain names, as MKL's
 * may have, and a program that uses it (-DPROGRAM). It factors nothing.
 */
#include <stdint.h>
#include <stdio.h>

extern void dgetrf_(const int64_t* m, const int64_t* n, double* a, const int64_t* lda,
                    int64_t* pivots, int64_t* info);

#ifdef PROGRAM
int main(void) {
  const int64_t n = 3;
  double a[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
  int64_t pivots[3] = {-1, -1, -1}, info = -1;
  dgetrf_(&n, &n, a, &n, pivots, &info);
  printf("%lld %lld\n", (long long)pivots[2], (long long)info);
}
#else
double ddot_(const int64_t* n, const double* x, const int64_t* incx, const double* y,
             const int64_t* incy) {
  double sum = 0;
  for (int64_t i = 0; i < *n; ++i) sum += x[i * *incx] * y[i * *incy];
  return sum;
}
void dgetrf_(const int64_t* m, const int64_t* n, double* a, const int64_t* lda, int64_t* pivots,
             int64_t* info) {
  (void)m, (void)a, (void)lda;
  for (int64_t i = 0; i < *n; ++i) pivots[i] = 10 + i;
  *info = 0;
}
#endif
