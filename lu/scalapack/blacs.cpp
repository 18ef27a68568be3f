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
  void (*free_handle)(int);

  bool is_there() const { return get && gridinfo && communicator && free_handle; }
};

template <typename Function>
void find(Function*& function, const char* symbol) {
  function = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, symbol));
}

const Blacs& blacs() {
  static const Blacs found = [] {
    Blacs all{};
    find(all.get, "Cblacs_get");
    find(all.gridinfo, "Cblacs_gridinfo");
    find(all.communicator, "Cblacs2sys_handle");
    find(all.free_handle, "Cfree_blacs_system_handle");
    return all;
  }();
  return found;
}

/// As ScaLAPACK, ranks wait for ever unless the environment says how long.
const char* options() {
  const char* const set = std::getenv("FLEETBLAS_MPI");
  return set != nullptr && std::strstr(set, "patience_s") != nullptr ? nullptr : "patience_s=0";
}

/// What hangs on a communicator; without a grid where none could be made.
struct Attached {
  fleet_mpi_grid* grid = nullptr;
};

int remove(MPI_Comm, int, void* attached, void*) {
  const auto gone = static_cast<Attached*>(attached);
  fleet_mpi_grid_destroy(gone->grid);
  delete gone;
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
  blacs().get(context, kCommunicatorOf, &handle);
  MPI_Comm ranks = blacs().communicator(handle);
  blacs().free_handle(handle);
  void* attached = nullptr;
  int is_there = 0;
  MPI_Comm_get_attr(ranks, key(), &attached, &is_there);
  if (is_there == 0) {
    const auto made = new Attached;
    const fleet_status status = fleet_mpi_grid_create(ranks, 'r', p, q, options(), &made->grid);
    if (status != FLEET_OK && row == 0 && col == 0)
      std::fprintf(stderr, "libfleetblas_scalapack: %s; ScaLAPACK computes\n", fleet_mpi_message());
    MPI_Comm_set_attr(ranks, key(), made);
    attached = made;
  }
  return static_cast<Attached*>(attached)->grid;
}

}  // namespace fleet::scalapack
