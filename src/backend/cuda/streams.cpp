// SPDX-License-Identifier: BSD-3-Clause
// streams.cpp: makes streams and events when they are first asked for. It must not know what
// is put into them.
#include "backend/cuda/streams.hpp"

#include <algorithm>

#include "backend/cuda/check.hpp"
#include "backend/cuda/device_scope.hpp"
#include "backend/cuda/senders.hpp"

namespace fleet::cuda {

Streams::~Streams() {
  DeviceScope device;
  for (; !streams_.empty(); streams_.pop_front()) {
    Stream& stream = streams_.front();
    device.try_use(stream.ordinal);
    stream.solver.reset();
    stream.blas.reset();
    works(cudaStreamDestroy(stream.stream));
  }
}

Stream& Streams::of(const Queue& queue) {
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find(streams_, queue, &Stream::queue);
  if (known != streams_.end()) return *known;
  Stream stream;
  stream.queue = queue;
  stream.ordinal = ordinals_[static_cast<std::size_t>(owner_of(queue) - kFirstDevice)];
  const DeviceScope device(stream.ordinal);
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  // Not bound to the legacy default stream: the caller's own work goes on beside ours. And not of
  // its priority: streams of one priority share a few hardware queues, in which ours would wait
  // behind a stream of the program that waits for our event (see hold_stream).
  const int ours = least - greatest > 1 ? least - 1 : least;
  // A triangle's diagonal is copied by a kernel, which would wait for a whole product, and later
  // copies with it. What products of an update need first (kRowsLane) goes before copies too.
  const int early = queue.lane == kRowsLane ? 2 : queue.kind == Queue::Kind::link ? 1 : 0;
  const int priority = queue.is_ahead ? greatest : std::max(greatest, ours - early);
  check(cudaStreamCreateWithPriority(&stream.stream, cudaStreamNonBlocking, priority),
        "cudaStreamCreate");
  Stream& kept = streams_.emplace_back();
  kept.queue = stream.queue;
  kept.ordinal = stream.ordinal;
  kept.stream = stream.stream;
  return kept;
}

Events::~Events() {
  DeviceScope device;
  for (std::size_t ordinal = 0; ordinal < pools_.size(); ++ordinal) {
    if (!pools_[ordinal].events.empty()) device.try_use(static_cast<int>(ordinal));
    for (cudaEvent_t event : pools_[ordinal].events) works(cudaEventDestroy(event));
  }
}

cudaEvent_t Events::next(int ordinal) {
  Pool& pool = pools_.at(static_cast<std::size_t>(ordinal));
  if (pool.used == pool.events.size()) {
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, timed_ ? cudaEventDefault : cudaEventDisableTiming),
          "cudaEventCreate");
    pool.events.push_back(event);
  }
  return pool.events[pool.used++];
}

void Events::make_room(std::size_t ordinals) {
  if (pools_.size() < ordinals) pools_.resize(ordinals);
}

void Events::reset() {
  for (Pool& pool : pools_) pool.used = 0;
}

}  // namespace fleet::cuda
