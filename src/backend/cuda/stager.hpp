// SPDX-License-Identifier: BSD-3-Clause
// stager.hpp: the CPU's part of a run: copies between pageable memory and the pinned ring. It
// must not know plans beyond the order in which copies are handed to it.
#pragma once
#include <cuda_runtime.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/stream_memory.hpp"
#include "base/worker_crew.hpp"
#include "cpu/copy_crew.hpp"
#include "run/launch.hpp"

namespace fleet::cuda {

/// Something that a copy waits for: an event of a stream, or another copy of the CPU.
struct Awaited {
  cudaEvent_t event = nullptr;
  std::int32_t copy = -1;
};

/// Two lines of copies, in and out of the ring, each first in, first out, each copy done by several
/// threads. Streams wait for a copy by its flag in pinned memory, without the CPU's help.
class Stager {
 public:
  /// `threads` for both lines together; `ordinal`: of the device in whose context its flags are
  /// pinned. Throws Error(device_failed) where streams cannot wait for memory: calls with pageable
  /// operands are then the CPU's.
  Stager(int threads, int ordinal);
  ~Stager();
  Stager(const Stager&) = delete;
  Stager& operator=(const Stager&) = delete;

  enum class Line { in = 0, out = 1 };

  /// Begins a run with this number of copies. False when the system gives no threads.
  bool begin(std::int32_t copies);
  /// The copy `number`, counted from 0 over both lines. Everything awaited has been enqueued.
  void enqueue(Line line, std::int32_t number, const View& from, const View& to,
               std::int64_t element_bytes, std::vector<Awaited> awaited);
  /// Lets `stream` of the current device wait for a copy.
  void hold(cudaStream_t stream, std::int32_t number);
  /// Waits for a copy; false if one has failed.
  bool await(std::int32_t number) const;
  /// Waits for all that was enqueued. The first thing that went wrong, or nullptr.
  const char* finish();
  /// Seconds on the steady clock at which a copy began and ended.
  std::pair<double, double> span(std::int32_t number) const;

 private:
  struct Copy {
    std::int32_t number;
    CopyCrew::Copy columns;
    std::vector<Awaited> awaited;
  };
  struct LineState {
    std::mutex mutex;
    std::condition_variable bell;
    std::deque<Copy> waiting;
    bool closed = true;
  };

  void serve(int line);
  void do_copy(int line, const Copy& copy);
  bool done(std::int32_t number) const;
  void mark(std::int32_t number);
  void fail(const char* what);

  const int ordinal_;
  LineState lines_[CopyCrew::kLines];
  CopyCrew crew_;
  std::uint32_t* flags_ = nullptr;        ///< pinned: the run in which a copy was done last
  std::vector<std::uint32_t*> outgrown_;  ///< freed last: CUDA would wait for whole devices
  std::int32_t capacity_ = 0;
  std::uint32_t run_ = 0;
  std::vector<std::pair<double, double>> spans_;
  const StreamMemory memory_;
  std::mutex failure_mutex_;
  const char* failure_ = nullptr;  ///< a literal
  std::atomic<bool> failed_{false};
  std::unique_ptr<WorkerCrew> servers_;
};

}  // namespace fleet::cuda
