/* SPDX-License-Identifier: BSD-3-Clause
 *
 * own_ilaenv.c: a LAPACK of nothing but ilaenv, under all of its names, which answers OWN_ANSWER to
 * any question; with -DBLAS in one library with its BLAS. With -DPROGRAM, a program that asks it
 * for a block size under each name, after a first product.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define ILAENV(name, Int)                                                                         \
  Int name(const Int* ispec, const char* routine, const char* opts, const Int* n1, const Int* n2, \
           const Int* n3, const Int* n4, size_t routine_length, size_t opts_length)
#define FOR_ALL_NAMES(X)    \
  X(ilaenv_, int32_t)       \
  X(scipy_ilaenv_, int32_t) \
  X(ilaenv_64_, int64_t)    \
  X(ilaenv64_, int64_t)     \
  X(scipy_ilaenv_64_, int64_t)

#ifdef PROGRAM
#define DECLARE(name, Int) extern ILAENV(name, Int);
FOR_ALL_NAMES(DECLARE)
extern void dgemm_(const char*, const char*, const int*, const int*, const int*, const double*,
                   const double*, const int*, const double*, const int*, const double*, double*,
                   const int*, size_t, size_t);

int main(void) {
  const int edge = 1;
  double one = 1;
  dgemm_("N", "N", &edge, &edge, &edge, &one, &one, &edge, &one, &edge, &one, &one, &edge, 1, 1);
#define ASK(name, Int)                                                                         \
  {                                                                                            \
    const Int ispec = 1, n = 4096, none = -1;                                                  \
    printf("%s %d\n", #name, (int)name(&ispec, "DSYGST", "L", &n, &none, &none, &none, 6, 1)); \
  }
  FOR_ALL_NAMES(ASK)
  return 0;
}
#else
#define DEFINE(name, Int)                                                           \
  ILAENV(name, Int) {                                                               \
    (void)ispec, (void)routine, (void)opts, (void)n1, (void)n2, (void)n3, (void)n4; \
    (void)routine_length, (void)opts_length;                                        \
    return atoi(getenv("OWN_ANSWER"));                                              \
  }
FOR_ALL_NAMES(DEFINE)
void dgemm_(void) {}
#ifdef BLAS
void ddot_(void) {}
void scipy_ddot_(void) {}
void ddot_64_(void) {}
void ddot64_(void) {}
void scipy_ddot_64_(void) {}
#endif
#endif
