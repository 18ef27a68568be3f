// SPDX-License-Identifier: BSD-3-Clause
// senders.hpp: which stream does the tasks of a queue. It must not know CUDA.
#pragma once
#include <vector>

#include "plan/plan.hpp"

namespace fleet::cuda {

/// The queue, which no plan has, of what a device sends to others for their products.
inline Queue sender_of(DeviceId source) {
  return {.kind = Queue::Kind::link, .device = source, .source = source, .in_turn = true};
}

/// By queue of the plan, the one whose stream does its tasks: itself, or of inputs that go in turn
/// (senders()), the sender of its source. Each copy then has the whole rate. Streams side by
/// side share it in a way that no plan knows: a device serves some of its own to their end before
/// the others, and of two copies that a device fetches at once, the one whose source is busy gets a
/// quarter (docs/performance/lessons.md). A queue that only brings results home keeps a stream of
/// its own, so that what others need does not wait for these.
std::vector<Queue> served_by(const Plan& plan);

/// The device whose streams have copies and kernels of this queue. Copies between two devices are
/// the target's, which starts them with all of its sources at once, or where the source sends in
/// turn, the source's.
DeviceId owner_of(const Queue& queue);

}  // namespace fleet::cuda
