// SPDX-License-Identifier: BSD-3-Clause
// solve_tasks.cpp: strips of the triangle depend on nothing, and go one step further ahead.
#include "schedule/solve_tasks.hpp"

namespace fleet::lu {

std::vector<SolveTask> solve_tasks(std::int64_t steps, Overlap overlap) {
  using enum SolveAct;
  std::vector<SolveTask> tasks;
  const auto add = [&](std::int64_t k, std::initializer_list<SolveAct> acts) {
    for (const SolveAct act : acts) tasks.push_back({act, k});
  };
  if (overlap == Overlap::none) {
    for (std::int64_t k = 0; k < steps; ++k) {
      add(k, {fetch, have, solve, send, arrive});
      if (k + 1 < steps) add(k, {ahead, rest});
    }
    return tasks;
  }
  if (steps > 0) add(0, {fetch, have, solve, send});
  if (steps > 1) add(1, {fetch});
  for (std::int64_t k = 0; k < steps; ++k) {
    add(k, {arrive});
    if (k + 1 == steps) break;
    add(k, {ahead});
    add(k + 1, {have, solve, send});
    if (k + 2 < steps) add(k + 2, {fetch});
    add(k, {rest});
  }
  return tasks;
}

}  // namespace fleet::lu
