// SPDX-License-Identifier: BSD-3-Clause
// columns.hpp: whole columns of a system of equations in the memory of a rank's device. It knows no
// algorithm.
#pragma once
#include <optional>

#include "dist/grid.hpp"
#include "dist/matrix.hpp"
#include "on_device/device.hpp"
#include "work/rank.hpp"

namespace fleet::lu {

/// [A b], n x (n+1), in blocks of nb columns over a grid of one row.
class Columns {
 public:
  /// Nothing where the device has no room.
  static std::optional<Columns> make(const Grid& grid, std::int64_t n, std::int64_t nb,
                                     const Device& device);

  /// From row `row` and local column `col` on.
  Device::Part part(std::int64_t row, std::int64_t col, std::int64_t rows,
                    std::int64_t count) const {
    return {elements_.data() + row + col * ld, rows, count, ld};
  }

  const std::int64_t n;
  const Blocks cols;
  const std::int64_t local_cols, ld;

 private:
  Columns(std::int64_t order, const Blocks& blocks, std::int64_t local, std::int64_t leading,
          Device::Memory elements)
      : n(order), cols(blocks), local_cols(local), ld(leading), elements_(std::move(elements)) {}

  Device::Memory elements_;
};

/// Linpack's system, made by all cores of the rank. Throws Failure.
void fill(const Grid& grid, const Columns& columns, const Device& device, const Rank& rank);

}  // namespace fleet::lu
