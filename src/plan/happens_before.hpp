// SPDX-License-Identifier: BSD-3-Clause
// happens_before.hpp: which tasks of a plan are surely done when another starts. It knows queues,
// `after` and `upstream`, and no tile.
#pragma once
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace fleet {

/// Tasks are entered in the order of the plan; then it answers for any pair of them. A task starts
/// when the one before it in its queue is done, and all in `after` are; a chunked one behind
/// another starts when its upstream has, so whatever that waited for is done, too.
///
/// Nearly all questions are about tasks that a queue waited for by name, and answered from what
/// each queue knows of the others by then. The others are searched for backwards, through tasks
/// that come after the earlier of the two: time and memory are near linear in the tasks.
class HappensBefore {
 public:
  explicit HappensBefore(const Plan& plan);

  /// Takes up the next task. Returns what is wrong with its order, or nothing.
  std::string enter(TaskId t);
  /// Is `earlier` done before `later` starts? Both are entered.
  bool before(TaskId earlier, TaskId later);

 private:
  struct Known {
    QueueId queue;
    TaskId upto;  ///< this task of the queue is done, and so are all before it
  };
  const Task& task(TaskId t) const { return plan_.tasks[static_cast<std::size_t>(t)]; }
  void learn(QueueId queue, TaskId earlier);
  TaskId known(QueueId queue, QueueId other) const;
  bool search(TaskId earlier, TaskId later);
  template <typename Act>
  void for_each_awaited(TaskId t, Act act) const;

  const Plan& plan_;
  std::vector<TaskId> previous_;           ///< per task: in its queue
  std::vector<TaskId> last_;               ///< per queue
  std::vector<std::vector<Known>> known_;  ///< per queue, sorted by queue: at its last task
  std::vector<TaskId> stack_;
  std::vector<TaskId> seen_;  ///< per task: the search that came by last
  TaskId searches_ = 0;
};

}  // namespace fleet
