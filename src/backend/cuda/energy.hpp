// SPDX-License-Identifier: BSD-3-Clause
// energy.hpp: the total-energy counters of GPUs, by NVML. It knows no runs.
#pragma once
#include <optional>
#include <vector>

namespace fleet::cuda {

/// Empty counters where there is no NVML, or a GPU is too old to have one (before Volta).
class EnergyCounters {
 public:
  explicit EnergyCounters(const std::vector<int>& ordinals);
  /// Joules since the driver was loaded, of the GPU at this place in the list.
  std::optional<double> joules(std::size_t place) const;

 private:
  using Read = int (*)(void* device, unsigned long long* millijoules);
  Read read_ = nullptr;
  std::vector<void*> handles_;
};

}  // namespace fleet::cuda
