// SPDX-License-Identifier: BSD-3-Clause
// inproc.hpp: ranks that are threads of one process, over links that may be as slow as real ones.
// It knows no MPI.
#pragma once
#include <functional>

#include "comm/comm.hpp"

namespace fleet::lu {

/// Of every message between two ranks: alpha + bytes / beta. Zeros: as fast as memory.
struct Pace {
  double latency_s = 0;
  double bytes_per_s = 0;
  /// The longest that a rank waits for another one.
  double patience_s = 60;
};

/// Runs `rank_main` once for each of `ranks` ranks, in a thread each, and waits for all. The first
/// failure of a rank ends the waiting of all others, and is thrown.
void run_ranks(int ranks, const Pace& pace, const std::function<void(Comm&)>& rank_main);

}  // namespace fleet::lu
