// SPDX-License-Identifier: BSD-3-Clause
// mark.hpp: one event of its own, where none of a run is at hand. It must not know what is waited
// for.
#pragma once
#include <cuda_runtime.h>

#include "backend/cuda/check.hpp"

namespace fleet::cuda {

/// A point in a stream of the current device. All throw Error(no_memory, device_failed).
class Mark {
 public:
  Mark() { check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate"); }
  ~Mark() { works(cudaEventDestroy(event_)); }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;

  /// After what is in the stream now.
  void put(cudaStream_t stream) const { check(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  /// Lets another stream wait until the first is there, or this thread.
  void await_in(cudaStream_t stream) const {
    check(cudaStreamWaitEvent(stream, event_), "cudaStreamWaitEvent");
  }
  void wait() const { check(cudaEventSynchronize(event_), "cudaEventSynchronize"); }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace fleet::cuda
