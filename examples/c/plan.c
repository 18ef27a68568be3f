/* SPDX-License-Identifier: BSD-3-Clause
 *
 * plan.c: the plan of a product for a machine with eight GPUs, which need not be this one: its
 * predicted time, and the least time that any plan could take.
 */
#include <fleetblas/fleetblas.h>
#include <stdio.h>

int main(int argc, char** argv) {
  const char* problem = argc > 1 ? argv[1] : "dgemm m=16384 n=16384 k=16384 a@h b@h c@h";
  fleet_context* context;
  if (fleet_context_create("backend=sim; machine=h200x8", &context) != FLEET_OK) {
    fprintf(stderr, "%s\n", fleet_message());
    return 1;
  }
  char *plan, *bound;
  if (fleet_plan_json(context, problem, &plan) != FLEET_OK ||
      fleet_bound_json(context, problem, &bound) != FLEET_OK) {
    fprintf(stderr, "%s\n", fleet_message());
    return 1;
  }
  printf("plan:  %s\nbound: %s\n", plan, bound);
  fleet_free_text(plan);
  fleet_free_text(bound);
  fleet_context_destroy(context);
  return 0;
}
