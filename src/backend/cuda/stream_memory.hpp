// SPDX-License-Identifier: BSD-3-Clause
// stream_memory.hpp: streams that wait for numbers in pinned memory, and the program's streams
// that are held in this way. It must not know what they wait for.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <shared_mutex>

namespace fleet::cuda {

/// What the driver does with numbers in memory in the order of a stream, without the CPU's help.
/// The stream is one of the current device.
class StreamMemory {
 public:
  /// Throws Error(device_failed) where the driver cannot.
  StreamMemory();
  /// Lets the stream wait until *number >= least.
  void wait(cudaStream_t stream, const std::uint32_t* number, std::uint32_t least) const;
  void write(cudaStream_t stream, std::uint32_t* number, std::uint32_t value) const;

 private:
  using Function = CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned int);
  Function wait_ = nullptr, write_ = nullptr;
};

/// Holds a stream of the current device until the result is called, once, by any thread. The end of
/// the process lets go of all streams. Throws Error.
///
/// The numbers that streams wait for belong to the process and are never freed: a stream may be
/// held by what happens in another context, and longer than its own context lives.
std::function<void()> hold_stream(cudaStream_t stream);

/// Is any stream of the program held? What waits for a whole device, or for its default stream,
/// might then wait for ever. The answer lasts as long as a NoNewHold.
bool any_stream_is_held();

/// No stream of the process begins to be held as long as it lives, in the thread that made it. A
/// thread may nest some, but holds no stream meanwhile.
class NoNewHold {
 public:
  NoNewHold();
  ~NoNewHold();
  NoNewHold(const NoNewHold&) = delete;
  NoNewHold& operator=(const NoNewHold&) = delete;

 private:
  std::shared_lock<std::shared_mutex> lock_;
};

}  // namespace fleet::cuda
