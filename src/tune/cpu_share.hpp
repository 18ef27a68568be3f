// SPDX-License-Identifier: BSD-3-Clause
// cpu_share.hpp: the part of a product that the CPU computes beside the devices (paper 3, section
// III). It makes no plan.
#pragma once
#include <string>

#include "tune/tune.hpp"

namespace fleet {

/// Why the CPU takes no part in this problem, as a clause; empty: it may.
std::string why_no_cpu(const Problem& problem, const Machine& machine, const TuneRequest& request);

/// R = P_cpu / (P_cpu + P_devices), from the times in which each would compute everything alone:
/// both end together (paper 3, section III).
inline double balanced_share(double cpu_s, double devices_s) {
  return devices_s / (devices_s + cpu_s);
}

/// The tuning of devices with the CPU beside them, whose strip of C has nearest to `share` of the
/// work. The strip must not be empty.
Tuning with_cpu(Tuning tuning, const Problem& problem, double share, double cpu_part);

}  // namespace fleet
