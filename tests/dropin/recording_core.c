/* SPDX-License-Identifier: BSD-3-Clause
 *
 * recording_core.c: a stand-in for libfleetblas.so that takes calls, computes them by plain loops
 * (real types) and writes one line per event to the file RECORD_FILE, so that a test sees exactly
 * what the preload library decided. It knows nothing of plans or devices.
 *
 * RECORD_MIN_FLOPS, RECORD_WANTS_ALL, RECORD_TAKE (default 1) are what it tells or answers;
 * RECORD_VERSION overrides its version; RECORD_SLEEP_MS makes starting it take that long.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "blas/dropin.h"

static double number(const char* name, double fallback) {
  const char* text = getenv(name);
  return text ? atof(text) : fallback;
}

static void record(const char* event, const fleet_dropin_call* call) {
  const char* file = getenv("RECORD_FILE");
  int out = file ? open(file, O_WRONLY | O_CREAT | O_APPEND, 0666) : -1;
  if (out < 0) return;
  char line[256];
  int length = call ? snprintf(line, sizeof line, "%s %s %c %c%c %lld %lld %lld %lld %lld %lld\n",
                               event, call->symbol, call->type, call->transa, call->transb,
                               (long long)call->m, (long long)call->n, (long long)call->k,
                               (long long)call->lda, (long long)call->ldb, (long long)call->ldc)
                    : snprintf(line, sizeof line, "%s\n", event);
  if (write(out, line, (size_t)length) < 0) perror("record");
  close(out);
}

#define MULTIPLY(T)                                                                       \
  static void multiply_##T(const fleet_dropin_call* p) {                                  \
    const T *a = p->a, *b = p->b, alpha = *(const T*)p->alpha, beta = *(const T*)p->beta; \
    T* c = p->c;                                                                          \
    for (int64_t j = 0; j < p->n; ++j)                                                    \
      for (int64_t i = 0; i < p->m; ++i) {                                                \
        T sum = 0;                                                                        \
        for (int64_t l = 0; l < p->k; ++l)                                                \
          sum += (p->transa == 'n' ? a[i + l * p->lda] : a[l + i * p->lda]) *             \
                 (p->transb == 'n' ? b[l + j * p->ldb] : b[j + l * p->ldb]);              \
        T* out = c + i + j * p->ldc;                                                      \
        *out = alpha * sum + (beta == 0 ? 0 : beta * *out);                               \
      }                                                                                   \
  }
MULTIPLY(float)
MULTIPLY(double)

static int gemm(const fleet_dropin_call* call) {
  const int take = (call->type == 's' || call->type == 'd') && number("RECORD_TAKE", 1) != 0;
  record(take ? "took" : "asked", call);
  if (!take) return 0;
  if (call->type == 's')
    multiply_float(call);
  else
    multiply_double(call);
  return 1;
}

static void note_host(const fleet_dropin_call* call, double seconds) {
  record(seconds >= 0 ? "host" : "bad-time", call);
}

const fleet_dropin_core* fleet_dropin(void) {
  static fleet_dropin_core core;
  record("loaded", NULL);
  usleep((useconds_t)(1000 * number("RECORD_SLEEP_MS", 0)));
  core.version = (int)number("RECORD_VERSION", FLEET_DROPIN_VERSION);
  core.min_flops = number("RECORD_MIN_FLOPS", 0);
  core.wants_all = (int)number("RECORD_WANTS_ALL", 0);
  core.gemm = gemm;
  core.note_host = note_host;
  return &core;
}
