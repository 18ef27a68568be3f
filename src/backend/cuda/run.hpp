// SPDX-License-Identifier: BSD-3-Clause
// run.hpp: one run of a plan: its tasks put into streams, and what orders them. It must not
// know memory, faults, nor who asked for the run.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "backend/cuda/check.hpp"
#include "backend/cuda/stager.hpp"
#include "backend/cuda/streams.hpp"
#include "sim/trace.hpp"

namespace fleet::cuda {

/// Enqueues in plan order. With times kept, every task has an event at both ends; otherwise only
/// those have one that another stream waits for.
class Run {
 public:
  explicit Run(Streams& streams) : streams_(streams) {}

  /// `stager` does the copies of pageable memory, if the plan has any. Throws Error.
  void open(const Plan& plan, bool timed, Stager* stager);
  /// The same, captured into a graph instead of run. The plan has no copies of pageable memory.
  void open_capture(const Plan& plan);

  void copy(TaskId id, const View& from, const View& to);
  void launch(TaskId id, const Launch& launch);

  /// Waits for all that was enqueued. Throws Error(device_failed).
  void wait();
  /// The graph that was captured. Throws Error(device_failed).
  cudaGraph_t end_capture();
  /// Gives up an opening that has failed, or a capture whatever state it is in.
  void abandon();

  /// Tasks that have been put into a stream or a line; all of them are done after wait().
  TaskId enqueued() const { return enqueued_; }
  /// After wait(), with times kept.
  void measure(std::vector<Span>& spans);
  /// After wait() has thrown: which tasks are known to be done, and which only to have begun.
  void find_done(std::vector<Span>& spans);

  /// Puts one kernel into a stream. Throws Error.
  static void compute(const Launch& launch, Stream& stream);
  static bool stages(const Plan& plan);       ///< whether it copies pageable memory
  static bool can_capture(const Plan& plan);  ///< whether it can be kept as a graph

 private:
  struct Ends {
    cudaEvent_t start = nullptr;
    cudaEvent_t stop = nullptr;
  };
  struct Lane {
    Stream* stream = nullptr;  ///< none: a line of the stager, or
    bool mixed = false;        ///< a stream for each device, used one after the other
    TaskId last = kNoTask;
  };

  const Task& task(TaskId id) const { return plan_->tasks[static_cast<std::size_t>(id)]; }
  Ends& ends(TaskId id) { return ends_[static_cast<std::size_t>(id)]; }
  void prepare(const Plan& plan);
  void find_needs();
  Stream& begin(TaskId id);
  void note_start(TaskId id, Stream& stream);
  Stream& stream_of(TaskId id);
  void await(Stream& stream, cudaEvent_t event);
  void await_task(TaskId earlier, Stream& stream);
  cudaEvent_t mark(Stream& stream);
  void end(TaskId id, Stream& stream);
  void stage(TaskId id, const View& from, const View& to);
  bool staged(TaskId id) const { return staged_[static_cast<std::size_t>(id)] >= 0; }
  void start_clock();

  Streams& streams_;
  Stager* stager_ = nullptr;
  Events untimed_{false};
  Events timed_events_{true};
  Events* events_ = &untimed_;
  std::unique_ptr<DeviceScope> device_;
  const Plan* plan_ = nullptr;
  bool timed_ = false;
  bool capturing_ = false;
  std::uint64_t run_ = 0;
  std::vector<Stream*> begun_;  ///< streams that this run has used
  Stream* origin_ = nullptr;    ///< of a capture
  cudaEvent_t root_ = nullptr;  ///< what every stream of a capture begins with
  std::vector<Lane> lanes_;     ///< by queue
  std::vector<char> needed_;    ///< per task: whether another queue waits for its end
  std::vector<char> watched_;   ///< per task: whether it is upstream of a copy in chunks
  std::vector<Ends> ends_;
  std::vector<std::vector<cudaEvent_t>> chunks_;  ///< per watched task: end of each chunk
  std::vector<std::int32_t> staged_;              ///< per task: its number as a staged copy, or -1
  std::int32_t staged_count_ = 0;
  TaskId enqueued_ = 0;
  /// Where the clocks of the devices begin, on the host's clock: by ordinal.
  struct Epoch {
    cudaEvent_t event = nullptr;
    double host_s = 0;
  };
  std::vector<Epoch> epochs_;
  double opened_s_ = 0;
};

}  // namespace fleet::cuda
