/* SPDX-License-Identifier: BSD-3-Clause
 *
 * devices.c: a context of two virtual devices, a matrix that lives on one of them, and a stack of
 * small products that are spread over both.
 */
#include <fleetblas/fleetblas.h>
#include <stdio.h>
#include <stdlib.h>

static void require(fleet_status status) {
  if (status == FLEET_OK) return;
  fprintf(stderr, "%s: %s\n", fleet_status_string(status), fleet_message());
  exit(1);
}

int main(void) {
  enum { n = 64, items = 10, elements = n * n * items };
  fleet_context* context;
  require(fleet_context_create("backend=host; devices=2; offload=always", &context));

  /* Items of A and C on the host, one B for all of them on device 1. */
  float* a = malloc(elements * sizeof *a);
  float* c = malloc(elements * sizeof *c);
  float b[n * n];
  void* b_on_device;
  if (!a || !c) return 1;
  for (int i = 0; i < elements; i++) a[i] = (float)(i / (n * n));
  for (int i = 0; i < n * n; i++) b[i] = 1.0f;
  require(fleet_alloc(context, 1, sizeof b, &b_on_device));
  require(fleet_copy(context, b_on_device, b, sizeof b));

  require(fleet_sgemm_strided_batched(context, FLEET_NO_TRANS, FLEET_TRANS, n, n, n, 1.0f, a, n,
                                      n * n, b_on_device, n, 0, 0.0f, c, n, n * n, items));
  for (int i = 0; i < elements; i++)
    if (c[i] != (float)(n * (i / (n * n)))) return 1;

  char* stats;
  require(fleet_stats_json(context, &stats));
  printf("%s\n", stats);
  fleet_free_text(stats);
  require(fleet_free(context, b_on_device));
  require(fleet_context_destroy(context));
  free(a);
  free(c);
  return 0;
}
