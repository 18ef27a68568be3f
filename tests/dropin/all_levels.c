/* SPDX-License-Identifier: BSD-3-Clause
 *
 * all_levels.c: calls of each kind of signature that a BLAS has (results in registers, real and
 * complex; by address; scalars by value; flags; more arguments than registers), and prints what
 * comes back. It is linked to a libblas.so.3 and must not know whose: the output must be the same.
 *
 * Usage: all_levels [NAME...]  (with -DOWN_XERBLA: calls these Fortran functions in vain instead)
 */
#include <complex.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef float complex C;
typedef double complex Z;

extern float sdot_(const int*, const float*, const int*, const float*, const int*);
extern double ddot_(const int*, const double*, const int*, const double*, const int*);
extern double dsdot_(const int*, const float*, const int*, const float*, const int*);
extern C cdotc_(const int*, const C*, const int*, const C*, const int*);
extern Z zdotu_(const int*, const Z*, const int*, const Z*, const int*);
extern float scnrm2_(const int*, const C*, const int*);
extern double dzasum_(const int*, const Z*, const int*), dcabs1_(const Z*);
extern int izamax_(const int*, const Z*, const int*), lsame_(const char*, const char*);
extern void ddotsub_(const int*, const double*, const int*, const double*, const int*, double*);
extern void zdotcsub_(const int*, const Z*, const int*, const Z*, const int*, Z*);
extern void icamaxsub_(const int*, const C*, const int*, int*);
extern void drotg_(double*, double*, double*, double*);
extern void dgbmv_(const char*, const int*, const int*, const int*, const int*, const double*,
                   const double*, const int*, const double*, const int*, const double*, double*,
                   const int*, size_t);
extern void ztrsv_(const char*, const char*, const char*, const int*, const Z*, const int*, Z*,
                   const int*, size_t, size_t, size_t);
extern void dsyrk_(const char*, const char*, const int*, const int*, const double*, const double*,
                   const int*, const double*, double*, const int*, size_t, size_t);
extern double cblas_ddot(int, const double*, int, const double*, int);
extern float cblas_sdsdot(int, float, const float*, int, const float*, int);
extern void cblas_zdotc_sub(int, const Z*, int, const Z*, int, Z*);
extern size_t cblas_icamax(int, const C*, int);
extern double cblas_dcabs1(const Z*);
extern void cblas_dgbmv(int, int, int, int, int, int, double, const double*, int, const double*,
                        int, double, double*, int);
extern void cblas_zgemv(int, int, int, int, const Z*, const Z*, int, const Z*, int, const Z*, Z*,
                        int);

enum { kEdge = 4, kColMajor = 102, kRowMajor = 101, kNoTrans = 111, kConjTrans = 113 };
static const int n = kEdge, one = 1, two = 2;
static float s[16];
static double d[16], out[16];
static C c[16];
static Z z[16], zout[16];

static void fill(void) {
  for (int i = 0; i < 16; ++i) {
    s[i] = (float)(i + 1);
    d[i] = 2 * i - 3;
    c[i] = (float)(i - 2) + (float)(i % 3) * I;
    z[i] = i + 1 - (i % 5) * I;
    out[i] = i;
    zout[i] = -i + 2 * I;
  }
}

static void print(const char* name, int count, const double* values) {
  printf("%s", name);
  for (int i = 0; i < count; ++i) printf(" %.6g", values[i]);
  printf("\n");
}
static void print_z(const char* name, Z value) { print(name, 2, (const double*)&value); }
static void print_d(const char* name, double value) { print(name, 1, &value); }

static void call_all(void) {
  double value, a = 3, b = 4, cosine, sine;
  const double half = 0.5;
  Z zvalue;
  const Z zhalf = 0.5 + 2 * I;
  int index;
  fill();
  print_d("sdot_", sdot_(&n, s, &one, s, &two));
  print_d("ddot_", ddot_(&n, d, &one, d, &two));
  print_d("dsdot_", dsdot_(&n, s, &one, s, &two));
  print_z("cdotc_", cdotc_(&n, c, &one, c, &two));
  print_z("zdotu_", zdotu_(&n, z, &one, z, &two));
  print_d("scnrm2_", scnrm2_(&n, c, &one));
  print_d("dzasum_", dzasum_(&n, z, &one));
  print_d("dcabs1_", dcabs1_(z + 1));
  print_d("izamax_", izamax_(&n, z, &one));
  print_d("lsame_", (lsame_("n", "N") & 1) + 2 * (lsame_("n", "T") & 1));
  ddotsub_(&n, d, &one, d, &two, &value);
  print_d("ddotsub_", value);
  zdotcsub_(&n, z, &one, z, &two, &zvalue);
  print_z("zdotcsub_", zvalue);
  icamaxsub_(&n, c, &one, &index);
  print_d("icamaxsub_", index);
  drotg_(&a, &b, &cosine, &sine);
  print_d("drotg_", a + 10 * cosine + 100 * sine);
  dgbmv_("T", &n, &n, &one, &one, &half, d, &n, d, &two, &half, out, &one, 1);
  print("dgbmv_", kEdge, out);
  ztrsv_("U", "C", "N", &n, z, &n, zout, &one, 1, 1, 1);
  print("ztrsv_", 2 * kEdge, (double*)zout);
  dsyrk_("L", "N", &n, &two, &half, d, &n, &half, out, &n, 1, 1);
  print("dsyrk_", 16, out);
  print_d("cblas_ddot", cblas_ddot(n, d, 1, d, 2));
  print_d("cblas_sdsdot", cblas_sdsdot(n, 0.5f, s, 1, s, 2));
  cblas_zdotc_sub(n, z, 1, z, 2, &zvalue);
  print_z("cblas_zdotc_sub", zvalue);
  print_d("cblas_icamax", (double)cblas_icamax(n, c, 1));
  print_d("cblas_dcabs1", cblas_dcabs1(z + 1));
  cblas_dgbmv(kRowMajor, kNoTrans, n, n, 1, 1, 0.5, d, n, d, 2, 0.25, out, 1);
  print("cblas_dgbmv", kEdge, out);
  cblas_zgemv(kRowMajor, kConjTrans, n, n, &zhalf, z, n, z, 2, &zhalf, zout, 1);
  print("cblas_zgemv", 2 * kEdge, (double*)zout);
}

#ifdef OWN_XERBLA
static int told;
void xerbla_(const char* name, const int* position, size_t length) {
  (void)length;
  ++told;
  if (strncmp(name, "DGEMV", 5) == 0) printf("xerbla <%.6s> %d\n", name, *position);
}

/* Fortran functions take addresses only, and do nothing but complain where all that those point to
 * is zero: no elements, and no legal flag. */
static void call_in_vain(const char* name) {
  static double zeros[64];
  double* const x = zeros;
  typedef void Any(double*, double*, double*, double*, double*, double*, double*, double*, double*,
                   double*, double*, double*, double*, size_t, size_t, size_t, size_t);
  Any* function;
  *(void**)&function = dlsym(RTLD_DEFAULT, name);
  if (!function) {
    printf("%s is missing\n", name);
    return;
  }
  memset(zeros, 0, sizeof zeros);
  function(x, x, x, x, x, x, x, x, x, x, x, x, x, 1, 1, 1, 1);
}
#endif

int main(int argc, char** argv) {
  if (argc == 1) call_all();
#ifdef OWN_XERBLA
  for (int i = 1; i < argc; ++i)
    if (strncmp(argv[i], "xerbla", 6) != 0) call_in_vain(argv[i]);
  if (argc > 1) printf("%d complaints\n", told);
#else
  (void)argv;
#endif
  return 0;
}
