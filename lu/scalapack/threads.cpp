// SPDX-License-Identifier: BSD-3-Clause
// threads.cpp: MPI_Init of a program that runs with this library lets threads call MPI in turn, so
// that one of them can drive messages.
#include <mpi.h>

#include "fleetblas/fleetblas.h"

namespace {

int init(int* argc, char*** argv) {
  int provided = MPI_THREAD_SINGLE;
  return PMPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &provided);
}

}  // namespace

extern "C" {

FLEET_API int MPI_Init(int* argc, char*** argv) { return init(argc, argv); }

/// Fortran's.
FLEET_API void mpi_init_(int* error) { *error = init(nullptr, nullptr); }

}  // extern "C"
