// SPDX-License-Identifier: BSD-3-Clause
// cholesky_tasks.cpp: a look-ahead of one panel.
#include "schedule/cholesky_tasks.hpp"

namespace fleet::lu {

std::vector<CholeskyTask> cholesky_tasks(std::int64_t steps, Overlap overlap) {
  using enum CholeskyAct;
  std::vector<CholeskyTask> tasks;
  for (std::int64_t k = 0; k < steps; ++k) {
    const bool is_last = k + 1 == steps;
    if (overlap == Overlap::none || k == 0) {
      tasks.push_back({factor, k});
      tasks.push_back({send, k});
    }
    tasks.push_back({spread, k});
    if (is_last) break;
    if (overlap == Overlap::none) tasks.push_back({arrive, k});
    tasks.push_back({ahead, k});
    if (overlap != Overlap::none) {
      tasks.push_back({factor, k + 1});
      tasks.push_back({send, k + 1});
      tasks.push_back({arrive, k});
    }
    tasks.push_back({rest, k});
  }
  return tasks;
}

}  // namespace fleet::lu
