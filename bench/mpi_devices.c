/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mpi_devices.c: routines of mpi.h by the cores of each rank and by its device, in turn, timed and
 * verified. For programs of more than one rank per node, one rank for each GPU.
 *
 *     mpicc -O2 bench/mpi_devices.c $(pkg-config --cflags --libs fleetblas_mpi) -lm -o mpi_devices
 *     mpirun -n 2 ./mpi_devices gemm 16384 256 1 2 3
 *
 * usage: mpi_devices ROUTINE N NB P Q REPEATS [none|always]   (ROUTINE: gemm, syrk, gesv)
 *
 * Prints a line for each run: routine n nb p q devices seconds gflops error. The error is that of a
 * product with a vector of random numbers, over what rounding may make of it; 16 and more is wrong.
 */
#include <float.h>
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleetblas/mpi.h"

static int p, q, row, col;
static int64_t n, nb;

typedef struct {
  int64_t local_rows, local_cols;
  int desc[9];
  double* at;
} matrix;

static void* cleared(int64_t count) {
  void* const made = calloc(count > 0 ? (size_t)count : 1, sizeof(double));
  if (made == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
  return made;
}

/* n x cols, in blocks of nb from the first rank on. */
static matrix made(int64_t cols) {
  matrix x;
  const int64_t rows = fleet_mpi_local_size(n, nb, row, 0, p);
  const int desc[9] = {1, 0, (int)n, (int)cols, (int)nb, (int)nb, 0, 0, rows > 1 ? (int)rows : 1};
  x.local_rows = rows;
  x.local_cols = fleet_mpi_local_size(cols, nb, col, 0, q);
  memcpy(x.desc, desc, sizeof desc);
  x.at = cleared(desc[8] * x.local_cols);
  return x;
}

static int64_t global(int64_t local, int part, int parts) {
  return (local / nb * parts + part) * nb + local % nb;
}

/* In [-0.5, 0.5), by the place of an element. */
static double number(uint64_t i, uint64_t j, uint64_t seed) {
  uint64_t x = (i * 0x9e3779b97f4a7c15u) ^ (j * 0xc2b2ae3d27d4eb4fu) ^ (seed << 40);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return (double)((x ^ (x >> 31)) >> 11) * 0x1p-53 - 0.5;
}

static void fill(matrix x, uint64_t seed) {
  int64_t r, c;
  for (c = 0; c < x.local_cols; ++c)
    for (r = 0; r < x.local_rows; ++r)
      x.at[r + c * x.desc[8]] =
          number((uint64_t)global(r, row, p), (uint64_t)global(c, col, q), seed);
}

enum shape { as_it_is, transposed, symmetric /* from the lower triangle */, of_sizes };

/* y := op(x)*v. Vectors are whole on every rank. */
static void times(matrix x, enum shape shape, const double* v, double* y) {
  int64_t r, c;
  memset(y, 0, (size_t)n * sizeof(double));
  for (c = 0; c < x.local_cols; ++c) {
    const int64_t j = global(c, col, q);
    for (r = 0; r < x.local_rows; ++r) {
      const int64_t i = global(r, row, p);
      const double element = x.at[r + c * x.desc[8]];
      if (shape == of_sizes)
        y[i] += fabs(element * v[j]);
      else if (shape == as_it_is || (shape == symmetric && i >= j))
        y[i] += element * v[j];
      if (shape == transposed || (shape == symmetric && i > j)) y[j] += element * v[i];
    }
  }
  MPI_Allreduce(MPI_IN_PLACE, y, (int)n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static double largest(const double* v) {
  double found = 0;
  int64_t i;
  for (i = 0; i < n; ++i) found = isnan(v[i]) ? INFINITY : fmax(found, fabs(v[i]));
  return found;
}

/* The difference of two vectors over what rounding may make of numbers of that size. */
static double error_of(const double* found, double* expected, const double* sizes) {
  int64_t i;
  for (i = 0; i < n; ++i) expected[i] -= found[i];
  return largest(expected) / (DBL_EPSILON * largest(sizes));
}

typedef struct {
  matrix a, b, c;
  int* pivots;
  double *v, *x, *y, *sizes, *work;
} problem;

static fleet_status compute(const char* routine, fleet_mpi_grid* grid, problem* of) {
  const matrix a = of->a, b = of->b, c = of->c;
  int64_t info = 0;
  if (strcmp(routine, "gemm") == 0)
    return fleet_mpi_dgemm(grid, FLEET_NO_TRANS, FLEET_NO_TRANS, n, n, n, 1, a.at, 1, 1, a.desc,
                           b.at, 1, 1, b.desc, 0, c.at, 1, 1, c.desc);
  if (strcmp(routine, "syrk") == 0)
    return fleet_mpi_dsyrk(grid, FLEET_LOWER, FLEET_NO_TRANS, n, n, 1, a.at, 1, 1, a.desc, 0, c.at,
                           1, 1, c.desc);
  return fleet_mpi_dgesv(grid, n, 1, a.at, 1, 1, a.desc, of->pivots, b.at, 1, 1, b.desc, &info);
}

/* b, a column, and a vector that is whole on every rank. */
static void to_column(const double* from, matrix b) {
  int64_t r;
  for (r = 0; r < b.local_rows && b.local_cols > 0; ++r) b.at[r] = from[global(r, row, p)];
}
static void from_column(matrix b, double* to) {
  int64_t r;
  memset(to, 0, (size_t)n * sizeof(double));
  for (r = 0; r < b.local_rows && b.local_cols > 0; ++r) to[global(r, row, p)] = b.at[r];
  MPI_Allreduce(MPI_IN_PLACE, to, (int)n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void prepare(const char* routine, problem* of) {
  fill(of->a, 1);
  if (strcmp(routine, "gemm") == 0) fill(of->b, 2);
  if (strcmp(routine, "gesv") != 0) return;
  times(of->a, as_it_is, of->v, of->y);
  to_column(of->y, of->b);
}

static double error(const char* routine, problem* of) {
  if (strcmp(routine, "gesv") == 0) {
    fill(of->a, 1);
    from_column(of->b, of->x);
    times(of->a, of_sizes, of->x, of->sizes);
    times(of->a, as_it_is, of->x, of->work);
    return error_of(of->work, of->y, of->sizes) / (double)n; /* as HPL judges it */
  }
  if (strcmp(routine, "gemm") == 0) {
    times(of->b, of_sizes, of->v, of->x);
    times(of->a, of_sizes, of->x, of->sizes);
    times(of->b, as_it_is, of->v, of->x);
    times(of->a, as_it_is, of->x, of->y);
    times(of->c, as_it_is, of->v, of->x);
  } else {
    times(of->a, transposed, of->v, of->x);
    times(of->a, of_sizes, of->x, of->sizes);
    times(of->a, as_it_is, of->x, of->y);
    times(of->c, symmetric, of->v, of->x);
  }
  return error_of(of->x, of->y, of->sizes);
}

static int run(const char* routine, const char* devices, problem* of, int repeats) {
  const double flops = (strcmp(routine, "gemm") == 0   ? 2.0
                        : strcmp(routine, "syrk") == 0 ? 1.0
                                                       : 2.0 / 3) *
                       (double)n * (double)n * (double)n;
  fleet_mpi_grid* grid = NULL;
  char options[32];
  int repeat, rank, is_wrong = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  snprintf(options, sizeof options, "devices=%s", devices);
  if (fleet_mpi_grid_create(MPI_COMM_WORLD, 'r', p, q, options, &grid) != FLEET_OK) {
    fprintf(stderr, "%s\n", fleet_mpi_message());
    return 1;
  }
  for (repeat = 0; repeat < repeats; ++repeat) {
    double begin, seconds, wrong;
    prepare(routine, of);
    MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    if (compute(routine, grid, of) != FLEET_OK) {
      fprintf(stderr, "%s\n", fleet_mpi_message());
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    seconds = MPI_Wtime() - begin;
    wrong = error(routine, of);
    is_wrong |= !(wrong < 16);
    if (rank == 0)
      printf("%s %lld %lld %d %d %s %.3f %.1f %.3g\n", routine, (long long)n, (long long)nb, p, q,
             devices, seconds, flops / seconds * 1e-9, wrong);
    fflush(stdout);
  }
  fleet_mpi_grid_destroy(grid);
  return is_wrong;
}

int main(int argc, char** argv) {
  int provided, ranks, rank, is_wrong = 0;
  int64_t i;
  problem of;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc < 7 || (n = atoll(argv[2])) < 1 || (nb = atoll(argv[3])) < 1 || n > INT32_MAX ||
      (p = atoi(argv[4])) * (q = atoi(argv[5])) != ranks) {
    if (rank == 0)
      fprintf(stderr, "usage: mpi_devices gemm|syrk|gesv N NB P Q REPEATS [none|always]\n");
    MPI_Finalize();
    return 2;
  }
  row = rank / q;
  col = rank % q;
  of.a = made(n);
  of.b = made(strcmp(argv[1], "gesv") == 0 ? 1 : n);
  of.c = made(strcmp(argv[1], "gesv") == 0 ? 0 : n);
  of.pivots = cleared(of.a.local_rows + nb);
  of.v = cleared(n);
  of.x = cleared(n);
  of.y = cleared(n);
  of.sizes = cleared(n);
  of.work = cleared(n);
  for (i = 0; i < n; ++i) of.v[i] = number((uint64_t)i, 0, 7);
  if (argc < 8 || strcmp(argv[7], "none") == 0)
    is_wrong |= run(argv[1], "none", &of, atoi(argv[6]));
  if (argc < 8 || strcmp(argv[7], "always") == 0)
    is_wrong |= run(argv[1], "always", &of, atoi(argv[6]));
  MPI_Finalize();
  return is_wrong;
}
