// SPDX-License-Identifier: BSD-3-Clause
// skeleton.cpp: Table 3 where nothing is hidden; else Table 4, in the order in which 5 and 6 of a
// step are beside 7_7 of the step before (paper 3, 4.5).
#include "schedule/skeleton.hpp"

namespace fleet::lu {

std::vector<SkeletonTask> first_skeleton_tasks(Overlap overlap) {
  if (overlap == Overlap::none) return {};
  return {{Duty::send_square, 0}, {Duty::factor_square, 0}, {Duty::solve_left, 0},
          {Duty::solve_upper, 0}, {Duty::send_left, 0},     {Duty::send_upper, 0},
          {Duty::arrive, 0}};
}

std::vector<SkeletonTask> skeleton_tasks(const Shape& shape, Overlap overlap, std::int64_t step) {
  if (overlap == Overlap::none)
    return {{Duty::send_square, step}, {Duty::factor_square, step}, {Duty::solve_left, step},
            {Duty::solve_upper, step}, {Duty::send_left, step},     {Duty::send_upper, step},
            {Duty::arrive, step},      {Duty::product, step}};
  const std::int64_t next = step + 1;
  if (next == shape.steps()) return {};
  return {{Duty::product_square, step}, {Duty::send_square, next}, {Duty::factor_square, next},
          {Duty::product_left, step},   {Duty::solve_left, next},  {Duty::product_upper, step},
          {Duty::solve_upper, next},    {Duty::send_left, next},   {Duty::send_upper, next},
          {Duty::product_rest, step},   {Duty::arrive, next}};
}

}  // namespace fleet::lu
