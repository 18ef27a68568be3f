/* SPDX-License-Identifier: BSD-3-Clause
 *
 * small_blas.c: a BLAS of three functions, as little as is taken for one; with -DWIDE, -DIFORT or
 * -DNO_BLAS one that cannot serve programs with 32-bit integers; with -DSPEAKS one that prints a
 * line when it is loaded.
 */
#include <complex.h>
#include <stdint.h>

#ifdef SPEAKS
#include <unistd.h>
__attribute__((constructor)) static void speak(void) {
  if (write(STDOUT_FILENO, "small_blas is loaded\n", 21) < 0) _exit(1);
}
#endif

#ifdef WIDE
typedef int64_t Int;
#else
typedef int32_t Int;
#endif

#ifndef NO_BLAS
double ddot_(const Int* n, const double* x, const Int* incx, const double* y, const Int* incy) {
  double sum = 0;
  for (Int i = 0; i < *n; ++i) sum += x[i * *incx] * y[i * *incy];
  return sum;
}

static double complex dot(Int n, const double complex* x, Int incx, const double complex* y,
                          Int incy) {
  double complex sum = 0;
  for (Int i = 0; i < n; ++i) sum += x[i * incx] * y[i * incy];
  return sum;
}

#ifdef IFORT
void zdotu_(double complex* result, const Int* n, const double complex* x, const Int* incx,
            const double complex* y, const Int* incy) {
  *result = dot(*n, x, *incx, y, *incy);
}
#else
double complex zdotu_(const Int* n, const double complex* x, const Int* incx,
                      const double complex* y, const Int* incy) {
  return dot(*n, x, *incx, y, *incy);
}
#endif

void dgemm_(void) {}
#endif
