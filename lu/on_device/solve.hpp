// SPDX-License-Identifier: BSD-3-Clause
// solve.hpp: back substitution in the memory of devices, by all ranks of any grid.
#pragma once
#include "on_device/system.hpp"

namespace fleet::lu {

/// Memory of a solution.
struct SolutionPlace {
  Device::Memory left;    ///< for a number of each row
  Device::Memory solved;  ///< nb numbers
  /// Nothing where the device has no room.
  static std::optional<SolutionPlace> make(const DeviceSystem& system, const Device& device);
};
/// As solve() of a System.
std::vector<double> solve(const Grid& grid, const DeviceSystem& system, const Device& device,
                          const SolutionPlace& place);

}  // namespace fleet::lu
