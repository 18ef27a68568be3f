/* SPDX-License-Identifier: BSD-3-Clause
 *
 * interposer.c: a library between programs and their BLAS, as profilers are: it notes each dgemm in
 * the file RECORD_FILE under the name WHO ("front", "behind"), and goes on by RTLD_NEXT. Where
 * there is no next, as for a BLAS that was opened locally, it goes on to the first of the libraries
 * INTERPOSER_BLAS that has the name. It knows nothing of the preload library.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kMostDepth = 50, kStatusOfALoop = 99, kStatusOfNoNext = 98 };

static __thread int depth;

static void end(int status, const char* what, const char* name) {
  fprintf(stderr, "interposer %s: %s: %s\n", WHO, name, what);
  _exit(status);
}

static void note(const char* name) {
  const char* file = getenv("RECORD_FILE");
  int out = file ? open(file, O_WRONLY | O_CREAT | O_APPEND, 0666) : -1;
  if (out < 0) return;
  char line[64];
  int length = snprintf(line, sizeof line, "%s %s\n", WHO, name);
  if (write(out, line, (size_t)length) < 0) perror("record");
  close(out);
}

static void* find(const char* name) {
  void* next = dlsym(RTLD_NEXT, name);
  const char* files = getenv("INTERPOSER_BLAS");
  char* rest = NULL;
  char* copy = strdup(files ? files : "");
  for (char* file = strtok_r(copy, ":", &rest); file && !next; file = strtok_r(NULL, ":", &rest)) {
    void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    next = library ? dlsym(library, name) : NULL;
  }
  free(copy);
  if (!next) end(kStatusOfNoNext, "no next one", name);
  return next;
}

static void* enter(const char* name) {
  if (++depth > kMostDepth) end(kStatusOfALoop, "the call comes back", name);
  note(name);
  return find(name);
}

/* The lengths at the end belong to the flags: from C they may be missing. */
#define FORTRAN(name, Int)                                                                         \
  void name(const char* ta, const char* tb, const Int* m, const Int* n, const Int* k,              \
            const double* alpha, const double* a, const Int* lda, const double* b, const Int* ldb, \
            const double* beta, double* c, const Int* ldc) {                                       \
    void (*next)(const char*, const char*, const Int*, const Int*, const Int*, const double*,      \
                 const double*, const Int*, const double*, const Int*, const double*, double*,     \
                 const Int*, size_t, size_t);                                                      \
    *(void**)&next = enter(#name);                                                                 \
    next(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, 1, 1);                              \
    --depth;                                                                                       \
  }

#define CBLAS(name, Int)                                                                       \
  void name(int layout, int ta, int tb, Int m, Int n, Int k, double alpha, const double* a,    \
            Int lda, const double* b, Int ldb, double beta, double* c, Int ldc) {              \
    void (*next)(int, int, int, Int, Int, Int, double, const double*, Int, const double*, Int, \
                 double, double*, Int);                                                        \
    *(void**)&next = enter(#name);                                                             \
    next(layout, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);                        \
    --depth;                                                                                   \
  }

/* Of the distribution and of the wheels of SciPy, with and without prefix; and those of NumPy. */
FORTRAN(dgemm_, int)
FORTRAN(scipy_dgemm_, int)
CBLAS(cblas_dgemm, int)
CBLAS(cblas_dgemm64_, int64_t)
CBLAS(scipy_cblas_dgemm64_, int64_t)
