/* SPDX-License-Identifier: BSD-3-Clause
 *
 * block_sizes.c: asks LAPACK's ilaenv for block sizes, and has routines that ask it do their work.
 *
 * ask      prints the answers before and after a first product
 * sygst N  reduces a generalized eigenproblem; prints 1 if the result is right
 * ormlq N  applies reflectors and takes them back, with the best workspace and with one for blocks
 *          of 32; prints 1 if nothing has changed
 * trevc N  finds eigenvectors of a triangle; prints 1 if they are right
 * cost N   prints the microseconds of a question
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

extern int ilaenv_(const int* ispec, const char* name, const char* opts, const int* n1,
                   const int* n2, const int* n3, const int* n4, size_t, size_t);
extern void dgemm_(const char*, const char*, const int*, const int*, const int*, const double*,
                   const double*, const int*, const double*, const int*, const double*, double*,
                   const int*, size_t, size_t);
extern void dsygst_(const int* type, const char* uplo, const int* n, double* a, const int* lda,
                    const double* b, const int* ldb, int* info, size_t);
extern void dsymv_(const char*, const int*, const double*, const double*, const int*, const double*,
                   const int*, const double*, double*, const int*, size_t);
extern void dtrmv_(const char*, const char*, const char*, const int*, const double*, const int*,
                   double*, const int*, size_t, size_t, size_t);
extern void dormlq_(const char*, const char*, const int*, const int*, const int*, const double*,
                    const int*, const double*, double*, const int*, double*, const int*, int*,
                    size_t, size_t);
extern void dtrevc3_(const char*, const char*, int*, const int*, double*, const int*, double*,
                     const int*, double*, const int*, const int*, int*, double*, const int*, int*,
                     size_t, size_t);

static int ask(int ispec, const char* name, int n1, int n2, int n3) {
  const int n4 = -1;
  return ilaenv_(&ispec, name, "LN", &n1, &n2, &n3, &n4, strlen(name), 2);
}

static void show(int ispec, const char* name, int n1, int n2, int n3) {
  printf("%d,%s,%d,%d,%d %d\n", ispec, name, n1, n2, n3, ask(ispec, name, n1, n2, n3));
}

/* Starts what there is to start. */
static void multiply(void) {
  enum { N = 64 };
  static double a[N * N], c[N * N];
  const int n = N;
  const double one = 1;
  dgemm_("N", "N", &n, &n, &n, &one, a, &n, a, &n, &one, c, &n, 1, 1);
}

static void ask_all(void) {
  static const char* const names[] = {
      "DSYGST", "SSYGST", "ZHEGST", "CHEGST", "dsygst", "DTREVC", "ZTREVC", "DORMLQ", "SORMQL",
      "DORMRQ", "ZUNMLQ", "CUNMQL", "ZUNMRQ", "DHEGST", "ZSYGST", "ZORMLQ", "DORMQR", "ZUNMQR",
      "DGETRF", "DPOTRF", "DGEQRF", "DGELQF", "DGERQF", "DGEQLF", "DORGLQ", "DORGQL", "DSYTRF",
      "ZHETRF", "DSYTRD", "DGEBRD", "DGEHRD", "DGETRI", "DTRTRI", "DLAUUM", "XSYGST", "DSYGS"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    for (int ispec = 1; ispec <= 3; ++ispec) show(ispec, names[i], 4096, 4096, 4096);
  for (int ispec = 4; ispec <= 11; ++ispec) show(ispec, "DSYGST", 4096, 4096, 4096);
  for (int n = 1024; n <= 32768; n *= 2) show(1, "DSYGST", n, -1, -1);
  show(1, "DTREVC", 2048, -1, -1);
  show(1, "DORMLQ", 4096, 2048, 1024);
  show(1, "DORMLQ", 4096, 100, 4096);
  show(1, "DORMLQ", 4096, 4096, 100);
}

static double* numbers(int count) {
  double* x = malloc(sizeof *x * (size_t)count);
  for (int i = 0; i < count; ++i) x[i] = rand() / (double)RAND_MAX - 0.5;
  return x;
}

static double distance(const double* x, const double* y, int count) {
  double most = 0;
  for (int i = 0; i < count; ++i) most = fmax(most, fabs(x[i] - y[i]));
  return most;
}

/* X = inv(L) A inv(L^T): L X L^T v is A v. */
static int reduces(int n) {
  const int type = 1, one_step = 1;
  const double one = 1, zero = 0;
  int info = -1;
  double *a = numbers(n * n), *l = numbers(n * n), *v = numbers(n);
  double *expected = malloc(sizeof *v * (size_t)n), *got = malloc(sizeof *v * (size_t)n);
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < i; ++j) l[i + j * n] /= n;
    l[i + i * n] = 2;
  }
  dsymv_("L", &n, &one, a, &n, v, &one_step, &zero, expected, &one_step, 1);
  dsygst_(&type, "L", &n, a, &n, l, &n, &info, 1);
  dtrmv_("L", "T", "N", &n, l, &n, v, &one_step, 1, 1, 1);
  dsymv_("L", &n, &one, a, &n, v, &one_step, &zero, got, &one_step, 1);
  dtrmv_("L", "N", "N", &n, l, &n, got, &one_step, 1, 1, 1);
  return info == 0 && distance(got, expected, n) < 1e-10;
}

/* Q^T Q C is C, whatever the blocks. */
static int applies(int n) {
  double *rows = numbers(n * n), *tau = numbers(n), *c = numbers(n * n);
  double* before = malloc(sizeof *c * (size_t)(n * n));
  memcpy(before, c, sizeof *c * (size_t)(n * n));
  for (int i = 0; i < n; ++i) {
    double sum = 1;
    for (int j = i + 1; j < n; ++j) sum += rows[i + j * n] * rows[i + j * n];
    tau[i] = 2 / sum;
  }
  const int query = -1, usual = 32 * n + 65 * 64;
  double best = 0;
  int info = 0;
  dormlq_("L", "N", &n, &n, &n, rows, &n, tau, c, &n, &best, &query, &info, 1, 1);
  const int room = (int)best;
  double* work = malloc(sizeof *work * (size_t)(room > usual ? room : usual));
  dormlq_("L", "N", &n, &n, &n, rows, &n, tau, c, &n, work, &room, &info, 1, 1);
  dormlq_("L", "T", &n, &n, &n, rows, &n, tau, c, &n, work, &usual, &info, 1, 1);
  return info == 0 && distance(c, before, n * n) < 1e-10;
}

/* T x is t x for each eigenvector x and number t on the diagonal. */
static int finds_eigenvectors(int n) {
  const int query = -1, one_step = 1;
  int info = 0, found = 0;
  double *t = numbers(n * n), *x = calloc((size_t)(n * n), sizeof *x), best = 0, most = 0;
  for (int j = 0; j < n; ++j) {
    for (int i = 0; i < n; ++i) t[i + j * n] = i < j ? t[i + j * n] / n : i == j ? 1 + j : 0;
    x[j + j * n] = 1;
  }
  dtrevc3_("R", "B", NULL, &n, t, &n, NULL, &one_step, x, &n, &n, &found, &best, &query, &info, 1,
           1);
  const int room = (int)best;
  double* work = malloc(sizeof *work * (size_t)room);
  dtrevc3_("R", "B", NULL, &n, t, &n, NULL, &one_step, x, &n, &n, &found, work, &room, &info, 1, 1);
  for (int j = 0; j < n; j += n / 16) {
    memcpy(work, x + j * n, sizeof *x * (size_t)n);
    dtrmv_("U", "N", "N", &n, t, &n, work, &one_step, 1, 1, 1);
    for (int i = 0; i < n; ++i) most = fmax(most, fabs(work[i] - t[j + j * n] * x[i + j * n]));
  }
  return info == 0 && found == n && most < 1e-9;
}

static double cost_us(int n) {
  enum { TIMES = 100, ROUNDS = 20 };
  double least = INFINITY;
  for (int round = 0; round < ROUNDS; ++round) {
    struct timespec start, stop;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; i < TIMES; ++i) ask(1, "DSYGST", n, -1, -1);
    clock_gettime(CLOCK_MONOTONIC, &stop);
    const double ns =
        1e9 * (double)(stop.tv_sec - start.tv_sec) + (double)(stop.tv_nsec - start.tv_nsec);
    least = fmin(least, ns / 1e3 / TIMES);
  }
  return least;
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  const int n = argc > 2 ? atoi(argv[2]) : 0;
  if (strcmp(what, "ask") == 0) show(1, "DSYGST", 4096, -1, -1);
  multiply();
  if (strcmp(what, "ask") == 0) ask_all();
  if (strcmp(what, "sygst") == 0) printf("%d\n", reduces(n));
  if (strcmp(what, "ormlq") == 0) printf("%d\n", applies(n));
  if (strcmp(what, "trevc") == 0) printf("%d\n", finds_eigenvectors(n));
  if (strcmp(what, "cost") == 0) printf("%g\n", cost_us(n));
  return 0;
}
