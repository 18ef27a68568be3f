/* SPDX-License-Identifier: BSD-3-Clause
 *
 * scalapack_names.c: a program that calls ScaLAPACK, with libfleetblas_scalapack.so preloaded: what
 * it finds under a name beside what ScaLAPACK's own routine does. It fails where the names are
 * ScaLAPACK's own, and where FleetBLAS passes a call on that it is to do itself.
 *
 * usage: scalapack_names P Q
 */
#define _GNU_SOURCE
#include <dlfcn.h>
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

#define CHECK(condition)                                                              \
  do {                                                                                \
    if (!(condition)) {                                                               \
      fprintf(stderr, "scalapack_names.c:%d: %s (%s)\n", __LINE__, #condition, what); \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                   \
    }                                                                                 \
  } while (0)

typedef void (*gemm)(const char*, const char*, const int*, const int*, const int*, const double*,
                     const double*, const int*, const int*, const int*, const double*, const int*,
                     const int*, const int*, const double*, double*, const int*, const int*,
                     const int*);
typedef void (*syrk)(const char*, const char*, const int*, const int*, const double*, const double*,
                     const int*, const int*, const int*, const double*, double*, const int*,
                     const int*, const int*);
typedef void (*trsm)(const char*, const char*, const char*, const char*, const int*, const int*,
                     const double*, const double*, const int*, const int*, const int*, double*,
                     const int*, const int*, const int*);
typedef void (*potrf)(const char*, const int*, double*, const int*, const int*, const int*, int*);
typedef void (*getrf)(const int*, const int*, double*, const int*, const int*, const int*, int*,
                      int*);
typedef void (*gesv)(const int*, const int*, double*, const int*, const int*, const int*, int*,
                     double*, const int*, const int*, const int*, int*);

static const char* what = "";
static int context, p, q, row, col, nb;

/* The two of a name: as the program sees it, and ScaLAPACK's. */
static void* seen[2];
static void find(void* scalapack, const char* name) {
  what = name;
  seen[0] = dlsym(RTLD_DEFAULT, name);
  seen[1] = dlsym(scalapack, name);
  CHECK(seen[0] != NULL && seen[1] != NULL && seen[0] != seen[1]);
}

/* Who did the call of seen[i] that lies between begin() and end(): this library, or ScaLAPACK. */
static void (*calls)(int64_t* done, int64_t* passed_on);
static int64_t done_before, passed_before;
static void begin(void) { calls(&done_before, &passed_before); }
static void end(int i, int by_fleetblas) {
  int64_t done, passed_on;
  calls(&done, &passed_on);
  if (i == 0 && by_fleetblas) CHECK(done == done_before + 1 && passed_on == passed_before);
  /* ScaLAPACK's routines call other ones of these names. */
  if (i == 0 && !by_fleetblas) CHECK(passed_on > passed_before);
}

enum { kSize = 68, kMost = 70 };
typedef struct {
  int desc[9];
  double at[kMost * kMost];
  int pivots[2 * kMost];
} matrix;

/* In (-1, 1), by the place of an element. */
static double number(int i, int j, int seed) {
  return fmod(sin(1 + i * 12.9898 + j * 78.233 + seed) * 43758.5453, 1);
}

static void make(matrix* x, int m, int n, int seed, double diagonal) {
  const int first_row = seed % p, first_col = (seed / 2) % q;
  const int rows = numroc_(&m, &nb, &row, &first_row, &p);
  const int cols = numroc_(&n, &nb, &col, &first_col, &q);
  const int desc[9] = {1, context, m, n, nb, nb, first_row, first_col, rows > 1 ? rows : 1};
  int r, c;
  memset(x, 0, sizeof *x);
  memcpy(x->desc, desc, sizeof desc);
  for (c = 0; c < cols; ++c)
    for (r = 0; r < rows; ++r) {
      const int i = (r / nb * p + (row - first_row + p) % p) * nb + r % nb;
      const int j = (c / nb * q + (col - first_col + q) % q) * nb + c % nb;
      x->at[r + c * desc[8]] =
          diagonal == 0 ? number(i, j, seed)
                        : number(i < j ? i : j, i < j ? j : i, seed) + (i == j ? diagonal : 0);
    }
}

/* Of the first m rows. */
static int local_rows(const matrix* x, int m) { return numroc_(&m, &nb, &row, &x->desc[6], &p); }

static void same(const matrix* x, const matrix* y, double most) {
  int i;
  /* By their sizes, which are large where a diagonal of ones is; a NaN is not the same as itself.
   */
  for (i = 0; i < kMost * kMost; ++i) {
    const double size = fmax(1, fabs(y->at[i]));
    CHECK(fabs(x->at[i] - y->at[i]) <= most * size);
  }
}

static matrix a, b[2], c[2];

/* Parts of matrices from block `offset` on. */
static void products(void* scalapack, int offset) {
  static const char* const words[] = {"N", "T", "C"};
  const int m = 33, n = 21, k = 27, at = 1 + offset * nb;
  const double alpha = 1.5, beta = -0.5;
  int turn, i;
  for (turn = 0; turn < 9; ++turn) {
    const char *const transa = words[turn % 3], *const transb = words[turn / 3];
    find(scalapack, "pdgemm_");
    make(&a, kSize, kSize, 1, 0);
    make(&b[0], kSize, kSize, 2, 0);
    for (i = 0; i < 2; ++i) {
      make(&c[i], kSize, kSize, 3, 0);
      begin();
      ((gemm)seen[i])(transa, transb, &m, &n, &k, &alpha, a.at, &at, &at, a.desc, b[0].at, &at, &at,
                      b[0].desc, &beta, c[i].at, &at, &at, c[i].desc);
      end(i, 1);
    }
    same(&c[0], &c[1], 1e-12);
  }
  for (turn = 0; turn < 4; ++turn) {
    const char *const uplo = turn % 2 == 0 ? "U" : "l", *const trans = words[turn / 2];
    find(scalapack, "pdsyrk_");
    make(&a, kSize, kSize, 1, 0);
    for (i = 0; i < 2; ++i) {
      make(&c[i], kSize, kSize, 3, 0);
      begin();
      ((syrk)seen[i])(uplo, trans, &n, &k, &alpha, a.at, &at, &at, a.desc, &beta, c[i].at, &at, &at,
                      c[i].desc);
      end(i, 1);
    }
    same(&c[0], &c[1], 1e-12);
  }
  for (turn = 0; turn < 16; ++turn) {
    const char *const side = turn % 2 == 0 ? "L" : "R", *const uplo = turn / 2 % 2 == 0 ? "U" : "L";
    find(scalapack, "pdtrsm_");
    make(&a, kSize, kSize, 1, 60);
    /* With ones for a diagonal, solutions are large unless the rest is small. */
    if (turn / 8 == 1)
      for (i = 0; i < kMost * kMost; ++i) a.at[i] /= 60;
    for (i = 0; i < 2; ++i) {
      make(&b[i], kSize, kSize, 3, 0);
      begin();
      ((trsm)seen[i])(side, uplo, words[turn / 4 % 2], turn / 8 == 0 ? "N" : "U", &n, &n, &alpha,
                      a.at, &at, &at, a.desc, b[i].at, &at, &at, b[i].desc);
      end(i, 1);
    }
    same(&b[0], &b[1], 1e-12);
  }
}

/* pdgetrf of m x n elements from (at, at) on, by both: by FleetBLAS itself or not. */
static void factor_both(void* scalapack, int m, int n, int at, int is_done) {
  int i, info[2];
  find(scalapack, "pdgetrf_");
  for (i = 0; i < 2; ++i) {
    make(&c[i], kSize, kSize, 5, 0);
    begin();
    ((getrf)seen[i])(&m, &n, c[i].at, &at, &at, c[i].desc, c[i].pivots, &info[i]);
    end(i, is_done);
  }
  CHECK(info[0] == 0 && info[1] == 0);
  same(&c[0], &c[1], 1e-8);
}

static void factorizations(void* scalapack, int offset) {
  const int n = 45, nrhs = 3, at = 1 + offset * nb, one = 1;
  int info[2] = {-1, -1}, turn, i;
  for (turn = 0; turn < 4; ++turn) {
    const double diagonal = turn < 2 ? 60 : 1; /* not positive definite */
    find(scalapack, "pdpotrf_");
    for (i = 0; i < 2; ++i) {
      make(&c[i], kSize, kSize, 4, diagonal);
      begin();
      ((potrf)seen[i])(turn % 2 == 0 ? "U" : "L", &n, c[i].at, &at, &at, c[i].desc, &info[i]);
      end(i, 1);
    }
    CHECK(info[0] == info[1] && (info[0] > 0) == (turn >= 2));
    if (info[0] == 0) same(&c[0], &c[1], 1e-12);
  }
  factor_both(scalapack, n, n, at, 1);
  /* Behind these, ScaLAPACK may write what it likes. */
  CHECK(memcmp(c[0].pivots, c[1].pivots, sizeof(int) * (size_t)local_rows(&c[0], at - 1 + n)) == 0);
  find(scalapack, "pdgesv_");
  for (i = 0; i < 2; ++i) {
    make(&c[i], kSize, kSize, 5, 0);
    make(&b[i], kSize, kSize, 5, 0);
    begin();
    ((gesv)seen[i])(&n, &nrhs, c[i].at, &one, &one, c[i].desc, c[i].pivots, b[i].at, &one, &one,
                    b[i].desc, &info[i]);
    end(i, 1);
  }
  CHECK(info[0] == info[1]);
  same(&b[0], &b[1], 1e-7);
}

/* What is refused is ScaLAPACK's: parts that begin within a block, and matrices that are not
 * squares. */
static void passed_on(void* scalapack) {
  const int m = 33, n = 21, k = 27, at = 3, one = 1;
  const double alpha = 1.5, beta = -0.5;
  int i;
  find(scalapack, "pdgemm_");
  make(&a, kSize, kSize, 1, 0);
  make(&b[0], kSize, kSize, 2, 0);
  for (i = 0; i < 2; ++i) {
    make(&c[i], kSize, kSize, 3, 0);
    begin();
    ((gemm)seen[i])("N", "N", &m, &n, &k, &alpha, a.at, &at, &one, a.desc, b[0].at, &one, &at,
                    b[0].desc, &beta, c[i].at, &at, &at, c[i].desc);
    end(i, 0);
  }
  same(&c[0], &c[1], 1e-12);
  factor_both(scalapack, m, n, one, 0);
}

int main(int argc, char** argv) {
  void* scalapack;
  int world, rank, turn;
  if (argc != 3) return 2;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  {
    Dl_info of_numroc;
    CHECK(dladdr((void*)numroc_, &of_numroc) != 0);
    *(void**)&calls = dlsym(RTLD_DEFAULT, "fleet_scalapack_calls");
    CHECK(calls != NULL);
    scalapack = dlopen(of_numroc.dli_fname, RTLD_NOW);
    CHECK(scalapack != NULL);
  }
  /* A context that is made after another one has gone may get its number, with another grid. */
  for (turn = 0; turn < 3; ++turn) {
    p = atoi(argv[turn == 1 ? 2 : 1]);
    q = atoi(argv[turn == 1 ? 1 : 2]);
    nb = 4 + 3 * turn;
    Cblacs_get(-1, 0, &world);
    context = world;
    Cblacs_gridinit(&context, turn == 1 ? "Col" : "Row", p, q);
    Cblacs_gridinfo(context, &p, &q, &row, &col);
    products(scalapack, turn);
    factorizations(scalapack, turn);
    passed_on(scalapack);
    Cblacs_gridexit(context);
  }
  if (rank == 0) puts("scalapack_names: passed");
  MPI_Finalize();
  return 0;
}
