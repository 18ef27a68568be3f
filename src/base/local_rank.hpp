// SPDX-License-Identifier: BSD-3-Clause
// local_rank.hpp: the index of this process among the processes on its node. It knows no devices.
#pragma once
#include <functional>
#include <string>

namespace fleet {

/// The index of this process among those that a launcher (MPI, Slurm) started on this node.
struct LocalRank {
  int rank = 0;
  int ranks = 1;
};

/// The value of an environment variable; empty if it is not set.
using Environment = std::function<std::string(const std::string&)>;

/// The rank according to the launcher; {0, 1} if its variables are missing or inconsistent.
LocalRank local_rank(const Environment& environment);

}  // namespace fleet
