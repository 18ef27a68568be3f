// SPDX-License-Identifier: BSD-3-Clause
// blacs.cpp: a grid hangs on the communicator of its context, which BLACS frees with the context:
// so a context that is made later and gets the same number has a grid of its own.
#include "scalapack/blacs.hpp"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace fleet::scalapack {
namespace {

/// Of Cblacs_get: the communicator of a context, whose ranks are numbered along its rows.
constexpr int kCommunicatorOf = 10;

struct Blacs {
  void (*get)(int, int, int*);
  void (*gridinfo)(int, int*, int*, int*, int*);
  MPI_Comm (*communicator)(int);

  bool is_there() const { return get && gridinfo && communicator; }
};

template <typename Function>
void find(Function*& function, const char* symbol) {
  function = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, symbol));
}

/// Once, as it is called for the first time: on one rank, which knows no grid.
void tell_no_blacs() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank != 0) return;
  std::fprintf(stderr,
               "libfleetblas_scalapack: the program's BLACS is not to be seen (it is of another "
               "kind, or loaded with RTLD_LOCAL); ScaLAPACK computes\n");
}

const Blacs& blacs() {
  static const Blacs found = [] {
    Blacs all{};
    find(all.get, "Cblacs_get");
    find(all.gridinfo, "Cblacs_gridinfo");
    find(all.communicator, "Cblacs2sys_handle");
    if (!all.is_there()) tell_no_blacs();
    return all;
  }();
  return found;
}

/// As ScaLAPACK, ranks wait for ever unless the environment says how long.
const char* options() {
  const char* const set = std::getenv("FLEETBLAS_MPI");
  return set != nullptr && std::strstr(set, "patience_s") != nullptr ? nullptr : "patience_s=0";
}

int remove(MPI_Comm, int, void* attached, void*) {
  fleet_mpi_grid_destroy(static_cast<fleet_mpi_grid*>(attached));
  return MPI_SUCCESS;
}

int key() {
  static const int made = [] {
    int value = MPI_KEYVAL_INVALID;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, remove, &value, nullptr);
    return value;
  }();
  return made;
}

}  // namespace

void* next(const char* symbol) { return dlsym(RTLD_NEXT, symbol); }

fleet_mpi_grid* grid_of(int context) {
  if (!blacs().is_there()) return nullptr;
  int p = -1, q = -1, row = -1, col = -1;
  blacs().gridinfo(context, &p, &q, &row, &col);
  if (row < 0 || col < 0 || p < 1 || q < 1) return nullptr;
  int handle = -1;
  // Whoever asks for the handle of a communicator gets the same one, the program too: it stays.
  blacs().get(context, kCommunicatorOf, &handle);
  MPI_Comm ranks = blacs().communicator(handle);
  void* attached = nullptr;
  int is_there = 0;
  MPI_Comm_get_attr(ranks, key(), &attached, &is_there);
  if (is_there != 0) return static_cast<fleet_mpi_grid*>(attached);
  fleet_mpi_grid* grid = nullptr;
  const fleet_status status = fleet_mpi_grid_create(ranks, 'r', p, q, options(), &grid);
  if (status != FLEET_OK && row == 0 && col == 0)
    std::fprintf(stderr, "libfleetblas_scalapack: %s; ScaLAPACK computes\n", fleet_mpi_message());
  // Null, too, where none could be made: it is not tried again.
  MPI_Comm_set_attr(ranks, key(), grid);
  return grid;
}

}  // namespace fleet::scalapack
