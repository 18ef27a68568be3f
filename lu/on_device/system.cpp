// SPDX-License-Identifier: BSD-3-Clause
// system.cpp: numbers are made on the host, a few columns at a time.
#include "on_device/system.hpp"

#include <algorithm>

#include "dist/fill.hpp"

namespace fleet::lu {
namespace {

/// Bytes of columns on their way.
constexpr std::int64_t kWayBytes = std::int64_t{256} << 20;

}  // namespace

DeviceSystem::DeviceSystem(const Grid& grid, const Blocks& row_blocks, const Blocks& col_blocks)
    : rows(row_blocks),
      cols(col_blocks),
      local_rows(rows.local_size(grid.row)),
      local_cols(cols.local_size(grid.col)),
      spare_row(Device::aligned(local_rows)),
      ld(std::max<std::int64_t>(
          1, spare_row + (grid.rows > 1 ? Device::aligned(std::min(rows.nb, rows.n)) : 0))) {}

std::optional<DeviceSystem> DeviceSystem::make(const Grid& grid, std::int64_t n, std::int64_t nb,
                                               const Device& device) {
  DeviceSystem system(grid, {n, nb, grid.rows}, {n + 1, nb, grid.cols});
  std::int64_t count = 0;
  if (__builtin_mul_overflow(system.ld, std::max<std::int64_t>(1, system.local_cols), &count))
    return {};
  auto elements = device.take(count);
  if (!elements) return {};
  system.elements_ = std::move(*elements);
  return system;
}

void fill(const Grid& grid, const DeviceSystem& system, const Device& device, const Rank& rank) {
  const std::int64_t ld = system.ld;
  const std::int64_t most =
      std::clamp<std::int64_t>(kWayBytes / (ld * static_cast<std::int64_t>(sizeof(double))), 1,
                               std::max<std::int64_t>(1, system.local_cols));
  const auto way = device.take_on_host(ld * most);
  if (!way) throw Failure("the host has no memory for columns on their way to a device");
  for (std::int64_t first = 0; first < system.local_cols; first += most) {
    const std::int64_t count = std::min(most, system.local_cols - first);
    rank.crew.share(count, [&](std::int64_t begin, std::int64_t end) {
      fill({system.rows, grid.row, system.cols, grid.col}, first + begin, first + end,
           way->data() + begin * ld, ld);
    });
    device.copy(system.part(0, first, ld, count).data, way->data(), ld * count);
  }
}

}  // namespace fleet::lu
