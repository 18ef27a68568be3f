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
  TaskList(Plan& plan, std::size_t queues)
      : plan_(plan), queues_(queues), waited_(queues * queues, kNoTask) {}

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
      TaskId& waited = waited_[own * queues_ + other];
      if (other == own || waited >= earlier) continue;
      waited = earlier;
      plan_.after_pool.push_back(earlier);
    }
    after.clear();
    task.after_count = static_cast<std::int32_t>(plan_.after_pool.size()) - task.after_begin;
    plan_.tasks.push_back(task);
    return static_cast<TaskId>(plan_.tasks.size()) - 1;
  }

 private:
  Plan& plan_;
  std::size_t queues_;
  std::vector<TaskId> waited_;  ///< [queue][other queue]: latest task of other that it waited for
};

}  // namespace fleet
