// SPDX-License-Identifier: BSD-3-Clause
// pacing.hpp: how far ahead of their kernels targets are sent to workers. It knows no queues.
#pragma once
#include <cstddef>
#include <vector>

#include "plan/plan.hpp"

namespace fleet {

/// A GPU that always has something to send gets nothing that others send, or that it fetches, until
/// it is done (docs/performance/lessons.md, bench/results/sent-h200x4.txt). So a target is sent to
/// a worker when the kernels planned so far for the fourth target before have run: where there are
/// several steps of k its first product, or the last one if targets come late, to be added.
class Pacing {
 public:
  /// From now on targets are those of one call.
  void enter(std::size_t workers) { sent_.assign(workers, {}); }
  /// A target is sent to the worker now. `last_kernel`, the last kernel on it so far, is read again
  /// for later targets, until enter(). Returns what this copy is to come after: a kernel, or
  /// kNoTask.
  TaskId send(int worker, const TaskId& last_kernel) {
    constexpr std::size_t kAhead = 4;  // the only number of which runs are known
    std::vector<const TaskId*>& sent = sent_[static_cast<std::size_t>(worker)];
    sent.push_back(&last_kernel);
    return sent.size() > kAhead ? *sent[sent.size() - 1 - kAhead] : kNoTask;
  }

 private:
  std::vector<std::vector<const TaskId*>> sent_;  ///< per worker
};

}  // namespace fleet
