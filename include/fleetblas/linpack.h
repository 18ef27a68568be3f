/* SPDX-License-Identifier: BSD-3-Clause
 *
 * linpack.h: Linpack on clusters that are not there. C99. A library of its own,
 * libfleetblas_linpack.so, which needs no other: nothing is computed or measured.
 */
#ifndef FLEETBLAS_LINPACK_H
#define FLEETBLAS_LINPACK_H
#include <fleetblas/fleetblas.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * How long a factorization takes on a cluster, by the tasks that fleetblas-linpack runs.
 *
 * cluster: a JSON object as in machines/clusters/, where each constant has a value and a source.
 * run: a JSON object; what it leaves out is taken from "run" of the cluster.
 *   "n", "nb"      order of the system, width of a panel
 *   "rows", "cols" of the grid of ranks
 *   "overlap"      "none", "lookahead", "dedicated" or "full"
 *   "tasks"        "pivoted", "unpivoted", "skeleton" (paper 3's, which solves nothing), or "hpl"
 *                  (in HPL's order, with a look-ahead of one panel)
 *   "transfers"    "first" or "overlap": whether the CPU computes while GPUs get their part
 *   "solve_share", "ahead_share", "product_share"
 *                  the CPU's part of solutions, of products that the next panel waits for, and of
 *                  the others; null: by the rates of CPU and GPU
 *   "shares"       "given" (those above) or "measured": by what the work before took, as
 *                  fleetblas-linpack finds them
 *   "product"      [m, n, k]: one product on one rank instead, with "product_share" of its rows on
 *                  the CPU, or with the share that is found by repeating it
 *
 * *text: a JSON object with "seconds", "flops_per_s", "share_of_peak", "substitution_s",
 * "message_s" and "transfer_s" (means over ranks), and "rank_s": what the seconds of a rank go to
 * (means); with shares that are measured "cpu_shares", the CPU's part of each kind of work; of a
 * product "cpu_share". On failure it is the reason, one line. The caller gives it to
 * fleet_linpack_free_text.
 *
 * May be called from any thread. Returns FLEET_OK, or
 *   FLEET_BAD_ARGUMENT  a pointer is null (*text is then null or untouched), a size or a rate is
 *                       not positive, a share not in [0, 1], or there are over 1,000,000 ranks or
 *                       steps
 *   FLEET_BAD_OPTION    a word of `run` means nothing
 *   FLEET_BAD_FILE      `cluster` or `run` is no JSON, or lacks a constant
 *   FLEET_NO_MEMORY     *text is null
 */
FLEET_API fleet_status fleet_linpack_simulate_json(const char* cluster, const char* run,
                                                   char** text);

/** Frees what fleet_linpack_simulate_json gave; null is fine. */
FLEET_API void fleet_linpack_free_text(char* text);

#ifdef __cplusplus
}
#endif
#endif
