/* SPDX-License-Identifier: BSD-3-Clause
 *
 * recording_core.c: a stand-in for libfleetblas.so that takes calls, computes them by plain loops
 * (real types) and writes one line per event to the file RECORD_FILE, so that a test sees exactly
 * what the preload library decided. It knows nothing of plans or devices.
 *
 * Calls of LAPACK are done by the LAPACK in the file RECORD_LAPACK; RECORD_NO_LAPACK=1: the core
 * serves none. RECORD_INFO: the info of all that are taken. RECORD_BLOCK_SIZE: the block size that
 * it answers where that is allowed.
 *
 * RECORD_MIN_FLOPS, RECORD_WANTS_ALL, RECORD_TAKE (default 1) are what it tells or answers;
 * RECORD_VERSION overrides its version; RECORD_SLEEP_MS makes starting it take that long.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/dropin.h"

static double number(const char* name, double fallback) {
  const char* text = getenv(name);
  return text ? atof(text) : fallback;
}

static char shown(char flag) { return flag ? flag : '-'; }

static void record(const char* event, const fleet_dropin_call* call) {
  const char* file = getenv("RECORD_FILE");
  int out = file ? open(file, O_WRONLY | O_CREAT | O_APPEND, 0666) : -1;
  if (out < 0) return;
  char line[256];
  int length =
      call ? snprintf(line, sizeof line, "%s %s %c %c%c%c%c%c %lld %lld %lld %lld %lld %lld\n",
                      event, call->symbol, call->type, shown(call->side), shown(call->uplo),
                      shown(call->transa), shown(call->transb), shown(call->diag),
                      (long long)call->m, (long long)call->n, (long long)call->k,
                      (long long)call->lda, (long long)call->ldb, (long long)call->ldc)
           : snprintf(line, sizeof line, "%s\n", event);
  if (write(out, line, (size_t)length) < 0) perror("record");
  close(out);
}

static double get(const fleet_dropin_call* p, const void* x, int64_t at) {
  return p->type == 's' ? ((const float*)x)[at] : ((const double*)x)[at];
}
static void put(const fleet_dropin_call* p, int64_t at, double value) {
  if (p->type == 's')
    ((float*)p->c)[at] = (float)value;
  else
    ((double*)p->c)[at] = value;
}

/* op(A), with all that a symmetric or triangular A has but does not store. */
static double element_a(const fleet_dropin_call* p, int64_t i, int64_t l) {
  const int symmetric = p->routine == fleet_dropin_symm;
  const int triangular = p->routine == fleet_dropin_trmm || p->routine == fleet_dropin_trsm;
  const int turned = !symmetric && p->transa != 'n';
  const int64_t row = turned ? l : i, col = turned ? i : l;
  const int stored = p->uplo == 'l' ? row >= col : row <= col;
  if (triangular && row == col && p->diag == 'u') return 1;
  if (triangular && !stored) return 0;
  return symmetric && !stored ? get(p, p->a, col + row * p->lda) : get(p, p->a, row + col * p->lda);
}
static double element_b(const fleet_dropin_call* p, char trans, int64_t l, int64_t j) {
  return get(p, p->b, trans == 'n' ? l + j * p->ldb : j + l * p->ldb);
}

static double product(const fleet_dropin_call* p, int64_t i, int64_t j) {
  const int twice = p->routine == fleet_dropin_syr2k;
  double sum = 0;
  for (int64_t l = 0; l < p->k; ++l)
    if (p->routine == fleet_dropin_symm)
      sum += p->side == 'l' ? element_a(p, i, l) * element_b(p, 'n', l, j)
                            : element_b(p, 'n', i, l) * element_a(p, l, j);
    else if (p->routine == fleet_dropin_syrk)
      sum += element_a(p, i, l) * element_a(p, j, l);
    else if (twice)
      sum += element_a(p, i, l) * element_b(p, p->transa == 'n' ? 't' : 'n', l, j) +
             element_b(p, p->transa, i, l) * element_a(p, j, l);
    else
      sum += element_a(p, i, l) * element_b(p, p->transb, l, j);
  return sum;
}

/* B := op(A)*B or the solution, one vector of k elements; from the right by the transpose. */
static void in_place(const fleet_dropin_call* p, int64_t first, int64_t stride) {
  const double alpha = get(p, p->alpha, 0);
  double x[64] = {0}, y[64] = {0};
  const int left = p->side == 'l';
  for (int64_t i = 0; i < p->k; ++i) x[i] = alpha * get(p, p->c, first + i * stride);
  for (int64_t round = 0; round < (p->routine == fleet_dropin_trsm ? p->k : 1); ++round)
    for (int64_t i = 0; i < p->k; ++i) {
      double sum = 0;
      for (int64_t l = 0; l < p->k; ++l) {
        const double a = left ? element_a(p, i, l) : element_a(p, l, i);
        if (p->routine == fleet_dropin_trmm) sum += a * x[l];
        if (p->routine == fleet_dropin_trsm && l != i) sum += a * y[l];
      }
      /* As many rounds as there are rows settle all of a triangular system. */
      y[i] = p->routine == fleet_dropin_trmm ? sum : (x[i] - sum) / element_a(p, i, i);
    }
  for (int64_t i = 0; i < p->k; ++i) put(p, first + i * stride, y[i]);
}

static void compute_real(const fleet_dropin_call* p) {
  if (p->routine == fleet_dropin_trmm || p->routine == fleet_dropin_trsm) {
    if (p->side == 'l')
      for (int64_t j = 0; j < p->n; ++j) in_place(p, j * p->ldc, 1);
    else
      for (int64_t i = 0; i < p->m; ++i) in_place(p, i, p->ldc);
    return;
  }
  const int full = p->routine == fleet_dropin_gemm || p->routine == fleet_dropin_symm;
  const double alpha = get(p, p->alpha, 0), beta = get(p, p->beta, 0);
  for (int64_t j = 0; j < p->n; ++j)
    for (int64_t i = 0; i < p->m; ++i) {
      if (!full && (p->uplo == 'l' ? i < j : i > j)) continue;
      const int64_t at = i + j * p->ldc;
      put(p, at, alpha * product(p, i, j) + (beta == 0 ? 0 : beta * get(p, p->c, at)));
    }
}

static int offer(const fleet_dropin_call* call) {
  const int in_order = call->routine != fleet_dropin_trmm && call->routine != fleet_dropin_trsm;
  const int take = (call->type == 's' || call->type == 'd') && number("RECORD_TAKE", 1) != 0 &&
                   (in_order || call->k <= 64);
  record(take ? "took" : "asked", call);
  if (take) compute_real(call);
  return take;
}

/* The BLAS behind has to be there: this core has none. */
static int compute(const fleet_dropin_call* call) {
  record("computed", call);
  return 0;
}

static void note_host(const fleet_dropin_call* call, double seconds) {
  record(seconds >= 0 ? "host" : "bad-time", call);
}

#include "recording_lapack.h"

static void record_lapack(const char* event, const fleet_dropin_lapack_call* p, double number) {
  const char* file = getenv("RECORD_FILE");
  int out = file ? open(file, O_WRONLY | O_CREAT | O_APPEND, 0666) : -1;
  if (out < 0) return;
  char line[256];
  int length = snprintf(line, sizeof line,
                        "%s %s %c %c%c%c%c%c%c %d %lld %lld %lld %lld %lld %lld %lld %.17g\n",
                        event, p->symbol, p->type, shown(p->side), shown(p->uplo), shown(p->trans),
                        shown(p->diag), shown(p->direct), shown(p->storev), p->int_bits,
                        (long long)p->m, (long long)p->n, (long long)p->k, (long long)p->nrhs,
                        (long long)p->lda, (long long)p->ldb, (long long)p->ldc, number);
  if (write(out, line, (size_t)length) < 0) perror("record");
  close(out);
}

static int take_lapack(const char* event, const fleet_dropin_lapack_call* call, int64_t* info) {
  const int done = number("RECORD_TAKE", 1) != 0 && compute_lapack_call(call, info);
  *info = (int64_t)number("RECORD_INFO", (double)*info);
  record_lapack(done ? event : "asked-lapack", call, (double)*info);
  return done;
}

static int offer_lapack(const fleet_dropin_lapack_call* call, int64_t* info) {
  return take_lapack("took-lapack", call, info);
}
static int compute_lapack(const fleet_dropin_lapack_call* call, int64_t* info) {
  return take_lapack("computed-lapack", call, info);
}
static void note_host_lapack(const fleet_dropin_lapack_call* call, double seconds) {
  record_lapack(seconds >= 0 ? "host-lapack" : "bad-time", call, call->flops);
}

static int64_t block_size(char type, int64_t m, int64_t n, int64_t above, int64_t most) {
  const int64_t size = (int64_t)number("RECORD_BLOCK_SIZE", 0);
  const char* file = getenv("RECORD_FILE");
  FILE* out = file ? fopen(file, "a") : NULL;
  if (out) {
    fprintf(out, "block-size %c %lld %lld %lld %lld\n", type, (long long)m, (long long)n,
            (long long)above, (long long)most);
    fclose(out);
  }
  return size > above && size <= most ? size : 0;
}

const fleet_dropin_core* fleet_dropin(void) {
  static fleet_dropin_core core;
  record("loaded", NULL);
  usleep((useconds_t)(1000 * number("RECORD_SLEEP_MS", 0)));
  core.version = (int)number("RECORD_VERSION", FLEET_DROPIN_VERSION);
  core.min_flops = number("RECORD_MIN_FLOPS", 0);
  core.wants_all = (int)number("RECORD_WANTS_ALL", 0);
  core.offer = offer;
  core.compute = compute;
  core.note_host = note_host;
  core.serves_lapack = number("RECORD_NO_LAPACK", 0) == 0;
  core.lapack_min_flops = core.min_flops;
  core.offer_lapack = offer_lapack;
  core.compute_lapack = compute_lapack;
  core.note_host_lapack = note_host_lapack;
  core.block_size = block_size;
  return &core;
}
