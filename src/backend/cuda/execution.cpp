// SPDX-License-Identifier: BSD-3-Clause
// execution.cpp: which way a run goes, what goes wrong in it, and what its Trace says. It must not
// know how plans are made.
#include "backend/cuda/execution.hpp"

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <utility>

#include "backend/cuda/first_calls.hpp"
#include "backend/cuda/stream_memory.hpp"
#include "base/clock.hpp"
#include "base/exit_guard.hpp"
#include "cpu/blas.hpp"

namespace fleet::cuda {
namespace {

bool has_faults(const Inject& inject) {
  return inject.copy > 0 || inject.launch > 0 || inject.lost.has_value();
}

class CudaExecution final : public Execution {
 public:
  CudaExecution(Devices& devices, const Plan& plan, const Binding& binding, std::uint64_t serial)
      : devices_(devices),
        plan_(plan),
        places_(places_of(plan)),
        is_timed_(devices.is_timed),
        kept_run_(take_run()),
        run_(*kept_run_) {
    try {
      scope_.emplace().try_use(devices.ordinals.front());
      devices.faults.require_devices(plan);
      spans_.assign(plan.tasks.size(), {});
      choose_way(binding, serial);
      if (!is_whole()) devices.phases.time("memory", [this] { reserve(); });
      begin_s_ = now_s();
      range_.emplace(devices.ranges, plan);
      if (!is_whole()) open();
    } catch (...) {
      leave();
      throw;
    }
    is_open_ = true;
  }

  ~CudaExecution() override {
    if (way_ != Graphs::Way::streams) drop();
    try {
      finish();
    } catch (const std::exception&) {
      // Nobody asks how it ended.
    }
  }

  bool is_whole() const override { return way_ == Graphs::Way::graph; }

  void* slot(const Where& where) override {
    return devices_.memory.arena(where.device) + plan_.slot(where).offset_bytes;
  }

  void copy(TaskId id, const View& from, const View& to) override {
    const bool doomed = devices_.faults.next_copy_fails();
    hand_over(id, doomed, [=, this] { run_.copy(id, from, to); });
  }

  void launch(TaskId id, const Launch& launch) override {
    const bool doomed = devices_.faults.next_launch_fails();
    hand_over(id, doomed, [=, this] {
      run_.launch(id, launch);
      Faults& faults = devices_.faults;
      const DeviceId device = plan_.tasks[static_cast<std::size_t>(id)].device();
      faults.note_kernel(device);
      if (faults.lost() == device && !faults.is_reported(device))
        throw Error(Status::device_failed, "device " + place_word(device) + " was lost");
    });
  }

  Trace finish() override {
    if (!is_open_) return {};
    is_open_ = false;
    Trace trace;
    try {
      trace = close();
    } catch (...) {  // no memory for the trace: the devices are free all the same
      leave();
      throw;
    }
    leave();
    scope_.reset();
    guard_.reset();
    if (trace.status == Status::ok) outlast_handlers_of(*plan_.program);
    return trace;
  }

 private:
  struct Failure {
    std::string message;
    TaskId task = kNoTask;
  };

  /// Ends a run that is not finished and of which nothing has been launched.
  void drop() {
    if (!is_open_) return;
    run_.abandon();
    is_open_ = false;
    leave();
  }

  std::unique_ptr<Run> take_run() {
    const std::lock_guard lock(devices_.mutex);
    if (devices_.busy.meets(places_))
      throw Error(Status::internal, "another run of these devices is under way");
    auto run = devices_.free_runs.empty() ? std::make_unique<Run>(devices_.streams)
                                          : std::move(devices_.free_runs.back());
    if (!devices_.free_runs.empty()) devices_.free_runs.pop_back();
    devices_.busy.add(places_);
    return run;
  }

  void leave() noexcept {
    range_.reset();
    const std::lock_guard lock(devices_.mutex);
    devices_.busy.remove(places_);
    try {
      devices_.free_runs.push_back(std::move(kept_run_));
    } catch (const std::bad_alloc&) {
      // The next one makes its events anew.
    }
  }

  void choose_way(const Binding& binding, std::uint64_t serial) {
    if (!devices_.graphs_wanted || serial == 0 || is_timed_ || has_faults(devices_.inject) ||
        devices_.inject.poison || !Run::can_capture(plan_) || asks_cusolver())
      return;
    key_ = GraphKey{serial, devices_.memory.generation(), binding,
                    memories_of(binding, devices_.memory.releases())};
    way_ = devices_.graphs.next(*key_);
    if (!is_whole()) return;
    graph_ = devices_.graphs.graph(*key_);  // from here on others may drop theirs
    if (graph_ == nullptr) way_ = Graphs::Way::streams;
  }

  /// What they fix has changed, or they cannot be had: this run goes into streams.
  void forget_graphs() {
    devices_.graphs.clear();
    key_.reset();
    way_ = Graphs::Way::streams;
  }

  /// Of all runs, with what has been captured of this one.
  void give_up_graphs() {
    run_.abandon();
    devices_.graphs_wanted = false;
    forget_graphs();
  }

  void reserve() {
    Memory& memory = devices_.memory;
    const std::int64_t generation = memory.generation();
    memory.reserve(plan_.arena_bytes);
    if (memory.generation() != generation) forget_graphs();
    if (devices_.inject.poison) memory.poison_arenas(plan_.arena_bytes);
  }

  /// Counts as time of the run: a kept graph, which is compared with it, needs none of this.
  void open() {
    try {
      devices_.phases.time("handles", [this] { make_handles(); });
      if (way_ == Graphs::Way::capture) open_capture();
      if (way_ != Graphs::Way::capture) run_.open(plan_, is_timed_, stager(), *scope_);
      if (is_worth_sharing()) run_.share(devices_.issuers);
    } catch (...) {
      run_.abandon();
      throw;
    }
  }

  /// Where none can be opened there are no graphs: the tasks go into streams, now and later.
  void open_capture() {
    try {
      run_.open_capture(plan_, *scope_);
    } catch (const Error&) {
      give_up_graphs();
    }
  }

  /// Whether several threads should put tasks into streams. Where the devices do not wait for one
  /// thread, waking several makes runs longer: by 0.1 to 0.4 ms and more, seen in runs of 1 to 4
  /// ms.
  bool is_worth_sharing() const {
    constexpr std::int64_t kFewCalls = 600;
    if (way_ != Graphs::Way::streams || !run_.can_share()) return false;
    if (devices_.inject.issuers) return true;
    const int devices = run_.device_count();
    return devices > 1 && core_count() > devices && Run::calls_of(plan_) > kFewCalls;
  }

  /// For the copies of pageable memory, if the plan has any.
  Stager* stager() {
    if (!Run::stages(plan_)) return nullptr;
    if (!devices_.stager)
      devices_.stager = devices_.phases.time("copy threads", [this] {
        return std::make_unique<Stager>(copy_threads(), devices_.ordinals.front());
      });
    return devices_.stager.get();
  }

  void make_handles() {
    std::vector<char> multiplies(plan_.queues.size(), 0);
    for (const Task& task : plan_.tasks)
      if (task.kind == TaskKind::compute && !on_host(task.device()) && task.kernel != Kernel::add &&
          task.kernel != Kernel::scale)
        multiplies[static_cast<std::size_t>(task.queue)] = 1;
    for (std::size_t q = 0; q < plan_.queues.size(); ++q) {
      if (!multiplies[q]) continue;
      Stream& stream = devices_.streams.of(plan_.queues[q]);
      if (stream.blas) continue;
      scope_->use(stream.ordinal);
      devices_.blas_of(stream);
    }
    if (asks_cusolver()) make_solvers();
    if (plan_.program->strips) make_workspaces();
  }

  /// Do panels of the plan come from cuSOLVER, where it makes handles?
  bool asks_cusolver() const {
    return devices_.cusolver != nullptr && plan_.program->strips &&
           plan_.program->strips->what.routine == Factoring::potrf;
  }

  void make_solvers() {
    for (const Task& task : plan_.tasks) {
      if (task.kind != TaskKind::compute || task.kernel != Kernel::factor || on_host(task.device()))
        continue;
      Stream& stream = devices_.streams.of(plan_.queues[static_cast<std::size_t>(task.queue)]);
      if (std::exchange(stream.asked_for_solver, true)) continue;
      scope_->use(stream.ordinal);
      stream.solver = CusolverHandle::make(devices_.cusolver, stream.stream);
    }
  }

  /// Of the largest kernel of each queue.
  void make_workspaces() {
    bool moved = false;
    std::vector<std::size_t> known(plan_.queues.size(), 0);  // updates, most tasks, have few sizes
    for (const Task& task : plan_.tasks) {
      if (task.kind != TaskKind::compute || on_host(task.device())) continue;
      const TileProgram& program = *plan_.program;
      const TileOp& op = program.op(task.op);
      const auto& of_target = program.matrix_of(task.tile).panel;
      const Launch launch{
          .kernel = task.kernel,
          .type = program.type_of(op, task.tile),
          .c = {.rows = program.rows_of(task.tile), .cols = program.cols_of(task.tile)},
          .panel = of_target ? *of_target : *program.matrix_of(op.inputs[0].tile).panel};
      std::size_t& most = known[static_cast<std::size_t>(task.queue)];
      if (task.kernel == Kernel::update) {
        if (update_bytes(launch) <= most) continue;
        most = update_bytes(launch);
      }
      Stream& stream = devices_.streams.of(plan_.queues[static_cast<std::size_t>(task.queue)]);
      scope_->use(stream.ordinal);
      moved |= stream.workspace.grow(
          factoring_bytes(launch, {*stream.blas, stream.stream, stream.solver.get()}));
    }
    if (moved) forget_graphs();
  }

  /// After the first thing that goes wrong nothing more is enqueued, but what other threads are at:
  /// what is there can end.
  template <typename Put>
  void hand_over(TaskId id, bool doomed, Put put) {
    if (has_failed_) return;
    if (!run_.is_shared(id)) return enqueue(id, doomed, put);
    try {
      run_.post(id, [this, id, doomed, put = std::move(put)] { enqueue(id, doomed, put); });
    } catch (const std::bad_alloc& error) {
      fail(error, id);
    }
  }

  template <typename Put>
  void enqueue(TaskId id, bool doomed, const Put& put) {
    if (!run_.await_needs(id) || has_failed_) return;
    const Ranges::TaskRange range(devices_.ranges, plan_, devices_.machine, id);
    try {
      if (doomed) throw Error(Status::device_failed, "failed on purpose");
      put();
    } catch (const std::exception& error) {  // std::bad_alloc too: part of the task may be there
      run_.doubt(id);
      if (!doomed && way_ == Graphs::Way::streams) spans_[static_cast<std::size_t>(id)] = {0, -1};
      fail(error, id);
    }
  }

  /// The first failure counts, of whichever thread.
  void fail(const std::exception& error, TaskId task = kNoTask) noexcept {
    if (has_failed_.exchange(true)) return;
    failure_ = {.message = message_of(error), .task = task};
  }

  Trace close() {
    Trace trace;
    trace.issuers = run_.finish_putting();
    if (way_ == Graphs::Way::streams) trace.issued_s = now_s() - begin_s_;
    trace.spans = std::move(spans_);
    if (way_ == Graphs::Way::streams)
      finish_run(trace);
    else if (launch_graph())
      finish_graph(trace);
    else {  // it could not be launched: the tasks are done otherwise now, and in streams later
      give_up_graphs();
      note_failure(trace);
      trace.lost = broken_device();
    }
    trace.seconds = now_s() - begin_s_;
    for (Span& span : trace.spans)
      if (span.done() && !is_timed_) span.stop_s = trace.seconds;
    if (key_ && trace.status == Status::ok) devices_.graphs.note(*key_, way_, trace.seconds);
    devices_.faults.note_reported(trace.lost);
    return trace;
  }

  /// Launches all tasks, captured now or earlier, as a graph. False, with nothing done, if that
  /// fails.
  bool launch_graph() {
    try {
      if (!is_whole()) graph_ = captured();
      const Stream& stream = devices_.streams.of({Queue::Kind::lane, first_device(), kHost, 0});
      scope_->use(stream.ordinal);
      check(cudaGraphLaunch(graph_.get(), stream.stream), "cudaGraphLaunch");
      graph_stream_ = &stream;
      return true;
    } catch (const std::exception& error) {
      fail(error);
    }
    return false;
  }

  DeviceId first_device() const {
    DeviceId first = kFirstDevice;
    while (!places_.has(first)) ++first;
    return first;
  }

  KeptGraph captured() {
    // A graph of a part would be taken for the plan from now on.
    bool whole = !has_failed_;
    for (TaskId id = 0; id < std::ssize(plan_.tasks); ++id) whole = whole && run_.has_put(id);
    if (!whole) throw Error(Status::device_failed, "the plan was not captured as a whole");
    return devices_.graphs.keep(*key_, run_.end_capture());
  }

  void finish_graph(Trace& trace) {
    scope_->try_use(graph_stream_->ordinal);
    const cudaError_t code = cudaStreamSynchronize(graph_stream_->stream);
    if (code == cudaSuccess) {
      trace.spans.assign(trace.spans.size(), {0, 0});
      return;
    }
    cudaGetLastError();
    trace.spans.assign(trace.spans.size(), {0, -1});  // begun, and who knows how far
    trace.status = Status::device_failed;
    trace.message = cudaGetErrorString(code);
    wait_for_others();
    trace.lost = broken_device();
  }

  void finish_run(Trace& trace) {
    bool whole = true;
    try {
      run_.wait();
      for (TaskId id = 0; id < std::ssize(plan_.tasks); ++id)
        if (run_.has_put(id)) trace.spans[static_cast<std::size_t>(id)] = {0, 0};
      if (is_timed_) run_.measure(trace.spans);
    } catch (const std::exception& error) {
      whole = false;
      fail(error);
      run_.find_done(trace.spans);
    }
    if (!has_failed_) return;
    note_failure(trace);
    trace.failed = failure_.task;
    const DeviceId lost = devices_.faults.lost();
    trace.lost = places_.has(lost) ? lost : whole ? -1 : broken_device();
  }

  void note_failure(Trace& trace) {
    trace.status = Status::device_failed;
    trace.message = std::move(failure_.message);
  }

  /// The stream of a graph may end with an error while parts of the graph still run elsewhere. A
  /// held stream of the program may wait for this run: then these parts are left alone.
  void wait_for_others() {
    const NoNewHold as_it_is;
    if (any_stream_is_held()) return;
    for (std::size_t i = 0; i < devices_.ordinals.size(); ++i)
      if (places_.has(kFirstDevice + static_cast<DeviceId>(i)) &&
          scope_->try_use(devices_.ordinals[i]))
        works(cudaDeviceSynchronize());
  }

  /// A device of the run whose context has an error that stays, or -1. To ask for memory breaks no
  /// capture, and no capture is taken for an error.
  DeviceId broken_device() {
    for (std::size_t i = 0; i < devices_.ordinals.size(); ++i) {
      const DeviceId location = kFirstDevice + static_cast<DeviceId>(i);
      std::size_t free = 0, total = 0;
      if (!places_.has(location)) continue;
      if (!scope_->try_use(devices_.ordinals[i]) || !works(cudaMemGetInfo(&free, &total)))
        return location;
    }
    return -1;
  }

  /// Until finish() the end of the process waits for this thread (not for ever), and CUDA with it;
  /// threads that come later stay outside.
  std::optional<ExitGuard> guard_{std::in_place};
  std::optional<DeviceScope> scope_;  ///< as long: some device is the current one
  Devices& devices_;
  const Plan& plan_;
  const Places places_;
  const bool is_timed_;
  std::unique_ptr<Run> kept_run_;
  Run& run_;
  std::optional<Ranges::CallRange> range_;
  KeptGraph graph_;              ///< under way; others may drop theirs meanwhile
  std::optional<GraphKey> key_;  ///< if the run may come again
  Graphs::Way way_ = Graphs::Way::streams;
  const Stream* graph_stream_ = nullptr;  ///< the graph under way is in it
  Failure failure_;
  std::atomic<bool> has_failed_{false};  ///< set before failure_, which is read after the run
  std::vector<Span> spans_;              ///< finish() must wait, memory or not
  double begin_s_ = 0;
  bool is_open_ = false;
};

}  // namespace

std::unique_ptr<Execution> begin_run(Devices& devices, const Plan& plan, const Binding& binding,
                                     std::uint64_t serial) {
  return std::make_unique<CudaExecution>(devices, plan, binding, serial);
}

}  // namespace fleet::cuda
