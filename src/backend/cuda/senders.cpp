// SPDX-License-Identifier: BSD-3-Clause
// senders.cpp: queues whose copies go in turn share the sender of their source.
#include "backend/cuda/senders.hpp"

namespace fleet::cuda {

std::vector<Queue> served_by(const Plan& plan) {
  std::vector<Queue> served = plan.queues;
  for (const Task& task : plan.tasks) {
    const auto q = static_cast<std::size_t>(task.queue);
    if (is_sent_in_turn(plan, task)) served[q] = sender_of(plan.queues[q].source);
  }
  return served;
}

DeviceId owner_of(const Queue& queue) {
  return on_host(queue.device) || queue.in_turn ? queue.source : queue.device;
}

}  // namespace fleet::cuda
