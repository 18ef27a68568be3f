// SPDX-License-Identifier: BSD-3-Clause
// solve.cpp: block by block, as on the host.
#include "on_device/solve.hpp"

#include <algorithm>

namespace fleet::lu {
namespace {

/// The device plans a product of vectors anew for each number of rows: of a matrix of 128 blocks
/// that took 0.05 s, 2 % of a run on two GPUs. So there are few such numbers: rows below
/// those that matter are solved for already, and what is subtracted from them is never read.
std::int64_t few_heights(std::int64_t rows, std::int64_t all) {
  constexpr std::int64_t kHeights = 16;
  const std::int64_t step = std::max<std::int64_t>(1, (all + kHeights - 1) / kHeights);
  return std::min(all, (rows + step - 1) / step * step);
}

}  // namespace

std::optional<SolutionPlace> SolutionPlace::make(const DeviceSystem& system, const Device& device) {
  auto left = device.take(std::max<std::int64_t>(1, system.local_rows)),
       solved = device.take(system.rows.nb);
  if (!left || !solved) return {};
  return SolutionPlace{std::move(*left), std::move(*solved)};
}

std::vector<double> solve(const Grid& grid, const DeviceSystem& system, const Device& device,
                          const SolutionPlace& place) {
  const std::int64_t n = system.rows.n, nb = system.rows.nb, height = system.local_rows;
  const auto& [left, solved] = place;
  // What this rank's columns leave of its rows' right sides is in `left`; summed over the row of
  // the grid it is what the next unknowns are solved for.
  std::vector<double> x(static_cast<std::size_t>(std::max<std::int64_t>(1, system.local_cols)));
  if (grid.col == system.cols.owner(n)) {
    device.copy(left.data(), system.part(0, system.cols.local(n), height, 1).data, height);
  } else {
    const std::vector<double> zeros(static_cast<std::size_t>(height));
    device.copy(left.data(), zeros.data(), height);
  }
  for (std::int64_t block = system.rows.count() - 1; block >= 0; --block) {
    const std::int64_t begin = block * nb, width = std::min(nb, n - begin);
    const int row = system.rows.owner(begin), col = system.cols.owner(begin);
    const std::int64_t above = system.rows.local_begin(begin, grid.row);
    std::vector<double> part(static_cast<std::size_t>(width));
    if (grid.row == row) {
      device.copy(part.data(), left.data() + above, width);
      grid.row_ranks->reduce(part, Reduction::sum);
    }
    if (grid.col != col) continue;
    const std::int64_t local = system.cols.local(begin);
    if (grid.row == row) {
      device.copy(solved.data(), part.data(), width);
      device.solve_upper(system.part(above, local, width, width), solved.data());
      device.copy(part.data(), solved.data(), width);
    }
    if (grid.rows > 1) grid.col_ranks->broadcast(part, row)->wait();
    if (grid.row != row) device.copy(solved.data(), part.data(), width);
    device.subtract_product(system.part(0, local, few_heights(above, height), width), solved.data(),
                            left.data());
    std::ranges::copy(part, x.begin() + local);
  }
  return x;
}

}  // namespace fleet::lu
