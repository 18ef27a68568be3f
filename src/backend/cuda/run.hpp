// SPDX-License-Identifier: BSD-3-Clause
// run.hpp: one run of a plan: its tasks put into streams, and what orders them. It must not
// know memory, faults, nor who asked for the run.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "backend/cuda/check.hpp"
#include "backend/cuda/device_scope.hpp"
#include "backend/cuda/stager.hpp"
#include "backend/cuda/streams.hpp"
#include "run/issuers.hpp"
#include "sim/trace.hpp"

namespace fleet::cuda {

/// Enqueues in plan order, or the tasks of each device in that order. With times kept, every task
/// has an event at both ends; otherwise only those have one that another stream waits for.
class Run {
 public:
  explicit Run(Streams& streams) : streams_(streams) {}

  /// `stager` does the copies of pageable memory, if the plan has any. `scope` is of this thread,
  /// and outlives the run. Throws Error.
  void open(const Plan& plan, bool timed, Stager* stager, DeviceScope& scope);
  /// The same, captured into a graph instead of run. The plan has no copies of pageable memory.
  void open_capture(const Plan& plan, DeviceScope& scope);
  /// After open(): whether threads of devices can put its tasks into streams. They copy no pageable
  /// memory, and share no queue.
  bool can_share() const;
  /// From here on a thread for each device puts its tasks into streams, if the system has threads
  /// and memory for that. If can_share(); `issuers` have a thread for each of CUDA's
  /// numbers of devices.
  void share(Issuers& issuers);
  /// How many devices have streams of this run.
  int device_count() const { return static_cast<int>(ordinals_.size()); }

  /// Whether a thread of a device puts this task into its stream: it is to be posted.
  bool is_shared(TaskId id) const;
  /// `put` is called by that thread. It must not throw, and calls copy() or launch() after
  /// await_needs().
  void post(TaskId id, std::function<void()> put);
  /// Waits until other threads have put what this task waits for. False: some of it they will not.
  bool await_needs(TaskId id) const;
  /// Waits for the threads of devices, and gives them back. Returns how many there were.
  int finish_putting();

  void copy(TaskId id, const View& from, const View& to);
  void launch(TaskId id, const Launch& launch);

  /// Waits for all that was enqueued. Throws Error(device_failed).
  void wait();
  /// The graph that was captured. Throws Error(device_failed).
  cudaGraph_t end_capture();
  /// Gives up an opening that has failed, or a capture whatever state it is in.
  void abandon();

  /// The task was put, but nobody knows whether all of it was.
  void doubt(TaskId id) { put_[static_cast<std::size_t>(id)] = 0; }
  /// Whether the task has been put into a stream or a line; then it is done after wait().
  bool has_put(TaskId id) const { return put_[static_cast<std::size_t>(id)] != 0; }
  /// After wait(), with times kept.
  void measure(std::vector<Span>& spans);
  /// After wait() has thrown: which tasks are known to be done, and which only to have begun.
  void find_done(std::vector<Span>& spans);

  /// Puts one kernel into a stream. Throws Error.
  static void compute(const Launch& launch, Stream& stream);
  /// At least so many copies and kernels of CUDA a plan is. What solutions are made of counts, what
  /// other kernels are made of does not.
  static std::int64_t calls_of(const Plan& plan);
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

  static void put(const Launch& launch, Stream& stream);
  void use(const Stream& stream);
  int thread_of(TaskId id) const {
    return lanes_[static_cast<std::size_t>(task(id).queue)].stream->ordinal;
  }
  bool is_put_from(TaskId id, int thread) const;
  const Task& task(TaskId id) const { return plan_->tasks[static_cast<std::size_t>(id)]; }
  Ends& ends(TaskId id) { return ends_[static_cast<std::size_t>(id)]; }
  void prepare(const Plan& plan, DeviceScope& scope);
  void find_streams();
  void find_needs();
  Stream& begin(TaskId id);
  void note_start(TaskId id, Stream& stream);
  Stream& stream_of(TaskId id);
  void await(const Stream& stream, cudaEvent_t event);
  void await_here(TaskId earlier);
  void await_task(TaskId earlier, Stream& stream);
  cudaEvent_t mark(Stream& stream);
  void end(TaskId id, Stream& stream);
  void stage(TaskId id, const View& from, const View& to);
  bool is_done_when_put(TaskId id) const;
  bool staged(TaskId id) const { return staged_[static_cast<std::size_t>(id)] >= 0; }
  void start_clock();

  Streams& streams_;
  Stager* stager_ = nullptr;
  Events untimed_{false};
  Events timed_events_{true};
  Events* events_ = &untimed_;
  DeviceScope* scope_ = nullptr;  ///< of the thread that has opened the run
  const Plan* plan_ = nullptr;
  bool timed_ = false;
  bool capturing_ = false;
  Issuers* issuers_ = nullptr;  ///< of a shared run
  std::vector<int> ordinals_;   ///< CUDA's numbers of the devices of used_
  std::vector<Stream*> used_;   ///< all streams of the run
  Stream* origin_ = nullptr;    ///< of a capture
  std::vector<Lane> lanes_;     ///< by queue
  std::vector<char> needed_;    ///< per task: whether another queue waits for its end
  std::vector<char> watched_;   ///< per task: whether it is upstream of a copy in chunks
  std::vector<Ends> ends_;
  std::vector<std::vector<cudaEvent_t>> chunks_;  ///< per watched task: end of each chunk
  std::vector<std::int32_t> staged_;              ///< per task: its number as a staged copy, or -1
  std::int32_t staged_count_ = 0;
  std::vector<char> put_;           ///< per task: see has_put()
  std::map<TaskId, Span> at_home_;  ///< when this thread scaled matrices, in timed runs
  /// Where the clocks of the devices begin, on the host's clock: by ordinal.
  struct Epoch {
    cudaEvent_t event = nullptr;
    double host_s = 0;
  };
  std::vector<Epoch> epochs_;
  double opened_s_ = 0;
};

}  // namespace fleet::cuda
