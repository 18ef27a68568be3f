// SPDX-License-Identifier: BSD-3-Clause
// pacing.hpp: how far ahead of their kernels targets are sent to workers. It knows no queues.
#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

#include "plan/plan.hpp"

namespace fleet {

/// A GPU that always has something to send gets nothing that others send, or that it fetches, until
/// it is done (docs/performance/lessons.md, bench/results/sent-h200x4.txt). So a target is sent to
/// a worker when the last kernel has run on the fourth target before, or on as many before as the
/// worker computes at once.
class Pacing {
 public:
  /// From now on targets are those of one call, of which each of the workers computes `at_once`.
  void enter(std::size_t workers, int at_once) {
    constexpr int kLeastAhead = 4;  // the only number of which runs are known
    ahead_ = static_cast<std::size_t>(std::max(kLeastAhead, at_once));
    sent_.assign(workers, {});
  }
  /// A target is sent to the worker now; `last_kernel` says which kernel was the last on it so far,
  /// also later on. Returns what its copy is to come after: a kernel, or kNoTask.
  TaskId send(int worker, const TaskId& last_kernel) {
    std::vector<const TaskId*>& sent = sent_[static_cast<std::size_t>(worker)];
    sent.push_back(&last_kernel);
    return sent.size() > ahead_ ? *sent[sent.size() - 1 - ahead_] : kNoTask;
  }

 private:
  std::size_t ahead_ = 0;
  std::vector<std::vector<const TaskId*>> sent_;  ///< per worker
};

}  // namespace fleet
