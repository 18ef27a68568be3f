/* SPDX-License-Identifier: BSD-3-Clause
 *
 * header_is_c99.c: the public headers in a C99 program, with the calls that need no
 * device. It knows nothing but those headers.
 */
#include <fleetblas/fleetblas.h>
#include <fleetblas/lapack.h>
#include <fleetblas/linpack.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  char version[32];
  double one = 1.0, two = 2.0, c = 0.0;
  fleet_context* context = NULL;
  fleet_status status;
  int64_t info = -1;

  sprintf(version, "%d.%d.%d", FLEETBLAS_VERSION_MAJOR, FLEETBLAS_VERSION_MINOR,
          FLEETBLAS_VERSION_PATCH);
  if (strcmp(fleet_version(), version) != 0) return 1;
  if (strcmp(fleet_status_string(FLEET_NO_MEMORY), "no_memory") != 0) return 2;
  if (fleet_context_create("backend=nonsense", &context) != FLEET_BAD_OPTION) return 3;
  if (context != NULL || fleet_message()[0] == '\0') return 4;
  status =
      fleet_dgemm(NULL, FLEET_NO_TRANS, FLEET_TRANS, 1, 1, 1, 3.0, &one, 1, &two, 1, 0.0, &c, 1);
  if (status != FLEET_OK || c != 6.0) return 5;
  status =
      fleet_dgemm(NULL, FLEET_NO_TRANS, FLEET_TRANS, 1, 1, 1, 3.0, &one, 0, &two, 1, 0.0, &c, 1);
  if (status != FLEET_BAD_ARGUMENT || c != 6.0) return 6;
  if (fleet_dpotrf(NULL, FLEET_LOWER, 1, &c, 1, &info) != FLEET_OK || info != 0) return 7;
  if (fleet_dpotrf(NULL, FLEET_LOWER, 1, &c, 0, &info) != FLEET_BAD_ARGUMENT) return 8;
  return 0;
}
