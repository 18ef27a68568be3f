// SPDX-License-Identifier: BSD-3-Clause
// solve_tasks.hpp: what a rank does in each step of a solution with a triangle. It knows no data.
#pragma once
#include <vector>

#include "schedule/tasks.hpp"

namespace fleet::lu {

/// Step k finds block k of the unknowns, in the order in which they become known.
enum class SolveAct {
  fetch,   ///< the triangle's strip of a step is sent to the ranks that need it
  have,    ///< waits for it
  solve,   ///< the block of unknowns, by the ranks that have it
  send,    ///< it, to the others
  arrive,  ///< waits for it
  ahead,   ///< the next block loses the product
  rest     ///< all blocks after that one lose it
};

struct SolveTask {
  SolveAct act;
  std::int64_t step;
};

/// Unless `overlap` is none, what the next step needs travels while this one's rest is updated.
std::vector<SolveTask> solve_tasks(std::int64_t steps, Overlap overlap);

}  // namespace fleet::lu
