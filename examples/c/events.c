/* SPDX-License-Identifier: BSD-3-Clause
 *
 * events.c: one step of a distributed LU factorisation as a node of it sees it. The update of the
 * next panel waits for a panel that arrives, and overtakes the update of the rest, so that it can
 * be sent on early. The program checks the results.
 */
#include <fleetblas/fleetblas.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 320, NB = 64 };

static fleet_status failed(fleet_status status) {
  if (status != FLEET_OK) fprintf(stderr, "%s: %s\n", fleet_status_string(status), fleet_message());
  return status;
}

/* Stands for a message: a program would poll MPI_Test in its loop or in a thread. */
static fleet_status receive(double* panel, const fleet_event* arrived) {
  for (int i = 0; i < N * NB; i++) panel[i] = 1.0;
  return fleet_event_set(arrived, FLEET_OK);
}

int main(void) {
  double *panel = malloc(sizeof(double) * N * NB), *row = malloc(sizeof(double) * NB * N),
         *rest = malloc(sizeof(double) * N * N);
  if (!panel || !row || !rest) return 1;
  for (int i = 0; i < NB * N; i++) row[i] = 1.0;
  for (int i = 0; i < N * N; i++) rest[i] = NB;

  fleet_matrix *l, *u, *a, *u_next, *u_rest, *a_next, *a_rest;
  if (failed(fleet_matrix_wrap(NULL, FLEET_F64, N, NB, panel, N, &l)) ||
      failed(fleet_matrix_wrap(NULL, FLEET_F64, NB, N, row, NB, &u)) ||
      failed(fleet_matrix_wrap(NULL, FLEET_F64, N, N, rest, N, &a)) ||
      failed(fleet_matrix_view(u, 0, 0, NB, NB, &u_next)) ||
      failed(fleet_matrix_view(u, 0, NB, NB, N - NB, &u_rest)) ||
      failed(fleet_matrix_view(a, 0, 0, N, NB, &a_next)) ||
      failed(fleet_matrix_view(a, 0, NB, N, N - NB, &a_rest)))
    return 1;

  /* Both updates need the panel. The second one to be queued is the first one to be computed. */
  fleet_event *arrived, *updated, *next;
  if (failed(fleet_event_create(&arrived)) || failed(fleet_matrix_after(l, arrived)) ||
      failed(fleet_dgemm_async(NULL, FLEET_NO_TRANS, FLEET_NO_TRANS, -1.0, l, u_rest, 1.0, a_rest,
                               &updated)) ||
      failed(fleet_set_priority(NULL, 1)) ||
      failed(fleet_dgemm_async(NULL, FLEET_NO_TRANS, FLEET_NO_TRANS, -1.0, l, u_next, 1.0, a_next,
                               &next)) ||
      failed(fleet_set_priority(NULL, 0)) || failed(receive(panel, arrived)))
    return 1;
  if (failed(fleet_event_wait(next))) return 1;
  /* The next panel may be factored and sent here, while the rest is updated. */
  if (failed(fleet_event_wait(updated)) || failed(fleet_matrix_read(a, 0, 0, N, N))) return 1;

  for (int i = 0; i < N * N; i++)
    if (rest[i] != 0.0) return 1;
  printf("the panel arrived, and the rest of A is %g\n", rest[0]);
  fleet_event* events[] = {arrived, updated, next};
  for (int e = 0; e < 3; e++) fleet_event_destroy(events[e]);
  fleet_matrix* matrices[] = {l, u, a, u_next, u_rest, a_next, a_rest};
  for (int m = 0; m < 7; m++) fleet_matrix_destroy(matrices[m]);
  free(panel);
  free(row);
  free(rest);
  return 0;
}
