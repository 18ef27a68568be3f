// SPDX-License-Identifier: BSD-3-Clause
// task_list.hpp: appends tasks to a plan and keeps `after` as short as queues allow. It knows no
// tile and no time.
#pragma once
#include <algorithm>
#include <vector>

#include "plan/plan.hpp"

namespace fleet {

class TaskList {
 public:
  TaskList(Plan& plan, std::size_t queues) : plan_(plan), number_(queues, -1), waited_(queues) {}

  /// Appends `task`, ordered after every task in `after` (kNoTask is skipped; the list is used up).
  /// An entry of the task's own queue, or one that the queue has already waited for (or for a later
  /// task of the same other queue), is left out: queues are first in, first out.
  TaskId add(Task task, std::vector<TaskId>& after) {
    const std::size_t own = static_cast<std::size_t>(task.queue);
    std::sort(after.begin(), after.end(), std::greater<>());
    task.after_begin = static_cast<std::int32_t>(plan_.after_pool.size());
    for (const TaskId earlier : after) {
      if (earlier == kNoTask) continue;
      const std::size_t other =
          static_cast<std::size_t>(plan_.tasks[static_cast<std::size_t>(earlier)].queue);
      if (other == own) continue;
      TaskId& waited = last_waited(own, other);
      if (waited >= earlier) continue;
      waited = earlier;
      plan_.after_pool.push_back(earlier);
    }
    after.clear();
    task.after_count = static_cast<std::int32_t>(plan_.after_pool.size()) - task.after_begin;
    plan_.tasks.push_back(task);
    return static_cast<TaskId>(plan_.tasks.size()) - 1;
  }

 private:
  /// The latest task of queue `other` that queue `own` waited for.
  TaskId& last_waited(std::size_t own, std::size_t other) {
    int& number = number_[other];
    if (number < 0) number = numbers_++;
    std::vector<TaskId>& row = waited_[own];
    if (row.size() <= static_cast<std::size_t>(number))
      row.resize(static_cast<std::size_t>(number) + 1, kNoTask);
    return row[static_cast<std::size_t>(number)];
  }

  Plan& plan_;
  /// Queues that were waited for, numbered as they come: 72 devices have 5,700 queues, most idle.
  std::vector<int> number_;
  int numbers_ = 0;
  std::vector<std::vector<TaskId>> waited_;  ///< [queue][number of the other]
};

}  // namespace fleet
