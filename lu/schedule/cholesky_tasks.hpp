// SPDX-License-Identifier: BSD-3-Clause
// cholesky_tasks.hpp: what a rank does in each step of a Cholesky factorization. It knows no data.
#pragma once
#include <vector>

#include "schedule/tasks.hpp"

namespace fleet::lu {

/// Panel k is block column k of the lower triangle, or block row k of the upper one.
enum class CholeskyAct {
  factor,  ///< a panel, by the ranks that have it
  send,    ///< to the ranks beside each of those
  spread,  ///< waits for it; what others need as the second factor of their products, across
  arrive,  ///< waits for that
  ahead,   ///< the panel after it loses the product
  rest     ///< all others lose it
};

struct CholeskyTask {
  CholeskyAct act;
  std::int64_t step;
};

/// Unless `overlap` is none, a panel travels while the one before is applied to the rest. Its
/// spread() may come as soon as it is there.
std::vector<CholeskyTask> cholesky_tasks(std::int64_t steps, Overlap overlap);

}  // namespace fleet::lu
