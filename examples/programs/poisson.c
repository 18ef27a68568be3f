/* SPDX-License-Identifier: BSD-3-Clause
 *
 * poisson.c: Poisson's equation in a cube (7 points) by MUMPS, which calls BLAS. It must not know
 * FleetBLAS: the drop-in serves the calls.
 *
 * usage: poisson EDGE [FILE]    EDGE^3 unknowns; FILE gets the solutions of all rounds (doubles)
 *
 * Each round factors another matrix, in the memory of the one before, and solves for solutions that
 * are known. Ends with status 1 if a residual or an error is larger than rounding makes it.
 */
#include <dmumps_c.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { kRounds = 3, kSolutions = 16 };
enum { kAnalyse = 1, kFactor = 2, kSolve = 3, kStart = -1, kEnd = -2 };

static double now_s(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void* memory(size_t count, size_t bytes) {
  void* data = calloc(count, bytes);
  if (data == NULL) {
    fprintf(stderr, "poisson: no memory\n");
    exit(1);
  }
  return data;
}

/* The positions of the elements, counted from 1, row by row. Returns their number. */
static long positions(int edge, MUMPS_INT* rows, MUMPS_INT* cols) {
  const long steps[6] = {-(long)edge * edge, -edge, -1, 1, edge, (long)edge * edge};
  long count = 0;
  for (int z = 0; z < edge; ++z)
    for (int y = 0; y < edge; ++y)
      for (int x = 0; x < edge; ++x) {
        const int inside[6] = {z > 0, y > 0, x > 0, x + 1 < edge, y + 1 < edge, z + 1 < edge};
        const long at = ((long)z * edge + y) * edge + x;
        rows[count] = cols[count] = (MUMPS_INT)(at + 1);
        ++count;
        for (int i = 0; i < 6; ++i)
          if (inside[i]) {
            rows[count] = (MUMPS_INT)(at + 1);
            cols[count++] = (MUMPS_INT)(at + steps[i] + 1);
          }
      }
  return count;
}

/* The matrix of a round: conductivities differ by direction and round, so it is not symmetric. */
static double element(int round, MUMPS_INT row, MUMPS_INT col) {
  if (row == col) return 6.5 + round;
  return row < col ? -1.0 - 0.25 * round : -1.0;
}

static double solution(int round, long row, int column) {
  return sin(0.001 * (double)(row + 1) * (column + 1)) + round;
}

/* b += sign A x, for all columns. */
static void multiply(const DMUMPS_STRUC_C* mumps, double sign, const double* x, double* b) {
  const long n = mumps->n;
  for (long e = 0; e < mumps->nnz; ++e)
    for (int column = 0; column < kSolutions; ++column)
      b[column * n + mumps->irn[e] - 1] += sign * mumps->a[e] * x[column * n + mumps->jcn[e] - 1];
}

static double largest_of(const double* values, long count) {
  double largest = 0;
  for (long i = 0; i < count; ++i) largest = fmax(largest, fabs(values[i]));
  return largest;
}

static void run(DMUMPS_STRUC_C* mumps, int job) {
  mumps->job = job;
  dmumps_c(mumps);
  if (mumps->infog[0] < 0) {
    fprintf(stderr, "poisson: MUMPS: error %d, %d\n", (int)mumps->infog[0], (int)mumps->infog[1]);
    exit(1);
  }
}

/* Factors and solves once. known, rest: of the size of the right side. Returns the larger one of
 * the residual and the error, each relative. */
static double round_of(DMUMPS_STRUC_C* mumps, int round, double* known, double* rest) {
  const long count = (long)mumps->n * kSolutions;
  for (long e = 0; e < mumps->nnz; ++e) mumps->a[e] = element(round, mumps->irn[e], mumps->jcn[e]);
  for (long i = 0; i < count; ++i) {
    known[i] = solution(round, i % mumps->n, (int)(i / mumps->n));
    mumps->rhs[i] = 0;
  }
  multiply(mumps, 1, known, mumps->rhs);
  for (long i = 0; i < count; ++i) rest[i] = mumps->rhs[i];

  const double begun_s = now_s();
  run(mumps, kFactor);
  const double factored_s = now_s();
  run(mumps, kSolve);
  const double solved_s = now_s();

  multiply(mumps, -1, mumps->rhs, rest);
  const double row_sum = 12.5 + 1.75 * round;
  const double residual = largest_of(rest, count) / (row_sum * largest_of(known, count));
  for (long i = 0; i < count; ++i) rest[i] = mumps->rhs[i] - known[i];
  const double error = largest_of(rest, count) / largest_of(known, count);
  fprintf(stderr,
          "round %d: factored in %.3f s, solved in %.3f s, %.3g flops, residual %.1e, error %.1e\n",
          round, factored_s - begun_s, solved_s - factored_s, mumps->rinfog[2], residual, error);
  return fmax(residual, error);
}

int main(int argc, char** argv) {
  const int edge = argc > 1 ? atoi(argv[1]) : 0;
  if (edge < 2 || edge > 200) {
    fprintf(stderr, "usage: poisson EDGE [FILE]\n");
    return 2;
  }
  FILE* file = argc > 2 ? fopen(argv[2], "wb") : NULL;
  const size_t n = (size_t)edge * edge * edge;
  DMUMPS_STRUC_C mumps = {.par = 1, .sym = 0, .comm_fortran = -987654};
  run(&mumps, kStart);
  mumps.n = (MUMPS_INT)n;
  mumps.irn = memory(7 * n, sizeof *mumps.irn);
  mumps.jcn = memory(7 * n, sizeof *mumps.jcn);
  mumps.a = memory(7 * n, sizeof *mumps.a);
  mumps.rhs = memory(n * kSolutions, sizeof *mumps.rhs);
  mumps.nnz = positions(edge, mumps.irn, mumps.jcn);
  mumps.nrhs = kSolutions;
  mumps.lrhs = mumps.n;
  for (int i = 0; i < 3; ++i) mumps.icntl[i] = -1; /* no messages */
  mumps.icntl[3] = 0;
  mumps.icntl[26] = kSolutions; /* columns that are solved together */
  run(&mumps, kAnalyse);

  double* known = memory(n * kSolutions, sizeof *known);
  double* rest = memory(n * kSolutions, sizeof *rest);
  int is_right = 1;
  for (int round = 0; round < kRounds; ++round) {
    is_right &= round_of(&mumps, round, known, rest) < 1e-12;
    if (file != NULL) fwrite(mumps.rhs, sizeof *mumps.rhs, n * kSolutions, file);
  }
  if (file != NULL && fclose(file) != 0) is_right = 0;
  run(&mumps, kEnd);
  puts(is_right ? "right" : "wrong");
  return !is_right;
}
