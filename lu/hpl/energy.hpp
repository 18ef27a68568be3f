// SPDX-License-Identifier: BSD-3-Clause
// energy.hpp: the energy counters of a node's processors (RAPL), as far as this process may read
// them. It knows no trials.
#pragma once
#include <string>
#include <vector>

namespace fleet::lu {

class NodeEnergy {
 public:
  /// On most systems only root may read what is below `folder`.
  explicit NodeEnergy(const std::string& folder = "/sys/class/powercap");
  bool is_readable() const { return !packages_.empty(); }
  /// Joules of all processors since construction. Counters wrap around: to be called at least once
  /// a minute.
  double joules();

 private:
  struct Package {
    std::string file;
    double wraps_at_uj = 0, last_uj = 0, total_uj = 0;
  };
  std::vector<Package> packages_;
};

}  // namespace fleet::lu
