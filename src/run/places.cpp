// SPDX-License-Identifier: BSD-3-Clause
// places.cpp: sets of locations, and that of a plan. It knows no threads and no calls.
#include "run/places.hpp"

#include <algorithm>

namespace fleet {

void Places::add(DeviceId location) {
  const auto at = static_cast<std::size_t>(location);
  if (has_.size() <= at) has_.resize(at + 1, false);
  has_[at] = true;
}

void Places::add(const Places& other) {
  if (has_.size() < other.has_.size()) has_.resize(other.has_.size(), false);
  for (std::size_t at = 0; at < other.has_.size(); ++at)
    if (other.has_[at]) has_[at] = true;
}

void Places::remove(const Places& other) {
  for (std::size_t at = 0; at < std::min(has_.size(), other.has_.size()); ++at)
    if (other.has_[at]) has_[at] = false;
}

bool Places::has(DeviceId location) const {
  const auto at = static_cast<std::size_t>(location);
  return location >= 0 && at < has_.size() && has_[at];
}

bool Places::meets(const Places& other) const {
  for (std::size_t at = 0; at < std::min(has_.size(), other.has_.size()); ++at)
    if (has_[at] && other.has_[at]) return true;
  return false;
}

std::vector<std::size_t> tasks_of_queues(const Plan& plan) {
  std::vector<std::size_t> tasks(plan.queues.size(), 0);
  for (const Task& task : plan.tasks) ++tasks[static_cast<std::size_t>(task.queue)];
  return tasks;
}

Places places_of(const Plan& plan) {
  Places places;
  const std::vector<std::size_t> tasks = tasks_of_queues(plan);
  for (std::size_t q = 0; q < tasks.size(); ++q) {
    if (tasks[q] == 0) continue;
    const Queue& queue = plan.queues[q];
    const bool ends_here = queue.kind != Queue::Kind::link || on_host(queue.source);
    if (!on_host(queue.device) || ends_here)
      places.add(on_host(queue.device) ? kHost : queue.device);
    if (queue.kind == Queue::Kind::link && !on_host(queue.source)) places.add(queue.source);
  }
  for (DeviceId d = 0; d < static_cast<DeviceId>(plan.arena_bytes.size()); ++d)
    if (plan.arena_bytes[static_cast<std::size_t>(d)] > 0) places.add(on_host(d) ? kHost : d);
  return places;
}

}  // namespace fleet
