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
  spread,  ///< waits for it; then what others need as the second factor of their products
  ahead,   ///< the panel after it loses the product: for that, its own block of the second factor
           ///< is enough
  arrive,  ///< waits for what was spread
  rest     ///< all others lose the product
};

struct CholeskyTask {
  CholeskyAct act;
  std::int64_t step;
};

/// Unless `overlap` is none, a panel travels while the one before is applied to the rest, and is
/// spread as soon as it is there; the next one is factored and sent meanwhile.
std::vector<CholeskyTask> cholesky_tasks(std::int64_t steps, Overlap overlap);

}  // namespace fleet::lu
