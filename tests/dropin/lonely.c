/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lonely.c: two illegal calls by names that no BLAS of this machine has. It is linked to the
 * preload library alone. With -DOWN_HANDLERS it brings error handlers of the family of those names.
 */
#include <stdint.h>
#include <stdio.h>

#ifdef OWN_HANDLERS
void xerbla64_(const char* name, const int64_t* position, size_t length) {
  printf("xerbla64_ <%.*s> %lld\n", (int)length, name, (long long)*position);
}
void cblas_xerbla_64(int64_t position, const char* name, const char* form, ...) {
  (void)form;
  printf("cblas_xerbla_64 <%s> %lld\n", name, (long long)position);
}
#endif

extern void dgemm64_(const char*, const char*, const int64_t*, const int64_t*, const int64_t*,
                     const double*, const double*, const int64_t*, const double*, const int64_t*,
                     const double*, double*, const int64_t*);
extern void cblas_dgemm_64(int, int, int, int64_t, int64_t, int64_t, double, const double*, int64_t,
                           const double*, int64_t, double, double*, int64_t);

int main(void) {
  const int64_t bad = -1, two = 2;
  const double one = 1;
  double a[4] = {0}, b[4] = {0}, c[4] = {5, 5, 5, 5};
  dgemm64_("n", "n", &bad, &two, &two, &one, a, &two, b, &two, &one, c, &two);
  cblas_dgemm_64(101, 111, 111, bad, two, two, one, a, two, b, two, one, c, two);
  return c[0] != 5 || c[3] != 5;
}
