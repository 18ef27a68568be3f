// SPDX-License-Identifier: BSD-3-Clause
// hpl_tasks.cpp: the next panel's columns first, by the ranks that have them; then all others.
#include "schedule/hpl_tasks.hpp"

namespace fleet::lu {

std::vector<Task> first_hpl_tasks(const Shape&, int, Overlap overlap) {
  if (overlap == Overlap::none) return {};
  return {{Act::factor, 0}, {Act::send, 0}, {Act::arrive, 0}};
}

std::vector<Task> hpl_tasks(const Shape& shape, int col, Overlap overlap, std::int64_t step) {
  if (overlap == Overlap::none) return step_tasks(shape, col, overlap, step);
  const Blocks cols = shape.col_blocks();
  const auto local = [&](std::int64_t block) {
    return cols.local_begin(std::min(block * shape.nb, shape.n), col);
  };
  const std::int64_t next = step + 1, begin = local(next), end = cols.local_size(col);
  if (next == shape.steps())
    return {{Act::exchange, step, Part::right, begin, end},
            {Act::update, step, Part::right, begin, end}};
  const std::int64_t rest = local(next + 1);
  return {{Act::exchange, step, Part::ahead, begin, rest},
          {Act::update, step, Part::ahead, begin, rest},
          {Act::factor, next},
          {Act::send, next},
          {Act::exchange, step, Part::right, rest, end},
          {Act::update, step, Part::right, rest, end},
          {Act::arrive, next}};
}

}  // namespace fleet::lu
