// SPDX-License-Identifier: BSD-3-Clause
// system.hpp: a rank's part of a system of equations in the memory of its device. It knows no
// algorithm.
#pragma once
#include <optional>

#include "dist/grid.hpp"
#include "dist/matrix.hpp"
#include "on_device/device.hpp"
#include "work/rank.hpp"

namespace fleet::lu {

/// [A b], n x (n+1), in blocks of nb x nb. In a grid of one row a rank has whole columns. In others
/// there are nb rows more below its own, for those of U that it needs and another rank has.
class DeviceSystem {
 public:
  /// Nothing where the device has no room.
  static std::optional<DeviceSystem> make(const Grid& grid, std::int64_t n, std::int64_t nb,
                                          const Device& device);

  /// From a local row and a local column on.
  Device::Part part(std::int64_t row, std::int64_t col, std::int64_t row_count,
                    std::int64_t col_count) const {
    return {elements_.data() + row + col * ld, row_count, col_count, ld};
  }

  const Blocks rows, cols;
  const std::int64_t local_rows, local_cols;
  const std::int64_t spare_row;  ///< the first below this rank's own
  const std::int64_t ld;

 private:
  DeviceSystem(const Grid& grid, const Blocks& row_blocks, const Blocks& col_blocks);

  Device::Memory elements_;
};

/// Linpack's system, made by all cores of the rank. Throws Failure.
void fill(const Grid& grid, const DeviceSystem& system, const Device& device, const Rank& rank);

}  // namespace fleet::lu
