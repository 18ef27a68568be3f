// SPDX-License-Identifier: BSD-3-Clause
// product.cpp: C stays where it is; strips of A and B come to it.
#include "routines/product.hpp"

#include <array>

#include "routines/device_product.hpp"
#include "routines/strip.hpp"
#include "schedule/product_tasks.hpp"

namespace fleet::lu {

bool multiply(const Grid& grid, const Product& product, const Rank& rank, Overlap overlap,
              OwnDevice* own) {
  const Dealt& c = product.c;
  const std::int64_t m = c.rows.size(), n = c.cols.size();
  const Range rows{0, c.rows.local_size(grid.row)}, cols{0, c.cols.local_size(grid.col)};
  // As BLAS: with alpha 0, A and B are not read.
  const std::int64_t depth = product.alpha == 0 ? 0 : product.depth;
  Update with{.c = c,
              .row = grid.row,
              .col = grid.col,
              .which = product.which,
              .alpha = product.alpha,
              .left = {},
              .right = {},
              .depth = 0,
              .beta = product.beta};
  if (m == 0 || n == 0) return false;
  if (depth == 0) {
    if (product.beta != 1) update(rank, with, rows, cols);
    return false;
  }
  const StripSource of_a{Role::left, product.a, product.op_a, c.rows};
  const StripSource of_b{Role::right, product.b, product.op_b, c.cols};
  std::array<Strip, 2> lefts{Strip(grid, of_a), Strip(grid, of_a)};
  std::array<Strip, 2> rights{Strip(grid, of_b), Strip(grid, of_b)};
  const std::int64_t width = strip_width(c.rows.blocks.nb, grid.rows, grid.cols);
  const std::int64_t steps = (depth + width - 1) / width;
  std::unique_ptr<DeviceProduct> there;
  if (own != nullptr) there = DeviceProduct::make(*own, with, {depth, std::min(width, depth)});
  for (const auto& [act, step] : product_tasks(steps, overlap)) {
    const Range sum{step * width, std::min(depth, (step + 1) * width)};
    Strip& left = lefts[static_cast<std::size_t>(step % 2)];
    Strip& right = rights[static_cast<std::size_t>(step % 2)];
    switch (act) {
      case ProductAct::send:
        left.send(sum, {0, m}, rank, step);
        right.send(sum, {0, n}, rank, step);
        break;
      case ProductAct::arrive:
        left.arrive(rank);
        right.arrive(rank);
        break;
      case ProductAct::multiply:
        with.left = left.view();
        with.right = right.view();
        with.depth = sum.size();
        if (there != nullptr)
          there->update(with, rank, step);
        else
          rank.recorder.time(What::product, step, [&] { update(rank, with, rows, cols); });
        with.beta = 1;
        break;
    }
  }
  if (there != nullptr) there->finish(rank);
  return there != nullptr;
}

std::int64_t most_numbers(const Grid& grid, const Product& p) {
  const std::int64_t width =
      std::min(p.depth, strip_width(p.c.rows.blocks.nb, grid.rows, grid.cols));
  return std::max(Strip(grid, {Role::left, p.a, p.op_a, p.c.rows}).most_numbers(width),
                  Strip(grid, {Role::right, p.b, p.op_b, p.c.cols}).most_numbers(width));
}

}  // namespace fleet::lu
