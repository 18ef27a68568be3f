// SPDX-License-Identifier: BSD-3-Clause
// happens_before.cpp: what queues know of each other, and the search where that is not enough.
#include "plan/happens_before.hpp"

#include <algorithm>
#include <utility>

namespace fleet {

HappensBefore::HappensBefore(const Plan& plan)
    : plan_(plan),
      previous_(plan.tasks.size(), kNoTask),
      last_(plan.queues.size(), kNoTask),
      known_(plan.queues.size()),
      seen_(plan.tasks.size(), kNoTask) {}

std::string HappensBefore::enter(TaskId t) {
  const Task& now = task(t);
  if (now.queue < 0 || now.queue >= std::ssize(plan_.queues)) return "is in no queue";
  const auto queue = static_cast<std::size_t>(now.queue);
  for (const TaskId earlier : plan_.after(now)) {
    if (earlier < 0 || earlier >= t) return "waits for a later task";
    learn(now.queue, earlier);
  }
  if (const TaskId up = now.upstream; up != kNoTask) {
    if (up < 0 || up >= t) return "has a later task upstream";
    if (task(up).chunks != now.chunks) return "has other chunks than its upstream";
    // Its first chunk is behind the upstream's first, so behind all that the upstream waited for.
    for_each_awaited(up, [&](TaskId earlier) { learn(now.queue, earlier); });
  }
  previous_[static_cast<std::size_t>(t)] = last_[queue];
  last_[queue] = t;
  return {};
}

/// Tasks that t names as done before it starts.
template <typename Act>
void HappensBefore::for_each_awaited(TaskId t, Act act) const {
  if (const TaskId previous = previous_[static_cast<std::size_t>(t)]; previous != kNoTask)
    act(previous);
  for (const TaskId earlier : plan_.after(task(t))) act(earlier);
}

void HappensBefore::learn(QueueId queue, TaskId earlier) {
  auto& known = known_[static_cast<std::size_t>(queue)];
  const QueueId other = task(earlier).queue;
  const auto at = std::ranges::lower_bound(known, other, {}, &Known::queue);
  if (at == known.end() || at->queue != other)
    known.insert(at, {other, earlier});
  else
    at->upto = std::max(at->upto, earlier);
}

TaskId HappensBefore::known(QueueId queue, QueueId other) const {
  const auto& known = known_[static_cast<std::size_t>(queue)];
  const auto at = std::ranges::lower_bound(known, other, {}, &Known::queue);
  return at == known.end() || at->queue != other ? kNoTask : at->upto;
}

bool HappensBefore::before(TaskId earlier, TaskId later) {
  const Task& first = task(earlier);
  const Task& second = task(later);
  if (earlier >= later) return false;
  if (first.queue == second.queue) return true;
  // The queue knew the same when `later` started, if that is its last task.
  if (last_[static_cast<std::size_t>(second.queue)] == later &&
      known(second.queue, first.queue) >= earlier)
    return true;
  return search(earlier, later);
}

bool HappensBefore::search(TaskId earlier, TaskId later) {
  ++searches_;
  const QueueId wanted = task(earlier).queue;
  bool found = false;
  // On the stack: tasks whose start is before the start of `later`.
  stack_.assign(1, later);
  const auto started = [&](TaskId t) {
    if (t < earlier || std::exchange(seen_[static_cast<std::size_t>(t)], searches_) == searches_)
      return;
    stack_.push_back(t);
  };
  const auto done = [&](TaskId t) {
    // A task that is done has started, and its upstream is done.
    for (; t != kNoTask && t >= earlier; t = task(t).upstream) {
      if (task(t).queue == wanted) found = true;
      started(t);
    }
  };
  while (!stack_.empty() && !found) {
    const TaskId t = stack_.back();
    stack_.pop_back();
    for_each_awaited(t, done);
    if (task(t).upstream != kNoTask) started(task(t).upstream);
  }
  return found;
}

}  // namespace fleet
