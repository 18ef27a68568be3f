// SPDX-License-Identifier: BSD-3-Clause
// over.hpp: the ranks of a communicator that the program has. For those who see MPI themselves.
#pragma once
#include <mpi.h>

#include <memory>

#include "comm_mpi/mpi.hpp"

namespace fleet::lu {

/// A duplicate of it: messages of the program's own never meet these. All its ranks call this
/// together. Throws Failure, also where the library is not the one whose header this was compiled
/// with.
std::unique_ptr<Comm> over(MPI_Comm ranks);

/// As Mpi::on_node(), of these ranks.
Mpi::OnNode on_node(MPI_Comm ranks);

}  // namespace fleet::lu
