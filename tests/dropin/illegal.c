/* SPDX-License-Identifier: BSD-3-Clause
 *
 * illegal.c: makes every illegal GEMM call there is and prints who was told what. With
 * -DOWN_XERBLA and -DOWN_CBLAS_XERBLA the program brings error handlers of its own. It is linked to
 * a BLAS and knows nothing of the preload library: what it prints must be the same with and
 * without.
 *
 * Usage: illegal fortran|cblas
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { kEdge = 4, kSentinel = 7 };

#ifdef OWN_XERBLA
void xerbla_(const char* name, const int* position, size_t length) {
  (void)length;
  printf("  xerbla <%.6s> %d\n", name, *position);
}
#endif
#ifdef OWN_CBLAS_XERBLA
void cblas_xerbla(int position, const char* name, const char* form, ...) {
  char text[80];
  va_list values;
  va_start(values, form);
  vsnprintf(text, sizeof text, form, values);
  va_end(values);
  text[strcspn(text, "\n")] = '\0';
  printf("  cblas_xerbla <%.11s> %d <%s>\n", name, position, text);
}
#endif

typedef void Fortran(const char*, const char*, const int*, const int*, const int*, const void*,
                     const void*, const int*, const void*, const int*, const void*, void*,
                     const int*, size_t, size_t);
extern Fortran sgemm_, dgemm_, cgemm_, zgemm_;
extern void cblas_sgemm(int, int, int, int, int, int, float, const void*, int, const void*, int,
                        float, void*, int);
extern void cblas_dgemm(int, int, int, int, int, int, double, const void*, int, const void*, int,
                        double, void*, int);
extern void cblas_cgemm(int, int, int, int, int, int, const void*, const void*, int, const void*,
                        int, const void*, void*, int);
extern void cblas_zgemm(int, int, int, int, int, int, const void*, const void*, int, const void*,
                        int, const void*, void*, int);

/* Sizes of one call; every case below spoils one or two of them. */
struct Sizes {
  int m, n, k, lda, ldb, ldc;
};
static const struct Sizes kSpoiled[] = {
    {-1, 2, 3, 4, 4, 4}, {2, -1, 3, 4, 4, 4}, {2, 3, -1, 4, 4, 4}, {-1, -1, -1, 4, 4, 4},
    {4, 3, 2, 1, 4, 4},  {4, 3, 2, 4, 1, 4},  {4, 3, 2, 4, 4, 1},  {2, 3, 4, 1, 4, 4},
    {2, 3, 4, 4, 1, 4},  {2, 3, 4, 4, 4, 1},  {4, 3, 2, 1, 1, 1},  {0, 0, 0, 0, 4, 4},
    {0, 0, 0, 4, 0, 4},  {0, 0, 0, 4, 4, 0},  {3, 2, 4, 3, 4, 3},  {3, 4, 2, 3, 3, 3},
};
enum { kSpoiledCount = sizeof kSpoiled / sizeof *kSpoiled };

static double a[64], b[64], c[64];

static void check_untouched(void) {
  for (int i = 0; i < 64; ++i)
    if (c[i] != kSentinel) printf("  C was touched\n");
}

static void fortran(char type, Fortran* gemm, const char* transa, const char* transb,
                    struct Sizes s) {
  const double one[2] = {1, 0}, zero[2] = {0, 0};
  printf("fortran %c %s%s %d %d %d ld %d %d %d\n", type, transa, transb, s.m, s.n, s.k, s.lda,
         s.ldb, s.ldc);
  fflush(stdout);
  gemm(transa, transb, &s.m, &s.n, &s.k, one, a, &s.lda, b, &s.ldb, zero, c, &s.ldc, 1, 1);
  check_untouched();
}

static void cblas(char type, int layout, int transa, int transb, struct Sizes s) {
  const double one[2] = {1, 0}, zero[2] = {0, 0};
  printf("cblas %c %d %d %d %d %d %d ld %d %d %d\n", type, layout, transa, transb, s.m, s.n, s.k,
         s.lda, s.ldb, s.ldc);
  fflush(stdout);
  if (type == 's')
    cblas_sgemm(layout, transa, transb, s.m, s.n, s.k, 1, a, s.lda, b, s.ldb, 0, c, s.ldc);
  if (type == 'd')
    cblas_dgemm(layout, transa, transb, s.m, s.n, s.k, 1, a, s.lda, b, s.ldb, 0, c, s.ldc);
  if (type == 'c')
    cblas_cgemm(layout, transa, transb, s.m, s.n, s.k, one, a, s.lda, b, s.ldb, zero, c, s.ldc);
  if (type == 'z')
    cblas_zgemm(layout, transa, transb, s.m, s.n, s.k, one, a, s.lda, b, s.ldb, zero, c, s.ldc);
  check_untouched();
}

/* Calls that happen to be legal are left out: they would rightly write C. */
static int at_least(int x, int least) { return x >= (least > 1 ? least : 1); }
static int legal(int a_plain, int b_plain, struct Sizes s) {
  return s.m >= 0 && s.n >= 0 && s.k >= 0 && at_least(s.lda, a_plain ? s.m : s.k) &&
         at_least(s.ldb, b_plain ? s.k : s.n) && at_least(s.ldc, s.m);
}

static void all_fortran(void) {
  Fortran* const gemms[] = {sgemm_, dgemm_, cgemm_, zgemm_};
  const char types[] = "sdcz";
  const char* const flags[] = {"n", "T", "c"};
  const struct Sizes fine = {2, 2, 2, kEdge, kEdge, kEdge};
  for (int t = 0; t < 4; ++t) {
    fortran(types[t], gemms[t], "x", "N", fine);
    fortran(types[t], gemms[t], "N", "/", fine);
    fortran(types[t], gemms[t], "\x0e", "x", fine);
    for (int i = 0; i < kSpoiledCount; ++i)
      for (int f = 0; f < 9; ++f)
        if (!legal(f / 3 == 0, f % 3 == 0, kSpoiled[i]))
          fortran(types[t], gemms[t], flags[f / 3], flags[f % 3], kSpoiled[i]);
  }
}

static void all_cblas(void) {
  const struct Sizes fine = {2, 2, 2, kEdge, kEdge, kEdge};
  for (const char* type = "sdcz"; *type; ++type) {
    cblas(*type, 100, 111, 111, fine);
    cblas(*type, 0, 1, 1, kSpoiled[0]);
    for (int layout = 101; layout <= 102; ++layout) {
      cblas(*type, layout, 110, 111, fine);
      cblas(*type, layout, 111, -1, fine);
      cblas(*type, layout, 115, 115, kSpoiled[0]);
      for (int i = 0; i < kSpoiledCount; ++i)
        for (int f = 0; f < 9; ++f) {
          struct Sizes s = kSpoiled[i], turned = {s.n, s.m, s.k, s.ldb, s.lda, s.ldc};
          if (layout == 102 ? !legal(f / 3 == 0, f % 3 == 0, s)
                            : !legal(f % 3 == 0, f / 3 == 0, turned))
            cblas(*type, layout, 111 + f / 3, 111 + f % 3, s);
        }
    }
  }
}

int main(int argc, char** argv) {
  for (int i = 0; i < 64; ++i) c[i] = kSentinel;
  if (argc > 1 && strcmp(argv[1], "cblas") == 0)
    all_cblas();
  else
    all_fortran();
  return 0;
}
