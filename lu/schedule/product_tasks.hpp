// SPDX-License-Identifier: BSD-3-Clause
// product_tasks.hpp: what a rank does for a product of matrices that are dealt over a grid, strip
// by strip of what is summed over. It knows no data.
#pragma once
#include <vector>

#include "schedule/tasks.hpp"

namespace fleet::lu {

enum class ProductAct {
  send,     ///< a strip of either factor, to the ranks that need it
  arrive,   ///< waits for it
  multiply  ///< with it
};

struct ProductTask {
  ProductAct act;
  std::int64_t step;
};

/// All of them. Unless `overlap` is none, the strips of a step travel during the product before.
std::vector<ProductTask> product_tasks(std::int64_t steps, Overlap overlap);

/// What is summed over in one step: whole blocks of nb, as many for each rank of a row and of a
/// column of the grid where that is not too wide. Of a block that is too wide itself, a part.
std::int64_t strip_width(std::int64_t nb, int rows, int cols);

}  // namespace fleet::lu
