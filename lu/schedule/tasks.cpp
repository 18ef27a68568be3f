// SPDX-License-Identifier: BSD-3-Clause
// tasks.cpp: the order that hides most. Three sections of columns: rows of the right one are
// exchanged while the left one is updated, and those of the left one while the next panel is
// factored; that panel travels while the right one is updated (the "split update" of HPL's
// successors; paper 3, 4.5 without pivots).
#include "schedule/tasks.hpp"

#include <algorithm>

namespace fleet::lu {
namespace {

/// Of the columns that a rank still updates, those that are updated while the next panel travels:
/// half. The border moves to the right only, so no column's rows are exchanged before the step
/// before has updated it.
constexpr double kRightShare = 0.5;

/// The local columns of a step, by part.
struct Cuts {
  std::int64_t ahead, left, right, end;
};

Cuts cuts_of(const Shape& shape, int col, std::int64_t step) {
  const Blocks cols = shape.col_blocks();
  const auto local = [&](std::int64_t global) {
    return cols.local_begin(std::min(global, shape.n), col);
  };
  const std::int64_t done = local((step + 1) * shape.nb);
  const std::int64_t next = step + 1 < shape.steps() ? local((step + 2) * shape.nb) : done;
  const std::int64_t end = cols.local_size(col);
  const auto right = static_cast<std::int64_t>(kRightShare * static_cast<double>(end - next));
  return {done, next, end - right, end};
}

}  // namespace

std::vector<Task> first_tasks(const Shape& shape, int col, Overlap overlap) {
  if (overlap == Overlap::none) return {};
  const Cuts at = cuts_of(shape, col, 0);
  return {{Act::factor, 0},
          {Act::send, 0},
          {Act::arrive, 0},
          {Act::exchange, 0, Part::right, at.right, at.end}};
}

std::vector<Task> step_tasks(const Shape& shape, int col, Overlap overlap, std::int64_t step) {
  const Cuts at = cuts_of(shape, col, step);
  if (overlap == Overlap::none)
    return {{Act::factor, step},
            {Act::send, step},
            {Act::arrive, step},
            {Act::exchange, step, Part::right, at.ahead, at.end},
            {Act::update, step, Part::right, at.ahead, at.end}};
  const bool is_last = step + 1 == shape.steps();
  std::vector<Task> tasks{{Act::exchange, step, Part::ahead, at.ahead, at.left},
                          {Act::exchange, step, Part::left, at.left, at.right}};
  if (!is_last) {
    tasks.push_back({Act::update, step, Part::ahead, at.ahead, at.left});
    tasks.push_back({Act::factor, step + 1});
    tasks.push_back({Act::send, step + 1});
  }
  tasks.push_back({Act::update, step, Part::right, at.right, at.end});
  if (!is_last) {
    const Cuts next = cuts_of(shape, col, step + 1);
    tasks.push_back({Act::arrive, step + 1});
    tasks.push_back({Act::exchange, step + 1, Part::right, next.right, next.end});
  }
  tasks.push_back({Act::update, step, Part::left, at.left, at.right});
  return tasks;
}

}  // namespace fleet::lu
