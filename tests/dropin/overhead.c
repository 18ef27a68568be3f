/* SPDX-License-Identifier: BSD-3-Clause
 *
 * overhead.c: what a 4x4 dgemm_ (-DLAPACK: dpotrf_) costs through the preload library, over the
 * direct call. Run under
 * LD_PRELOAD; prints both medians and their difference, in seconds. It knows nothing of the
 * preload library but that it stands before the BLAS that this program is linked to.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifdef LAPACK
typedef void Function(const char*, const int*, double*, const int*, int*, size_t);
extern Function dpotrf_;
#define NAME dpotrf_
#else
typedef void Function(const char*, const char*, const int*, const int*, const int*, const double*,
                      const double*, const int*, const double*, const int*, const double*, double*,
                      const int*, size_t, size_t);
extern Function dgemm_;
#define NAME dgemm_
#endif
#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

enum { kBatches = 2001, kCallsPerBatch = 200 };

static double now_s(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static double batch_s(Function* function) {
  const int n = 4;
#ifdef LAPACK
  static double a[16] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
  int info;
#else
  static double a[16], b[16], c[16];
  const double one = 1, zero = 0;
#endif
  const double start_s = now_s();
  for (int i = 0; i < kCallsPerBatch; ++i)
#ifdef LAPACK
    function("L", &n, a, &n, &info, 1);
#else
    function("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n, 1, 1);
#endif
  return (now_s() - start_s) / kCallsPerBatch;
}

static int by_value(const void* x, const void* y) {
  const double a = *(const double*)x, b = *(const double*)y;
  return (a > b) - (a < b);
}

static double median(double* values) {
  qsort(values, kBatches, sizeof *values, by_value);
  return values[kBatches / 2];
}

int main(int argc, char** argv) {
  void* library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  Function* direct = library ? (Function*)dlsym(library, TEXT(NAME)) : NULL;
  if (!direct || direct == &NAME) {
    fprintf(stderr,
            "usage: LD_PRELOAD=... overhead BLAS (no such function in it, or nothing preloaded)\n");
    return 2;
  }
  static double through_s[kBatches], direct_s[kBatches];
  for (int i = 0; i < kBatches; ++i) { /* in turn, so that a slow moment hits both */
    direct_s[i] = batch_s(direct);
    through_s[i] = batch_s(&NAME);
  }
  const double direct_median_s = median(direct_s), through_median_s = median(through_s);
  printf("%.3e %.3e %.3e\n", direct_median_s, through_median_s, through_median_s - direct_median_s);
  return 0;
}
