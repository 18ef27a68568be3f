// SPDX-License-Identifier: BSD-3-Clause
// local_rank.hpp: which of the processes on this node this one is. It knows no devices.
#pragma once
#include <functional>
#include <string>

namespace fleet {

/// Which of the processes that a launcher (MPI, Slurm) started on this node this one is.
struct LocalRank {
  int rank = 0;
  int ranks = 1;
};

/// The value of a variable; empty for one that is not set.
using Environment = std::function<std::string(const std::string&)>;

/// As the launcher says; {0, 1} if it says nothing that makes sense.
LocalRank local_rank(const Environment& environment);

}  // namespace fleet
