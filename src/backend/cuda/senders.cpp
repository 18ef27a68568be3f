// SPDX-License-Identifier: BSD-3-Clause
// senders.cpp: queues whose copies go in turn share the sender of their source.
#include "backend/cuda/senders.hpp"

namespace fleet::cuda {

std::vector<Queue> served_by(const Plan& plan) {
  std::vector<Queue> served = plan.queues;
  const std::vector<DeviceId> sent_by = senders(plan);
  for (std::size_t q = 0; q < served.size(); ++q)
    if (sent_by[q] >= 0) served[q] = sender_of(sent_by[q]);
  return served;
}

DeviceId owner_of(const Queue& queue) {
  return on_host(queue.device) || queue.in_turn ? queue.source : queue.device;
}

}  // namespace fleet::cuda
