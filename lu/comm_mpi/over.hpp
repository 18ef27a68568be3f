// SPDX-License-Identifier: BSD-3-Clause
// over.hpp: the ranks of a communicator that the program has. For those who see MPI themselves.
#pragma once
#include <mpi.h>

#include <memory>

#include "comm/comm.hpp"

namespace fleet::lu {

/// A duplicate of it: messages of the program's own never meet these. All its ranks call this
/// together. Throws Failure.
std::unique_ptr<Comm> over(MPI_Comm ranks);

}  // namespace fleet::lu
