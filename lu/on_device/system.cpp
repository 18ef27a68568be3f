// SPDX-License-Identifier: BSD-3-Clause
// columns.cpp: numbers are made on the host, a few columns at a time.
#include "on_device/columns.hpp"

#include <algorithm>

#include "dist/fill.hpp"

namespace fleet::lu {
namespace {

/// Bytes of columns on their way.
constexpr std::int64_t kWayBytes = std::int64_t{256} << 20;

}  // namespace

std::optional<Columns> Columns::make(const Grid& grid, std::int64_t n, std::int64_t nb,
                                     const Device& device) {
  const Blocks cols{n + 1, nb, grid.cols};
  const std::int64_t local = cols.local_size(grid.col), ld = (n + 31) / 32 * 32;
  std::int64_t count = 0;
  if (__builtin_mul_overflow(ld, std::max<std::int64_t>(1, local), &count)) return {};
  auto elements = device.take(count);
  if (!elements) return {};
  return Columns(n, cols, local, ld, std::move(*elements));
}

void fill(const Grid& grid, const Columns& columns, const Device& device, const Rank& rank) {
  const std::int64_t ld = columns.ld;
  const std::int64_t most =
      std::clamp<std::int64_t>(kWayBytes / (ld * static_cast<std::int64_t>(sizeof(double))), 1,
                               std::max<std::int64_t>(1, columns.local_cols));
  const auto way = device.take_on_host(ld * most);
  if (!way) throw Failure("the host has no memory for columns on their way to a device");
  const Blocks rows{columns.n, columns.cols.nb, 1};
  for (std::int64_t first = 0; first < columns.local_cols; first += most) {
    const std::int64_t count = std::min(most, columns.local_cols - first);
    rank.crew.share(count, [&](std::int64_t begin, std::int64_t end) {
      fill({rows, 0, columns.cols, grid.col}, first + begin, first + end, way->data() + begin * ld,
           ld);
    });
    device.copy(columns.part(0, first, columns.n, count).data, way->data(), ld * count);
  }
}

}  // namespace fleet::lu
