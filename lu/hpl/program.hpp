// SPDX-License-Identifier: BSD-3-Clause
// program.hpp: fleetblas-linpack on ranks of any kind. It knows no MPI.
#pragma once
#include "hpl/lines.hpp"

namespace fleet::lu {

/// Ends of the program, as it returns them to whoever started it.
enum Exit { kAllPassed = 0, kNotAllPassed = 1, kNothingRun = 2 };

/// What the program knows of where it runs.
struct Place {
  std::string ranks_are;       ///< "4 ranks of Open MPI v4.1.4"
  int ranks_on_its_cores = 1;  ///< that may use a core that this one may use
  int ranks_on_node = 1;       ///< that share its memory
  int rank_on_node = -1;       ///< negative: all ranks are on this node
  bool is_watched = false;     ///< a terminal shows what rank 0 writes to standard error
};

/// All trials that the input asks for, on all ranks; rank 0 reads the input and prints. Throws
/// Failure where this or another rank has failed, so that the run cannot go on.
Exit run_program(Comm& all, const Settings& settings, const Place& place);

/// Is a terminal behind this process's standard error, or behind that of the one that started it,
/// such as mpirun, which passes on what ranks write?
bool terminal_watches();

}  // namespace fleet::lu
