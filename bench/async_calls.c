/* SPDX-License-Identifier: BSD-3-Clause
 *
 * async_calls.c: how long a queued call takes to return. It queues products of small matrices in
 * batches, each of which is waited for, checks the results, and prints the seconds of each call;
 * those of the first are the first. For bench/compose.py, which compiles it.
 *
 * usage: async_calls OPTIONS EDGE CALLS BATCH
 */
#define _POSIX_C_SOURCE 199309L
#include <fleetblas/fleetblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { kMatrices = 8, kFactors = 2 };

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void require(fleet_status status) {
  if (status == FLEET_OK) return;
  fprintf(stderr, "%s: %s\n", fleet_status_string(status), fleet_message());
  exit(1);
}

/* A, B, and results; the memory is all theirs. */
static double* data[kMatrices];
static fleet_matrix* matrix[kMatrices];

static void make_matrices(fleet_context* context, int64_t n) {
  srand(20261124);
  for (int m = 0; m < kMatrices; m++) {
    int64_t ld = 0;
    void* memory = NULL;
    require(fleet_matrix_create(context, FLEET_F64, n, n, "h", &matrix[m]));
    require(fleet_matrix_data(matrix[m], &memory, &ld));
    data[m] = memory;
    for (int64_t i = 0; i < n * n; i++)
      data[m][i] = m < kFactors ? 2.0 * rand() / RAND_MAX - 1.0 : (double)NAN;
    require(fleet_matrix_wrote(matrix[m], 0, 0, n, n));
  }
}

/* Queues a batch and waits for it; the seconds of each call go to `seconds`. */
static void queue_batch(fleet_context* context, int calls, double* seconds) {
  fleet_event* last = NULL;
  for (int i = 0; i < calls; i++) {
    fleet_matrix* c = matrix[kFactors + i % (kMatrices - kFactors)];
    const double start_s = now_s();
    require(fleet_dgemm_async(context, FLEET_NO_TRANS, FLEET_NO_TRANS, 1.0, matrix[0], matrix[1],
                              0.0, c, i + 1 < calls ? NULL : &last));
    seconds[i] = now_s() - start_s;
  }
  require(fleet_event_wait(last));
  require(fleet_event_destroy(last));
}

static int is_right(int m, int64_t n) {
  require(fleet_matrix_read(matrix[m], 0, 0, n, n));
  for (int64_t col = 0; col < n; col++)
    for (int64_t row = 0; row < n; row++) {
      long double sum = 0;
      for (int64_t k = 0; k < n; k++)
        sum += (long double)data[0][row + k * n] * (long double)data[1][k + col * n];
      if (!(fabsl(sum - (long double)data[m][row + col * n]) <= 1e-15L * (long double)n)) return 0;
    }
  return 1;
}

int main(int count, char** words) {
  if (count != 5) return 2;
  const int64_t n = atoll(words[2]);
  const int calls = atoi(words[3]), batch = atoi(words[4]);
  double* const seconds = malloc((size_t)(calls + batch) * sizeof *seconds);
  fleet_context* context = NULL;
  if (!seconds || n < 1 || batch < kMatrices || calls % batch != 0) return 2;
  require(fleet_context_create(words[1], &context));
  make_matrices(context, n);

  /* The first batch starts the devices and makes the plan. */
  for (int i = 0; i <= calls; i += batch) queue_batch(context, batch, seconds + i);

  for (int m = kFactors; m < kMatrices; m++)
    if (!is_right(m, n)) {
      fprintf(stderr, "a result is wrong\n");
      return 1;
    }
  printf("%.9f\n", seconds[0]);
  for (int i = batch; i < calls + batch; i++) printf("%.9f\n", seconds[i]);
  for (int m = 0; m < kMatrices; m++) require(fleet_matrix_destroy(matrix[m]));
  require(fleet_context_destroy(context));
  free(seconds);
  return 0;
}
