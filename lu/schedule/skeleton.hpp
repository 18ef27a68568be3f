// SPDX-License-Identifier: BSD-3-Clause
// skeleton.hpp: the tasks of paper 3 (Tables 3 and 4), which has no pivots: blocks of L and of U
// travel, and every product waits for both. It knows no data, and is for the simulator only.
#pragma once
#include <vector>

#include "schedule/tasks.hpp"

namespace fleet::lu {

/// Block k of the diagonal is the square of step k; L is below it, U to its right.
enum class Duty {
  send_square,     ///< 1: to the row and the column of the grid that have it
  factor_square,   ///< 2: by all of them
  solve_left,      ///< 3: dtrsm, by the ranks that have L
  solve_upper,     ///< 4: dtrsm, by the ranks that have U
  send_left,       ///< 5: along the rows of the grid
  send_upper,      ///< 6: along the columns of the grid
  arrive,          ///< waits for 5 and 6
  product,         ///< 7: of all that is left
  product_square,  ///< 7_1: of the next square
  product_left,    ///< 7_3: of the next L
  product_upper,   ///< 7_4: of the next U
  product_rest     ///< 7_7: of what is left beside those
};

struct SkeletonTask {
  Duty duty;
  std::int64_t step;
};

/// What comes before the first step, where messages are hidden.
std::vector<SkeletonTask> first_skeleton_tasks(Overlap overlap);
/// What all ranks do in `step`, those that have no part in a task excepted. Where messages are
/// hidden, those of the next step travel during the last product.
std::vector<SkeletonTask> skeleton_tasks(const Shape& shape, Overlap overlap, std::int64_t step);

}  // namespace fleet::lu
