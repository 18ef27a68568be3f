/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mpi_blas.c: a C99 program that uses mpi.h: results on the grids that its ranks make, refusals,
 * and a rank that does not come, or (argument: device) loses its device.
 */
#include <fleetblas/mpi.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                      \
  do {                                                                                        \
    if (!(condition)) {                                                                       \
      fprintf(stderr, "mpi_blas.c:%d: %s (%s)\n", __LINE__, #condition, fleet_mpi_message()); \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                           \
    }                                                                                         \
  } while (0)

static fleet_mpi_grid* grid;
static int p, q, row, col;
static const int nb = 8;
enum { kM = 37, kN = 29, kK = 45, kNrhs = 5, kNb = 8 };

typedef struct {
  int m, n, rows, cols, desc[9];
  double* at;
} matrix;

static int global(int local, int part, int first, int parts) {
  return (local / nb * parts + (part - first + parts) % parts) * nb + local % nb;
}

static double number(int i, int j, int seed) { return sin(1.0 + i * 0.7 + j * 1.3 + seed * 2.1); }

/* Its first block is on the grid's last row and column. */
static matrix made(int m, int n, int seed, double diagonal) {
  matrix x = {m, n, 0, 0, {1, -1, 0, 0, 0, 0, 0, 0, 0}, NULL};
  int r, c;
  x.rows = (int)fleet_mpi_local_size(m, nb, row, p - 1, p);
  x.cols = (int)fleet_mpi_local_size(n, nb, col, q - 1, q);
  x.desc[2] = m;
  x.desc[3] = n;
  x.desc[4] = nb;
  x.desc[5] = n == kNrhs ? kNrhs : nb; /* blocks that are no squares, where one has all columns */
  x.desc[6] = p - 1;
  x.desc[7] = q - 1;
  x.desc[8] = x.rows + 1;
  x.at = malloc(sizeof(double) * (size_t)((x.rows + 1) * (x.cols + 1)));
  for (c = 0; c < x.cols; ++c)
    for (r = 0; r < x.rows; ++r) {
      const int i = global(r, row, p - 1, p), j = global(c, col, q - 1, q);
      x.at[r + c * x.desc[8]] =
          diagonal == 0 ? number(i, j, seed)
                        : number(i < j ? i : j, i < j ? j : i, seed) + (i == j ? diagonal : 0);
    }
  return x;
}

/* The largest difference from what `right` says of an element. */
static double difference(matrix x, double (*right)(int, int)) {
  double largest = 0;
  int r, c;
  for (c = 0; c < x.cols; ++c)
    for (r = 0; r < x.rows; ++r) {
      const double apart =
          fabs(x.at[r + c * x.desc[8]] - right(global(r, row, p - 1, p), global(c, col, q - 1, q)));
      if (!(apart <= largest)) largest = apart; /* a NaN, too, and for good */
      if (isnan(largest)) return largest;
    }
  return largest;
}

/* 2*A^T*B + C. */
static double of_product(int i, int j) {
  double sum = number(i, j, 3);
  int k;
  for (k = 0; k < kK; ++k) sum += 2 * number(k, i, 1) * number(k, j, 2);
  return sum;
}

/* Rows 9 to 16 of A times columns 17 to 24 of B, from row 9 and column 1 of C on. */
static double of_parts(int i, int j) {
  double sum = 0;
  int k;
  if (i < kNb || i >= 2 * kNb || j >= kNb) return number(i, j, 3);
  for (k = 0; k < kNb; ++k) sum += number(i, k, 1) * number(k, j + 2 * kNb, 2);
  return sum;
}

/* The lower triangle of A^T*A, and C as it was above it. */
static double of_square(int i, int j) {
  double sum = 0;
  int k;
  if (i < j) return number(i, j, 3);
  for (k = 0; k < kK; ++k) sum += number(k, i, 1) * number(k, j, 1);
  return sum;
}

static double of_unknowns(int i, int j) { return number(i, j, 7); }

static void check_products(void) {
  matrix a = made(kK, kM, 1, 0), b = made(kK, kN, 2, 0), c = made(kM, kN, 3, 0), d;
  CHECK(fleet_mpi_dgemm(grid, FLEET_TRANS, FLEET_NO_TRANS, kM, kN, kK, 2, a.at, 1, 1, a.desc, b.at,
                        1, 1, b.desc, 1, c.at, 1, 1, c.desc) == FLEET_OK);
  CHECK(difference(c, of_product) < 1e-12);
  d = made(kM, kN, 3, 0);
  CHECK(fleet_mpi_dgemm(grid, FLEET_NO_TRANS, FLEET_NO_TRANS, kNb, kNb, kNb, 1, a.at, 1 + kNb, 1,
                        a.desc, b.at, 1, 1 + 2 * kNb, b.desc, 0, d.at, 1 + kNb, 1,
                        d.desc) == FLEET_OK);
  CHECK(difference(d, of_parts) < 1e-12);
  free(c.at);
  c = made(kM, kM, 3, 0);
  CHECK(fleet_mpi_dsyrk(grid, FLEET_LOWER, FLEET_TRANS, kM, kK, 1, a.at, 1, 1, a.desc, 0, c.at, 1,
                        1, c.desc) == FLEET_OK);
  CHECK(difference(c, of_square) < 1e-12);
  free(a.at);
  free(b.at);
  free(c.at);
  free(d.at);
}

/* A*X = B with X known, by either factorization. */
static void check_equations(int is_positive) {
  const double diagonal = is_positive ? kM : 0.01;
  matrix a = made(kM, kM, 5, diagonal), x = made(kM, kNrhs, 7, 0), b = made(kM, kNrhs, 0, 0);
  int64_t info = -1;
  CHECK(fleet_mpi_dgemm(grid, FLEET_NO_TRANS, FLEET_NO_TRANS, kM, kNrhs, kM, 1, a.at, 1, 1, a.desc,
                        x.at, 1, 1, x.desc, 0, b.at, 1, 1, b.desc) == FLEET_OK);
  if (is_positive) {
    CHECK(fleet_mpi_dpotrf(grid, FLEET_LOWER, kM, a.at, 1, 1, a.desc, &info) == FLEET_OK);
    CHECK(info == 0);
    CHECK(fleet_mpi_dtrsm(grid, FLEET_LEFT, FLEET_LOWER, FLEET_NO_TRANS, FLEET_NON_UNIT, kM, kNrhs,
                          1, a.at, 1, 1, a.desc, b.at, 1, 1, b.desc) == FLEET_OK);
    CHECK(fleet_mpi_dtrsm(grid, FLEET_LEFT, FLEET_LOWER, FLEET_TRANS, FLEET_NON_UNIT, kM, kNrhs, 1,
                          a.at, 1, 1, a.desc, b.at, 1, 1, b.desc) == FLEET_OK);
  } else {
    int* const pivots = malloc(sizeof(int) * (size_t)(a.rows + nb));
    CHECK(fleet_mpi_dgesv(grid, kM, kNrhs, a.at, 1, 1, a.desc, pivots, b.at, 1, 1, b.desc, &info) ==
          FLEET_OK);
    CHECK(info == 0);
    free(pivots);
  }
  CHECK(difference(b, of_unknowns) < 1e-6);
  free(a.at);
  free(x.at);
  free(b.at);
}

static void check_refusals(void) {
  matrix a = made(kM, kM, 5, kM), b = made(kM, kM, 5, kM);
  int64_t info = -1;
  int word;
  const int is_one = row == p - 1 && col == 0;
  CHECK(fleet_mpi_dpotrf(NULL, FLEET_LOWER, kM, a.at, 1, 1, a.desc, &info) == FLEET_BAD_ARGUMENT);
  CHECK(fleet_mpi_dpotrf(grid, FLEET_LOWER, -1, a.at, 1, 1, a.desc, &info) == FLEET_BAD_ARGUMENT);
  CHECK(strstr(fleet_mpi_message(), "n = -1") != NULL);
  CHECK(fleet_mpi_dpotrf(grid, FLEET_LOWER, kM, a.at, 2, 1, a.desc, &info) == FLEET_BAD_ARGUMENT);
  CHECK(fleet_mpi_dpotrf(grid, FLEET_LOWER, kNb, a.at, 2, 1, a.desc, &info) == FLEET_UNSUPPORTED);
  /* One rank is wrong, and all hear of it. */
  if (is_one) a.desc[8] = 0;
  CHECK(fleet_mpi_dpotrf(grid, FLEET_LOWER, kM, a.at, 1, 1, a.desc, &info) == FLEET_BAD_ARGUMENT);
  CHECK(strstr(fleet_mpi_message(), "desca[8] = 0") != NULL);
  a.desc[8] = a.rows + 1;
  if (p * q > 1) {
    CHECK(fleet_mpi_dpotrf(grid, FLEET_LOWER, is_one ? kM : kM - 1, a.at, 1, 1, a.desc, &info) ==
          FLEET_BAD_ARGUMENT);
    CHECK(strstr(fleet_mpi_message(), "differ") != NULL);
    /* A descriptor that is legal on the rank that has another one: only the ranks together see it.
     * Its leading dimension has a row to spare. */
    for (word = 2; word <= 7; ++word) {
      const int was = a.desc[word];
      if ((word == 6 && p == 1) || (word == 7 && q == 1)) continue;
      if (is_one) {
        a.desc[word] = word < 4 ? was + 1 : was - 1; /* it has no more rows than before but one */
        if (word >= 6) a.desc[word] = (was + 1) % (word == 6 ? p : q);
      }
      CHECK(fleet_mpi_dpotrf(grid, FLEET_LOWER, 4, a.at, 1, 1, a.desc, &info) ==
            FLEET_BAD_ARGUMENT);
      CHECK(strstr(fleet_mpi_message(), "differ") != NULL);
      a.desc[word] = was;
    }
  }
  /* More than memory has, and than a message may: they are never looked at. */
  a.desc[2] = a.desc[3] = a.desc[8] = 30000000;
  CHECK(fleet_mpi_dgetrf(grid, 30000000, 30000000, a.at, 1, 1, a.desc, &word, &info) ==
        FLEET_NO_MEMORY);
  a.desc[4] = a.desc[5] = 1000000;
  if (p * q > 1) {
    CHECK(fleet_mpi_dpotrf(grid, FLEET_UPPER, 30000000, a.at, 1, 1, a.desc, &info) ==
          FLEET_UNSUPPORTED);
    CHECK(strstr(fleet_mpi_message(), "MPI allows") != NULL);
  }
  a.desc[2] = a.desc[3] = kM;
  a.desc[4] = a.desc[5] = nb;
  CHECK(memcmp(a.at, b.at, sizeof(double) * (size_t)(a.cols > 0 ? a.rows : 0)) == 0);
  CHECK(fleet_mpi_dpotrf(grid, FLEET_LOWER, 0, NULL, 1, 1, a.desc, &info) == FLEET_OK);
  CHECK(info == 0);
  free(a.at);
  free(b.at);
}

/* One rank asks for another grid than the others: all hear of it, and nobody waits. */
static void check_grids_that_differ(int size, int rank) {
  static const struct {
    char order;
    int turned, more;
    const char* options;
    fleet_status status;
    const char* text;
  } wrong[] = {{'x', 0, 0, NULL, FLEET_BAD_ARGUMENT, "order"},
               {'r', 0, 1, NULL, FLEET_BAD_ARGUMENT, "needs as many ranks"},
               {'r', 0, 0, "cores=few", FLEET_BAD_OPTION, "cores=few"},
               {'c', 0, 0, NULL, FLEET_BAD_ARGUMENT, "differ"},
               {'r', 1, 0, NULL, FLEET_BAD_ARGUMENT, "differ"},
               {'r', 0, 0, "overlap=none", FLEET_BAD_ARGUMENT, "differ"},
               {'r', 0, 0, "devices=some", FLEET_BAD_OPTION, "devices=none, devices=always"},
               {'r', 0, 0, "devices=auto", FLEET_BAD_ARGUMENT, "differ"}};
  size_t i;
  for (i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    const int is_one = rank == size - 1, turned = is_one && wrong[i].turned;
    CHECK(fleet_mpi_grid_create(MPI_COMM_WORLD, is_one ? wrong[i].order : 'r', turned ? size : 1,
                                (turned ? 1 : size) + (is_one ? wrong[i].more : 0),
                                is_one ? wrong[i].options : NULL, &grid) == wrong[i].status);
    CHECK(strstr(fleet_mpi_message(), wrong[i].text) != NULL);
    CHECK(grid == NULL);
  }
  CHECK(fleet_mpi_grid_create(MPI_COMM_WORLD, 'R', 1, size, NULL, rank == 0 ? NULL : &grid) ==
        FLEET_BAD_ARGUMENT);
  CHECK(strstr(fleet_mpi_message(), "grid is null") != NULL);
}

static void on_grid(char order, int rows) {
  int size;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  p = rows;
  q = size / rows;
  CHECK(fleet_mpi_grid_create(MPI_COMM_WORLD, order, p, q, "cores=2;patience_s=60", &grid) ==
        FLEET_OK);
  CHECK(fleet_mpi_grid_place(grid, &row, &col) == FLEET_OK);
  check_products();
  check_equations(1);
  check_equations(0);
  check_refusals();
  CHECK(fleet_mpi_grid_destroy(grid) == FLEET_OK);
}

/* All others end with a status. */
static void lose_a_rank(void) {
  int rank;
  matrix a;
  int64_t info = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &q);
  p = 1;
  CHECK(fleet_mpi_grid_create(MPI_COMM_WORLD, 'r', p, q, "patience_s=1;cores=1", &grid) ==
        FLEET_OK);
  CHECK(fleet_mpi_grid_place(grid, &row, &col) == FLEET_OK);
  a = made(kM, kM, 5, kM);
  if (rank > 0) {
    CHECK(fleet_mpi_dpotrf(grid, FLEET_LOWER, kM, a.at, 1, 1, a.desc, &info) ==
          FLEET_DEVICE_FAILED);
    CHECK(strstr(fleet_mpi_message(), "has not answered") != NULL);
    CHECK(fleet_mpi_dpotrf(grid, FLEET_LOWER, kM, a.at, 1, 1, a.desc, &info) ==
          FLEET_DEVICE_FAILED);
  }
  CHECK(fleet_mpi_grid_destroy(grid) == FLEET_OK);
  free(a.at);
}

/* Of a rank, as the environment wants it: all end with a status, and a grid without devices works.
 */
static void lose_a_device(void) {
  const char* const faults = getenv("FLEETBLAS_INJECT");
  matrix a;
  int64_t info = -1;
  int* pivots;
  MPI_Comm_size(MPI_COMM_WORLD, &q);
  p = 1;
  CHECK(fleet_mpi_grid_create(MPI_COMM_WORLD, 'r', p, q, "patience_s=3;cores=1;devices=always",
                              &grid) == FLEET_OK);
  CHECK(fleet_mpi_grid_place(grid, &row, &col) == FLEET_OK);
  a = made(kM, kM, 5, 0.01);
  pivots = malloc(sizeof(int) * (size_t)(a.rows + nb));
  CHECK(fleet_mpi_dgetrf(grid, kM, kM, a.at, 1, 1, a.desc, pivots, &info) == FLEET_DEVICE_FAILED);
  /* The others hear of it by waiting. */
  CHECK(faults != NULL || strstr(fleet_mpi_message(), "has not answered") != NULL);
  CHECK(faults == NULL || strstr(fleet_mpi_message(), "failed on purpose") != NULL);
  CHECK(fleet_mpi_dgetrf(grid, kM, kM, a.at, 1, 1, a.desc, pivots, &info) == FLEET_DEVICE_FAILED);
  CHECK(strstr(fleet_mpi_message(), "a call before has failed") != NULL);
  CHECK(fleet_mpi_grid_destroy(grid) == FLEET_OK);
  free(a.at);
  free(pivots);
  MPI_Barrier(MPI_COMM_WORLD);
  CHECK(fleet_mpi_grid_create(MPI_COMM_WORLD, 'r', p, q, "cores=1;devices=none", &grid) ==
        FLEET_OK);
  check_products();
  check_equations(0);
  CHECK(fleet_mpi_grid_destroy(grid) == FLEET_OK);
}

int main(int argc, char** argv) {
  int provided, size, rows, rank;
  const int wanted =
      argc > 1 && strcmp(argv[1], "single") == 0 ? MPI_THREAD_SINGLE : MPI_THREAD_SERIALIZED;
  MPI_Init_thread(&argc, &argv, wanted, &provided);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  CHECK(fleet_mpi_grid_create(MPI_COMM_WORLD, 'r', size, 2, NULL, &grid) == FLEET_BAD_ARGUMENT);
  CHECK(fleet_mpi_grid_create(MPI_COMM_WORLD, 'r', size, 1, "cores=many", &grid) ==
        FLEET_BAD_OPTION);
  CHECK(grid == NULL);
  if (argc > 1 && strcmp(argv[1], "device") == 0) {
    lose_a_device();
  } else {
    if (size > 1) check_grids_that_differ(size, rank);
    for (rows = 1; rows <= size; ++rows)
      if (size % rows == 0) on_grid(rows % 2 == 0 ? 'c' : 'r', rows);
    if (size > 1) lose_a_rank();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) puts("mpi_blas: passed");
  MPI_Finalize();
  return 0;
}
