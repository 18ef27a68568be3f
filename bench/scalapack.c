/* SPDX-License-Identifier: BSD-3-Clause
 *
 * scalapack.c: one routine of ScaLAPACK's on random matrices, timed and verified. It knows no other
 * library than ScaLAPACK: what stands before that is preloaded.
 *
 * Of libfleetblas_scalapack.so it asks who did the call, and says that as an error: "FleetBLAS
 * computes", or "ScaLAPACK computes".
 *
 * usage: scalapack ROUTINE N NB P Q REPEATS   (ROUTINE: gemm, syrk, trsm, potrf, getrf, gesv)
 *
 * Prints a line for each repeat: routine n nb p q seconds gflops error. The error is that of a
 * product with a random vector, over what rounding may make of it; 16 and more is wrong.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <float.h>
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void Cblacs_get(int context, int what, int* value);
void Cblacs_gridinit(int* context, const char* order, int p, int q);
void Cblacs_gridinfo(int context, int* p, int* q, int* row, int* col);
void Cblacs_gridexit(int context);
int numroc_(const int* n, const int* nb, const int* part, const int* first, const int* parts);
void descinit_(int* desc, const int* m, const int* n, const int* mb, const int* nb, const int* rsrc,
               const int* csrc, const int* context, const int* lld, int* info);
void pdgemv_(const char* trans, const int* m, const int* n, const double* alpha, const double* a,
             const int* ia, const int* ja, const int* desca, const double* x, const int* ix,
             const int* jx, const int* descx, const int* incx, const double* beta, double* y,
             const int* iy, const int* jy, const int* descy, const int* incy);
void pdtrmv_(const char* uplo, const char* trans, const char* diag, const int* n, const double* a,
             const int* ia, const int* ja, const int* desca, double* x, const int* ix,
             const int* jx, const int* descx, const int* incx);
void pdsymv_(const char* uplo, const int* n, const double* alpha, const double* a, const int* ia,
             const int* ja, const int* desca, const double* x, const int* ix, const int* jx,
             const int* descx, const int* incx, const double* beta, double* y, const int* iy,
             const int* jy, const int* descy, const int* incy);
void pdgemm_(const char* transa, const char* transb, const int* m, const int* n, const int* k,
             const double* alpha, const double* a, const int* ia, const int* ja, const int* desca,
             const double* b, const int* ib, const int* jb, const int* descb, const double* beta,
             double* c, const int* ic, const int* jc, const int* descc);
void pdsyrk_(const char* uplo, const char* trans, const int* n, const int* k, const double* alpha,
             const double* a, const int* ia, const int* ja, const int* desca, const double* beta,
             double* c, const int* ic, const int* jc, const int* descc);
void pdtrsm_(const char* side, const char* uplo, const char* transa, const char* diag, const int* m,
             const int* n, const double* alpha, const double* a, const int* ia, const int* ja,
             const int* desca, double* b, const int* ib, const int* jb, const int* descb);
void pdpotrf_(const char* uplo, const int* n, double* a, const int* ia, const int* ja,
              const int* desca, int* info);
void pdgetrf_(const int* m, const int* n, double* a, const int* ia, const int* ja, const int* desca,
              int* ipiv, int* info);
void pdgesv_(const int* n, const int* nrhs, double* a, const int* ia, const int* ja,
             const int* desca, int* ipiv, double* b, const int* ib, const int* jb, const int* descb,
             int* info);

static const int kOne = 1, kZero = 0;
static const double kPlus = 1, kNothing = 0;

/* The grid, and this rank's place on it. */
static int context, p, q, row, col, nb;

typedef struct {
  int m, n, local_rows, local_cols, desc[9];
  double* at;
} matrix;

static matrix made(int m, int n) {
  matrix x;
  int info = 0, lld;
  x.m = m;
  x.n = n;
  x.local_rows = numroc_(&m, &nb, &row, &kZero, &p);
  x.local_cols = numroc_(&n, &nb, &col, &kZero, &q);
  lld = x.local_rows > 1 ? x.local_rows : 1;
  descinit_(x.desc, &m, &n, &nb, &nb, &kZero, &kZero, &context, &lld, &info);
  x.at = calloc((size_t)lld * (size_t)(x.local_cols > 0 ? x.local_cols : 1), sizeof(double));
  if (info != 0 || x.at == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
  return x;
}

/* In [-0.5, 0.5), by the place of an element. */
static double number(uint64_t i, uint64_t j, uint64_t seed) {
  uint64_t x = (i * 0x9e3779b97f4a7c15u) ^ (j * 0xc2b2ae3d27d4eb4fu) ^ (seed << 40);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return (double)((x ^ (x >> 31)) >> 11) * 0x1p-53 - 0.5;
}

static int global(int local, int part, int parts) {
  return (local / nb * parts + part) * nb + local % nb;
}

/* Symmetric with positive eigenvalues, where `diagonal` is not 0. */
static void fill(matrix x, uint64_t seed, double diagonal) {
  int r, c;
  for (c = 0; c < x.local_cols; ++c)
    for (r = 0; r < x.local_rows; ++r) {
      const uint64_t i = (uint64_t)global(r, row, p), j = (uint64_t)global(c, col, q);
      double* const element = x.at + r + (size_t)c * (size_t)x.desc[8];
      if (diagonal == 0)
        *element = number(i, j, seed);
      else
        *element = number(i < j ? i : j, i < j ? j : i, seed) + (i == j ? diagonal : 0);
    }
}

/* y := alpha*op(a)*x + beta*y, columns. */
static void times(const char* trans, matrix a, matrix x, double alpha, double beta, matrix y) {
  pdgemv_(trans, &a.m, &a.n, &alpha, a.at, &kOne, &kOne, a.desc, x.at, &kOne, &kOne, x.desc, &kOne,
          &beta, y.at, &kOne, &kOne, y.desc, &kOne);
}

static void times_triangle(const char* uplo, const char* trans, const char* diag, matrix a,
                           matrix x) {
  pdtrmv_(uplo, trans, diag, &a.n, a.at, &kOne, &kOne, a.desc, x.at, &kOne, &kOne, x.desc, &kOne);
}

/* Of a column; infinite where one is no number. */
static double largest(matrix x) {
  double found = 0, of_all = 0;
  int r;
  for (r = 0; r < x.local_rows && col == 0; ++r)
    found = isnan(x.at[r]) ? INFINITY : fmax(found, fabs(x.at[r]));
  MPI_Allreduce(&found, &of_all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return of_all;
}

/* Rows of a column are exchanged as pdgetrf says it: by what pivots are, not by another routine. */
static void exchange_rows(matrix x, const int* pivots) {
  const size_t n = (size_t)x.m;
  double* const all = calloc(n, sizeof *all);
  int* const partners = calloc(n, sizeof *partners);
  int r, i;
  if (all == NULL || partners == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
  for (r = 0; r < x.local_rows && col == 0; ++r) {
    all[global(r, row, p)] = x.at[r];
    partners[global(r, row, p)] = pivots[r];
  }
  MPI_Allreduce(MPI_IN_PLACE, all, x.m, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, partners, x.m, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  for (i = 0; i < x.m; ++i) {
    const int other = partners[i] - 1;
    const double was = all[i];
    if (other < i || other >= x.m) {
      all[i] = NAN; /* no pivot of that row */
      continue;
    }
    all[i] = all[other];
    all[other] = was;
  }
  for (r = 0; r < x.local_rows && col == 0; ++r) x.at[r] = all[global(r, row, p)];
  free(all);
  free(partners);
}

static void copy(matrix from, matrix to) {
  memcpy(
      to.at, from.at,
      (size_t)from.desc[8] * (size_t)(from.local_cols > 0 ? from.local_cols : 0) * sizeof(double));
}

/* The routine, on the first n rows and columns. */
static int compute(const char* routine, int n, matrix a, matrix b, matrix c, matrix x,
                   int* pivots) {
  int info = 0;
  if (strcmp(routine, "gemm") == 0)
    pdgemm_("N", "N", &n, &n, &n, &kPlus, a.at, &kOne, &kOne, a.desc, b.at, &kOne, &kOne, b.desc,
            &kNothing, c.at, &kOne, &kOne, c.desc);
  else if (strcmp(routine, "syrk") == 0)
    pdsyrk_("L", "N", &n, &n, &kPlus, a.at, &kOne, &kOne, a.desc, &kNothing, c.at, &kOne, &kOne,
            c.desc);
  else if (strcmp(routine, "trsm") == 0)
    pdtrsm_("L", "L", "N", "N", &n, &n, &kPlus, a.at, &kOne, &kOne, a.desc, b.at, &kOne, &kOne,
            b.desc);
  else if (strcmp(routine, "potrf") == 0)
    pdpotrf_("L", &n, a.at, &kOne, &kOne, a.desc, &info);
  else if (strcmp(routine, "getrf") == 0)
    pdgetrf_(&n, &n, a.at, &kOne, &kOne, a.desc, pivots, &info);
  else
    pdgesv_(&n, &kOne, a.at, &kOne, &kOne, a.desc, pivots, x.at, &kOne, &kOne, x.desc, &info);
  return info;
}

/* How many calls FleetBLAS has done and passed on. */
static void count(int64_t* done, int64_t* passed_on) {
  void (*calls)(int64_t*, int64_t*);
  *done = *passed_on = 0;
  *(void**)&calls = dlsym(RTLD_DEFAULT, "fleet_scalapack_calls");
  if (calls != NULL) calls(done, passed_on);
}

int main(int argc, char** argv) {
  const char* routine;
  int n, repeats, rank, turn, info = 0, world;
  double flops;
  if (argc != 7) return 2;
  routine = argv[1];
  n = atoi(argv[2]);
  nb = atoi(argv[3]);
  p = atoi(argv[4]);
  q = atoi(argv[5]);
  repeats = atoi(argv[6]);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  Cblacs_get(-1, 0, &world);
  context = world;
  Cblacs_gridinit(&context, "Row", p, q);
  Cblacs_gridinfo(context, &p, &q, &row, &col);
  if (row < 0) {
    MPI_Finalize();
    return 0;
  }
  {
    const double cube = (double)n * n * n;
    const int is_gemm = strcmp(routine, "gemm") == 0, is_syrk = strcmp(routine, "syrk") == 0;
    const int is_trsm = strcmp(routine, "trsm") == 0, is_potrf = strcmp(routine, "potrf") == 0;
    const int is_getrf = strcmp(routine, "getrf") == 0;
    matrix a = made(n, n), b = made(n, n), c = made(n, n);
    matrix x = made(n, 1), y = made(n, 1), z = made(n, 1);
    int* const pivots = calloc((size_t)(a.local_rows + nb), sizeof(int));
    flops = is_gemm ? 2 * cube : is_potrf ? cube / 3 : is_syrk || is_trsm ? cube : 2 * cube / 3;
    /* Connections are made, and threads, by a small one that is not timed. */
    fill(a, 1, n);
    fill(b, 2, 0);
    fill(x, 4, 0);
    compute(routine, n < 4 * nb ? n : 4 * nb, a, b, c, x, pivots);
    for (turn = 0; turn < repeats; ++turn) {
      double begin, seconds, most = 0, error, size;
      int64_t done_before, done, passed_before, passed_on;
      fill(a, 1, is_potrf || is_trsm ? n : 0);
      fill(b, 2, 0);
      fill(c, 3, 0);
      fill(x, 4, 0);
      count(&done_before, &passed_before);
      MPI_Barrier(MPI_COMM_WORLD);
      begin = MPI_Wtime();
      info = compute(routine, n, a, b, c, x, pivots);
      seconds = MPI_Wtime() - begin;
      count(&done, &passed_on);
      if (rank == 0)
        fprintf(stderr, "scalapack: %s computes\n",
                done > done_before && passed_on == passed_before ? "FleetBLAS" : "ScaLAPACK");
      MPI_Allreduce(&seconds, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);

      /* Both ways to a vector: z by what was made, y by what it was made from. */
      if (is_gemm) {
        times("N", c, x, 1, 0, z);
        times("N", b, x, 1, 0, y);
        copy(y, x);
        times("N", a, x, 1, 0, y);
      } else if (is_syrk) {
        /* The lower triangle alone is read, and no product of matrices is made. */
        pdsymv_("L", &n, &kPlus, c.at, &kOne, &kOne, c.desc, x.at, &kOne, &kOne, x.desc, &kOne,
                &kNothing, z.at, &kOne, &kOne, z.desc, &kOne);
        times("T", a, x, 1, 0, y);
        copy(y, x);
        times("N", a, x, 1, 0, y);
      } else if (is_trsm) {
        times("N", b, x, 1, 0, z);
        times_triangle("L", "N", "N", a, z);
        fill(b, 2, 0);
        times("N", b, x, 1, 0, y);
      } else if (is_potrf) {
        copy(x, z);
        times_triangle("L", "T", "N", a, z);
        times_triangle("L", "N", "N", a, z);
        fill(a, 1, n);
        times("N", a, x, 1, 0, y);
      } else if (is_getrf) {
        copy(x, z);
        times_triangle("U", "N", "N", a, z);
        times_triangle("L", "N", "U", a, z);
        fill(a, 1, 0);
        times("N", a, x, 1, 0, y);
        exchange_rows(y, pivots);
      } else {
        fill(a, 1, 0);
        times("N", a, x, 1, 0, z);
        fill(y, 4, 0);
      }
      size = largest(y);
      /* Where x is a solution, it is as large as the matrix makes it: HPL's measure. */
      if (!is_gemm && !is_syrk && !is_trsm && !is_potrf && !is_getrf) size += 0.25 * n * largest(x);
      {
        int r;
        for (r = 0; r < y.local_rows && col == 0; ++r) z.at[r] -= y.at[r];
      }
      error = largest(z) / (size * DBL_EPSILON * n);
      if (rank == 0)
        printf("%s %d %d %d %d %.4f %.2f %.4f%s\n", routine, n, nb, p, q, most, flops / most / 1e9,
               error, info == 0 ? "" : " info");
      fflush(stdout);
    }
  }
  Cblacs_gridexit(context);
  MPI_Finalize();
  return 0;
}
