// SPDX-License-Identifier: BSD-3-Clause
// backend.cpp: GPUs, put together from their memory, their streams, the faults that tests ask
// for, and the run or graph that is under way. It must not know how plans are made.
#include "backend/cuda/backend.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <type_traits>

#include "backend/cuda/copies.hpp"
#include "backend/cuda/graphs.hpp"
#include "backend/cuda/machine.hpp"
#include "backend/cuda/memory.hpp"
#include "backend/cuda/ranges.hpp"
#include "backend/cuda/run.hpp"
#include "backend/device_library.hpp"
#include "base/exit_guard.hpp"
#include "cpu/blas.hpp"
#include "cpu/copies.hpp"
#include "run/faults.hpp"

namespace fleet::cuda {
namespace {

/// Copies of host memory gain from every core up to here; runs need few of them for more.
constexpr int kMostCopyThreads = 32;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool has_faults(const Inject& inject) {
  return inject.copy > 0 || inject.launch > 0 || inject.lost.has_value();
}

class CudaBackend final : public Backend {
 public:
  CudaBackend(const Options& options, const std::vector<int>& ordinals)
      : ordinals_(ordinals),
        cublas_(CublasLibrary::load()),
        peers_(connect(ordinals)),
        whole_(shape_of(ordinals, peers_)),
        machine_(without_peers(whole_, options.inject)),
        inject_(options.inject),
        graphs_wanted_(options.graphs),
        faults_(options.inject, machine_, whole_),
        memory_({.ordinals = ordinals,
                 .limit_bytes = options.device_memory,
                 .failing_allocation = options.inject.alloc,
                 .poison = options.inject.poison}),
        streams_(ordinals) {
    for (Device& device : machine_.devices)
      if (options.device_memory > 0 && device.memory_bytes > options.device_memory &&
          &device >= &machine_.devices[kFirstDevice])
        device.memory_bytes = options.device_memory;
    // After CUDA has installed its own: what is installed last is called first.
    ExitGuard::install();
  }

  ~CudaBackend() override {
    if (open_) finish();
  }

  const Machine& machine() const override { return machine_; }

  bool replay(const Plan& plan, const Binding& binding, std::uint64_t serial) override {
    return inside([&] { return try_replay(plan, binding, serial); });
  }

  void prepare(const Plan& plan) override {
    inside([&] { begin(plan); });
  }

  void* slot(const Where& where) override {
    const auto& slots = plan_->slots.at(static_cast<std::size_t>(where.device));
    return memory_.arena(where.device) +
           slots.at(static_cast<std::size_t>(where.slot)).offset_bytes;
  }

  void copy(TaskId id, const Task&, const View& from, const View& to) override {
    const Ranges::TaskRange range(ranges_, *plan_, machine_, id);
    enqueue(id, faults_.next_copy_fails(), [&] { run().copy(id, from, to); });
  }

  void launch(TaskId id, const Task& task, const Launch& launch) override {
    const Ranges::TaskRange range(ranges_, *plan_, machine_, id);
    enqueue(id, faults_.next_launch_fails(), [&] {
      run().launch(id, launch);
      faults_.note_kernel(task.device());
      if (faults_.lost() >= 0 && !faults_.is_reported(faults_.lost()))
        throw Error(Status::device_failed, "device " + place_word(faults_.lost()) + " was lost");
    });
  }

  Trace finish() override {
    if (!open_) return {};
    const std::vector<ProgramCall>& calls = plan_->program->calls;
    Trace trace = close();
    guard_.reset();
    if (trace.status == Status::ok)
      for (const ProgramCall& call : calls) outlast_handlers_of(kind_of(call.problem));
    return trace;
  }

  /// Waited for here and now: what comes next may be a transfer as well as a run, and handles of
  /// streams do not say whose they are.
  void wait_for_stream(DeviceId device, void* stream) override {
    const ExitGuard inside;
    const DeviceScope scope(ordinal(device));
    auto handle = static_cast<cudaStream_t>(stream);
    if (handle == nullptr) handle = cudaStreamLegacy;
    check(cudaStreamSynchronize(handle), "the caller's stream");
  }

  bool overlaps_launches() const override { return true; }
  void keep_times(bool wanted) override { timed_ = wanted; }

  DeviceId locate(const void* data, std::int64_t bytes) override {
    const ExitGuard inside;
    const auto* last = static_cast<const char*>(data) + std::max<std::int64_t>(bytes, 1) - 1;
    return location_of_piece(locate(data), locate(last));
  }

  bool pin(void* data, std::int64_t bytes) override {
    const ExitGuard inside;
    return works(cudaHostRegister(data, static_cast<std::size_t>(bytes), cudaHostRegisterPortable));
  }
  void unpin(void* data) override {
    const ExitGuard inside;
    works(cudaHostUnregister(data));
  }

  void* allocate(DeviceId location, std::int64_t bytes) override {
    const ExitGuard inside;
    faults_.require_alive(location);
    return memory_.allocate(location, bytes);
  }
  void release(DeviceId location, void* data) override {
    const ExitGuard inside;
    memory_.release(location, data);
  }

  void transfer(DeviceId to_location, const View& to, DeviceId from_location, const View& from,
                std::int64_t element_bytes) override {
    faults_.require_alive(to_location);
    faults_.require_alive(from_location);
    if (from.rows == 0 || from.cols == 0) return;
    const ExitGuard inside;
    if (on_host(to_location) && on_host(from_location))
      return copy_columns(from, to, element_bytes, 0, from.cols);
    const DeviceScope device(ordinal(on_host(to_location) ? from_location : to_location));
    if (!on_host(to_location) && !on_host(from_location) && to_location != from_location)
      return transfer_by_host(to, from, element_bytes);
    copy_now(to, from, element_bytes);
  }

  std::vector<Finding> examine() override {
    const ExitGuard inside;
    std::vector<Finding> found = describe(ordinals_, peers_);
    found.insert(found.begin() + 1,
                 {"cuBLAS", Finding::Verdict::ok,
                  cublas_->file() + " (version " + std::to_string(cublas_->version()) + ")", ""});
    return found;
  }

  void trim() override {
    const ExitGuard inside;
    graphs_.clear();
    memory_.trim();
  }

  std::int64_t available_bytes(DeviceId location) override {
    const ExitGuard inside;
    return faults_.is_lost(location) ? 0 : memory_.available_bytes(location);
  }

 private:
  struct Failure {
    Status status = Status::ok;
    std::string message;
    TaskId task = kNoTask;
    bool begun = false;  ///< it may have been put into its stream in part
  };

  /// From here to finish() the end of the process waits for this thread (not for ever), and CUDA
  /// with it; threads that come later stay outside.
  template <typename Work>
  std::invoke_result_t<Work> inside(Work&& work) {
    if (!guard_) guard_.emplace();
    try {
      return work();
    } catch (...) {
      guard_.reset();
      throw;
    }
  }

  /// A number for the routine and the type: gemm has all types, the others those of BLAS.
  static constexpr int kBlasTypes = 4, kGemmTypes = kComputes * kStorages;
  static unsigned kind_of(const Problem& problem) {
    const int routine = static_cast<int>(problem.routine);
    const auto [compute, storage] = problem.type;
    const int kind = routine == 0 ? static_cast<int>(compute) * kStorages
                                  : kGemmTypes + (routine - 1) * kBlasTypes;
    return static_cast<unsigned>(kind + static_cast<int>(storage));
  }

  /// cuBLAS sets itself up with the first product of a kind, exit handlers included.
  static void outlast_handlers_of(unsigned kind) {
    static_assert(kGemmTypes + (kRoutines - 1) * kBlasTypes <= 64);
    static std::atomic<std::uint64_t> known{0};
    const std::uint64_t bit = std::uint64_t{1} << kind;
    if ((known.load(std::memory_order_relaxed) & bit) == 0 && (known.fetch_or(bit) & bit) == 0)
      ExitGuard::install_again();
  }

  bool try_replay(const Plan& plan, const Binding& binding, std::uint64_t serial) {
    key_.reset();
    way_ = Graphs::Way::streams;
    if (!graphs_wanted_ || serial == 0 || timed_ || has_faults(inject_) || inject_.poison ||
        !Run::can_capture(plan))
      return false;
    key_ = GraphKey{serial, memory_.generation(), binding};
    way_ = graphs_.next(*key_);
    if (way_ != Graphs::Way::graph) return false;
    cudaGraphExec_t graph = graphs_.graph(*key_);
    faults_.require_devices(plan);
    plan_ = &plan;
    begin_s_ = now_s();
    ranges_.begin_call(plan);
    failure_ = {};
    spans_.assign(plan.tasks.size(), {});
    launch_graph(graph);
    open_ = true;
    return true;
  }

  void begin(const Plan& plan) {
    if (open_) close();
    faults_.require_devices(plan);
    const std::int64_t generation = memory_.generation();
    memory_.reserve(plan.arena_bytes);
    if (memory_.generation() != generation) {
      graphs_.clear();
      key_.reset();
      way_ = Graphs::Way::streams;
    }
    if (inject_.poison) memory_.poison_arenas(plan.arena_bytes);
    plan_ = &plan;
    failure_ = {};
    spans_.assign(plan.tasks.size(), {});
    graph_stream_ = nullptr;
    begin_s_ = now_s();
    ranges_.begin_call(plan);
    make_handles(plan);
    if (way_ == Graphs::Way::capture) {
      run().open_capture(plan);
    } else {
      if (Run::stages(plan)) require_stager();
      run().open(plan, timed_);
    }
    open_ = true;
  }

  Trace close() {
    open_ = false;
    if (way_ == Graphs::Way::capture) capture_and_launch();
    Trace trace;
    trace.spans = std::move(spans_);
    if (graph_stream_ != nullptr)
      finish_graph(trace);
    else
      finish_run(trace);
    trace.seconds = now_s() - begin_s_;
    for (Span& span : trace.spans)
      if (span.done() && !timed_) span.stop_s = trace.seconds;
    if (key_ && trace.status == Status::ok) graphs_.note(*key_, way_, trace.seconds);
    faults_.note_reported(trace.lost);
    ranges_.end_call();
    return trace;
  }

  Run& run() {
    if (!run_) run_ = std::make_unique<Run>(streams_, stager_.get());
    return *run_;
  }

  void require_stager() {
    if (stager_) return;
    const int threads = std::clamp(core_count() - 2, 2, kMostCopyThreads);
    stager_ = std::make_unique<Stager>(threads);
    run_ = std::make_unique<Run>(streams_, stager_.get());
  }

  int ordinal(DeviceId device) const {
    return ordinals_[static_cast<std::size_t>(device - kFirstDevice)];
  }

  void make_handles(const Plan& plan) {
    DeviceScope device;
    std::vector<char> multiplies(plan.queues.size(), 0);
    for (const Task& task : plan.tasks)
      if (task.kind == TaskKind::compute && task.kernel != Kernel::add &&
          task.kernel != Kernel::scale)
        multiplies[static_cast<std::size_t>(task.queue)] = 1;
    for (std::size_t q = 0; q < plan.queues.size(); ++q) {
      if (!multiplies[q]) continue;
      Stream& stream = streams_.of(plan.queues[q]);
      if (stream.blas) continue;
      device.use(stream.ordinal);
      check(cudaSetDevice(stream.ordinal), "cudaSetDevice");
      stream.blas = std::make_unique<CublasHandle>(cublas_, stream.stream);
    }
  }

  /// After the first thing that goes wrong nothing more is enqueued: what is there can end.
  template <typename Put>
  void enqueue(TaskId id, bool doomed, Put&& put) {
    if (failure_.status != Status::ok) return;
    try {
      if (doomed) throw Error(Status::device_failed, "failed on purpose");
      put();
    } catch (const std::exception& error) {  // std::bad_alloc too: part of the task may be there
      fail(error, id);
      failure_.begun = !doomed;
    }
  }

  void fail(const std::exception& error, TaskId task = kNoTask) noexcept {
    failure_ = {.status = Status::device_failed, .message = message_of(error), .task = task};
  }

  void launch_graph(cudaGraphExec_t graph) {
    DeviceScope device;
    Stream& stream = streams_.of({Queue::Kind::lane, kFirstDevice, kHost, 0});
    device.use(stream.ordinal);
    check(cudaSetDevice(stream.ordinal), "cudaSetDevice");
    check(cudaGraphLaunch(graph, stream.stream), "cudaGraphLaunch");
    graph_stream_ = stream.stream;
  }

  void capture_and_launch() {
    try {
      // A graph of a part would be taken for the plan from now on.
      if (failure_.status == Status::ok && run().enqueued() < std::ssize(plan_->tasks))
        throw Error(Status::device_failed, "the plan was not captured as a whole");
      if (failure_.status == Status::ok) {
        cudaGraphExec_t graph = graphs_.keep(*key_, run().end_capture());
        launch_graph(graph);
        return;
      }
    } catch (const std::exception& error) {
      fail(error);
    }
    run().abandon_capture();
    graphs_wanted_ = false;  // it would fail again; streams have done it before
    nothing_ran_ = true;
  }

  void finish_graph(Trace& trace) {
    const cudaError_t code = cudaStreamSynchronize(graph_stream_);
    if (code == cudaSuccess) {
      trace.spans.assign(trace.spans.size(), {0, 0});
      return;
    }
    cudaGetLastError();
    trace.spans.assign(trace.spans.size(), {0, -1});  // begun, and who knows how far
    trace.status = Status::device_failed;
    trace.message = cudaGetErrorString(code);
    trace.lost = broken_device();
  }

  void finish_run(Trace& trace) {
    if (std::exchange(nothing_ran_, false)) {
      trace.status = failure_.status;
      trace.message = std::move(failure_.message);
      return;
    }
    const TaskId enqueued = run().enqueued();
    bool whole = true;
    try {
      run().wait();
      for (TaskId id = 0; id < enqueued; ++id) trace.spans[static_cast<std::size_t>(id)] = {0, 0};
      if (timed_) run().measure(trace.spans);
    } catch (const std::exception& error) {
      whole = false;
      if (failure_.status == Status::ok) fail(error);
      run().find_done(trace.spans);
    }
    if (failure_.status == Status::ok) return;
    trace.status = failure_.status;
    trace.message = std::move(failure_.message);
    trace.failed = failure_.task;
    if (failure_.begun) trace.spans[static_cast<std::size_t>(failure_.task)] = {0, -1};
    trace.lost = faults_.lost() >= 0 ? faults_.lost() : whole ? -1 : broken_device();
  }

  /// A device whose context has an error that stays, or -1.
  DeviceId broken_device() const {
    const DeviceScope scope;
    for (std::size_t i = 0; i < ordinals_.size(); ++i)
      if (!works(cudaSetDevice(ordinals_[i])) || !works(cudaDeviceSynchronize()))
        return kFirstDevice + static_cast<DeviceId>(i);
    return -1;
  }

  DeviceId locate(const void* data) const {
    cudaPointerAttributes attributes{};
    if (!works(cudaPointerGetAttributes(&attributes, data))) return kPageable;
    if (attributes.type == cudaMemoryTypeHost) return kHost;
    if (attributes.type != cudaMemoryTypeDevice) return kPageable;
    const auto found = std::ranges::find(ordinals_, attributes.device);
    if (found == ordinals_.end())
      throw Error(Status::bad_argument, "an operand lies on device " +
                                            std::to_string(attributes.device) +
                                            ", which this context does not use");
    return kFirstDevice + static_cast<DeviceId>(found - ordinals_.begin());
  }

  static void copy_now(const View& to, const View& from, std::int64_t element_bytes) {
    copy_async({.from = from, .to = to, .element_bytes = element_bytes, .last = from.cols},
               nullptr);
    check(cudaStreamSynchronize(nullptr), "a copy");
  }

  /// Between devices: pairs without peer access have no other way that CUDA offers for columns.
  static void transfer_by_host(const View& to, const View& from, std::int64_t element_bytes) {
    std::vector<char> bytes(static_cast<std::size_t>(from.rows * from.cols * element_bytes));
    const View between{bytes.data(), from.rows, from.cols, from.rows, from.fill};
    copy_now(between, from, element_bytes);
    copy_now(to, between, element_bytes);
  }

  const std::vector<int> ordinals_;
  std::shared_ptr<const CublasLibrary> cublas_;
  const std::vector<std::vector<Peer>> peers_;
  const Machine whole_;
  Machine machine_;
  const Inject inject_;
  bool graphs_wanted_;
  Faults faults_;
  Memory memory_;
  Streams streams_;
  std::unique_ptr<Stager> stager_;
  std::unique_ptr<Run> run_;
  Graphs graphs_;
  std::optional<ExitGuard> guard_;  ///< while a run is open
  std::optional<GraphKey> key_;     ///< of the run under way, if it may come again
  Graphs::Way way_ = Graphs::Way::streams;
  cudaStream_t graph_stream_ = nullptr;  ///< the graph under way is in it
  bool nothing_ran_ = false;
  const Plan* plan_ = nullptr;
  Failure failure_;
  std::vector<Span> spans_;  ///< of the run under way: close() must wait for it, memory or not
  Ranges ranges_;
  bool open_ = false;
  bool timed_ = false;
  double begin_s_ = 0;
};

}  // namespace

std::unique_ptr<Backend> make_backend(const Options& options, const std::vector<int>& ordinals) {
  const ExitGuard inside;
  return std::make_unique<CudaBackend>(options, ordinals);
}

}  // namespace fleet::cuda

extern "C" __attribute__((visibility("default"))) const fleet::DeviceLibrary*
fleet_device_library() {
  static const fleet::DeviceLibrary library{.version = fleet::kDeviceLibraryVersion,
                                            .count = fleet::cuda::visible_devices,
                                            .open = fleet::cuda::make_backend,
                                            .identity = fleet::cuda::identity_of};
  return &library;
}
