/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cblas_calls.c: one row-major cblas_dgemm, after a change of folder if one is given. It knows
 * nothing of the preload library.
 */
#include <stdio.h>
#include <unistd.h>

extern void cblas_dgemm(int, int, int, int, int, int, double, const double*, int, const double*,
                        int, double, double*, int);

int main(int argc, char** argv) {
  if (argc > 1 && chdir(argv[1])) return 2;
  /* 2 x 3 times 3 x 2, by rows: [1 2 3; 4 5 6] [1 2; 3 4; 5 6] = [22 28; 49 64] */
  const double a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 2, 3, 4, 5, 6};
  const double expected[] = {22, 28, 49, 64};
  double c[4] = {0};
  cblas_dgemm(101, 111, 111, 2, 2, 3, 1, a, 3, b, 2, 0, c, 2);
  int wrong = 0;
  for (int i = 0; i < 4; ++i) wrong += c[i] != expected[i];
  if (wrong) printf("%d wrong\n", wrong);
  return wrong;
}
