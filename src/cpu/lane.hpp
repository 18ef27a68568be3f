// SPDX-License-Identifier: BSD-3-Clause
// lane.hpp: a thread that does kernels on the CPU one after another, beside whatever else goes on.
// It must not know plans, nor what the devices do meanwhile.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/worker_crew.hpp"
#include "cpu/blas.hpp"
#include "run/launch.hpp"
#include "sim/trace.hpp"

namespace fleet {

/// One run of kernels at a time: begin, any number of push, finish. For one thread.
class CpuLane {
 public:
  explicit CpuLane(std::shared_ptr<CpuBlas> blas);
  /// Waits for a run that nobody has finished.
  ~CpuLane();
  CpuLane(const CpuLane&) = delete;
  CpuLane& operator=(const CpuLane&) = delete;

  /// Begins a run of at most `kernels` kernels, for which it has all memory from here on, with
  /// `threads` threads of the CPU BLAS. Throws Error(no_memory) where the system gives no thread,
  /// Error(device_failed) in a forked child.
  void begin(std::size_t kernels, int threads);
  /// The next kernel, which follows those before it and waits for nothing else.
  void push(const Launch& launch) noexcept;

  struct Done {
    /// Per kernel, from begin(). One that failed has begun and not stopped; those after it were not
    /// begun.
    std::vector<Span> spans;
    bool failed = false;
    std::string failure;  ///< what failed, as far as there was memory to say it
  };
  /// Waits for all kernels.
  Done finish();

 private:
  struct Line;

  const std::shared_ptr<Line> line_;  ///< shared with the thread, which may outlive this
  WorkerCrew crew_;
  bool is_open_ = false;
};

}  // namespace fleet
