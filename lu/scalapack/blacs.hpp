// SPDX-License-Identifier: BSD-3-Clause
// blacs.hpp: grids of the program's BLACS contexts. It knows no routine.
#pragma once
#include "fleetblas/mpi.h"

namespace fleet::scalapack {

/// What the next library that has a symbol means by it, this one left out; null where none has it.
void* next(const char* symbol);

/// The grid of a context, made when it is first asked for and destroyed with the context. Null
/// where this rank is not in it, or none could be made. All ranks of the context call it together.
fleet_mpi_grid* grid_of(int context);

}  // namespace fleet::scalapack
