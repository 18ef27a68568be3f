// SPDX-License-Identifier: BSD-3-Clause
// host_energy.hpp: the energy counters of the host's processors (RAPL, as the Linux kernel shows
// them). It knows no device.
#pragma once
#include <string>
#include <vector>

namespace fleet {

class HostEnergy {
 public:
  /// Looks for the packages below `folder`. On most systems only root may read them.
  explicit HostEnergy(const std::string& folder = "/sys/class/powercap");
  bool is_readable() const { return !packages_.empty(); }
  /// Joules of all packages since construction. To be called at least once a minute: the counters
  /// wrap around.
  double joules();

 private:
  struct Package {
    std::string file;
    double wraps_at_uj = 0, last_uj = 0, total_uj = 0;
  };
  std::vector<Package> packages_;
};

}  // namespace fleet
