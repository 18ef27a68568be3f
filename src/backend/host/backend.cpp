// SPDX-License-Identifier: BSD-3-Clause
// backend.cpp: virtual devices on the CPU, put together from their memory, their faults, their
// threads and the run that these work on. It must not know how plans are made.
#include "backend/host/backend.hpp"

#include <algorithm>
#include <optional>
#include <random>
#include <utility>

#include "backend/host/memory.hpp"
#include "backend/host/queues.hpp"
#include "backend/host/run.hpp"
#include "base/error.hpp"
#include "base/exit_guard.hpp"
#include "base/worker_crew.hpp"
#include "cpu/copies.hpp"
#include "run/faults.hpp"

namespace fleet {
namespace {

/// Whose thread runs a queue: a device's own, the source's for copies to the host; the host's own
/// for what stays there (the pinned ring, products in place).
DeviceId worker_of(const Queue& queue) {
  if (!on_host(queue.device)) return queue.device;
  if (queue.kind == Queue::Kind::link && !on_host(queue.source)) return queue.source;
  return kHost;
}

std::vector<std::int64_t> limits(const Machine& machine, const Options& options) {
  std::vector<std::int64_t> bytes;
  for (const Device& device : machine.devices) bytes.push_back(device.memory_bytes);
  if (options.device_memory > 0)
    std::fill(bytes.begin() + kFirstDevice, bytes.end(), options.device_memory);
  return bytes;
}

/// What workers need while a run is on. Shared with them, so that one left behind at the end still
/// finds it.
struct Workplace {
  Workplace(std::shared_ptr<CpuBlas> blas, std::shared_ptr<Faults> faults, int workers)
      : board(std::move(blas), std::move(faults)) {
    for (int w = 0; w < workers; ++w) readers.emplace_back(board);
  }

  /// Worker's part of the run, in plan order as far as its queues allow.
  void work(int worker) {
    guarded([&] {
      QueueReader& reader = readers[static_cast<std::size_t>(worker)];
      for (;;) {
        const int heard = board.bell();
        if (const auto piece = reader.lowest()) {
          board.run(*piece);
          reader.pass(*piece);
        } else if (reader.finished()) {
          return;
        } else {
          board.wait_for_bell(heard);
        }
      }
    });
  }

  /// The whole run on this thread, in a random order if there is a generator for it.
  void work_alone(std::mt19937_64* random) {
    guarded([&] {
      QueueReader& reader = readers[kHost];
      while (const auto piece = random != nullptr ? reader.any(*random) : reader.lowest()) {
        board.run(*piece);
        reader.pass(*piece);
      }
      if (!reader.finished())
        board.fail(Status::internal, kNoTask, "the tasks of the plan wait for each other");
    });
  }

  /// Nothing may leave a worker but a failed run.
  template <typename Work>
  void guarded(Work&& work) {
    try {
      work();
    } catch (const std::exception& error) {
      board.fail(Status::device_failed, kNoTask, error.what());
    }
  }

  RunBoard board;
  std::vector<QueueReader> readers;  ///< per location; kHost's also reads alone, for all
};

class HostBackend final : public Backend {
 public:
  HostBackend(const Machine& machine, std::shared_ptr<CpuBlas> blas, const Options& options)
      : machine_(without_peers(machine, options.inject)),
        inject_(options.inject),
        blas_(std::move(blas)),
        faults_(std::make_shared<Faults>(options.inject, machine_, machine)),
        memory_({.limit_bytes = limits(machine_, options),
                 .failing_allocation = options.inject.alloc,
                 .poison = options.inject.poison}),
        place_(std::make_shared<Workplace>(blas_, faults_, locations())),
        crew_(locations(), [place = place_](int worker) { place->work(worker); }) {}

  ~HostBackend() override {
    if (open_ && crew_.present()) finish();
  }

  const Machine& machine() const override { return machine_; }

  void prepare(const Plan& plan) override {
    require_threads();
    if (open_) finish();
    faults_->require_devices(plan);
    memory_.reserve(plan.arena_bytes);
    if (inject_.poison) memory_.poison_arenas(plan.arena_bytes);
    plan_ = &plan;
    std::vector<int> workers;
    try {
      workers = assign_queues(plan);
      lease_.emplace(*blas_, kernel_threads(plan));
      place_->board.open(plan);
    } catch (const std::bad_alloc&) {
      lease_.reset();
      memory_.let_go();
      throw Error(Status::no_memory, "the host cannot hold the queues of the plan");
    }
    open_ = true;
    crew_.invite(workers);
  }

  void* slot(const Where& where) override {
    const auto& slots = plan_->slots.at(static_cast<std::size_t>(where.device));
    return memory_.arena(where.device) +
           slots.at(static_cast<std::size_t>(where.slot)).offset_bytes;
  }

  void copy(TaskId id, const Task&, const View& from, const View& to) override {
    place_->board.enqueue(id, {.a = from, .c = to});
  }

  void launch(TaskId id, const Task&, const Launch& launch) override {
    place_->board.enqueue(id, launch);
  }

  Trace finish() override {
    if (!open_) return {};
    place_->board.close();
    if (alone_) {
      std::mt19937_64 random(inject_.order.value_or(0) + runs_alone_++);
      place_->work_alone(inject_.order ? &random : nullptr);
    }
    crew_.wait();
    Trace trace = place_->board.trace();
    open_ = false;
    lease_.reset();
    if (trace.lost >= 0 && !faults_->is_reported(trace.lost)) memory_.forget(trace.lost);
    faults_->note_reported(trace.lost);
    // After a failure the slots are what a recovery goes on from.
    if (trace.status == Status::ok && inject_.poison) memory_.poison_arenas(plan_->arena_bytes);
    if (trace.status == Status::ok) memory_.let_go();
    return trace;
  }

  void* allocate(DeviceId location, std::int64_t bytes) override {
    require_threads();
    faults_->require_alive(location);
    return memory_.allocate(location, bytes);
  }

  void release(DeviceId location, void* data) override {
    // A child's copy goes with the child; its locks may be held for ever.
    if (crew_.present()) memory_.release(location, data);
  }

  void transfer(DeviceId to_location, const View& to, DeviceId from_location, const View& from,
                std::int64_t element_bytes) override {
    faults_->require_alive(to_location);
    faults_->require_alive(from_location);
    copy_columns(from, to, element_bytes, 0, from.cols);
  }

  void trim() override {
    if (!crew_.present()) return;
    if (!open_) memory_.let_go();  // after a failed run
    memory_.trim();
  }

  std::int64_t available_bytes(DeviceId location) override {
    return faults_->is_lost(location) ? 0 : memory_.available_bytes(location);
  }

  std::vector<Finding> examine() override {
    const int devices = machine_.device_count(), cores = core_count();
    std::vector<Finding> findings = {
        {"virtual devices", devices > cores ? Finding::Verdict::slow : Finding::Verdict::ok,
         std::to_string(devices) + " on " + std::to_string(cores) +
             (cores == 1 ? " core" : " cores"),
         devices > cores ? "more devices than cores only wait for each other: --devices " +
                               std::to_string(cores)
                         : ""}};
    for (DeviceId d = kFirstDevice; d < locations(); ++d)
      if (faults_->is_lost(d))
        findings.push_back({"device " + machine_.devices[static_cast<std::size_t>(d)].name,
                            Finding::Verdict::broken, "it was lost",
                            "start again; FLEETBLAS_INJECT loses devices on purpose"});
    return findings;
  }

 private:
  int locations() const { return static_cast<int>(machine_.devices.size()); }

  /// Products of virtual devices run side by side; those in place on the host have it to
  /// themselves.
  static int kernel_threads(const Plan& plan) {
    const bool on_devices = std::ranges::any_of(
        plan.queues, [](const Queue& queue) { return !on_host(worker_of(queue)); });
    return on_devices ? 1 : core_count();
  }

  void require_threads() const {
    if (!crew_.present())
      throw Error(Status::device_failed, "virtual devices do not exist in a forked child");
    if (ExitGuard::exiting())
      throw Error(Status::device_failed, "virtual devices do not work while the process exits");
  }

  /// Who reads which queues; nobody where this thread does it alone: for a random order, or because
  /// the system gives no threads.
  std::vector<int> assign_queues(const Plan& plan) {
    std::vector<int> workers;
    if (!inject_.order)
      for (const Queue& queue : plan.queues)
        if (std::ranges::find(workers, worker_of(queue)) == workers.end())
          workers.push_back(worker_of(queue));
    alone_ = inject_.order || !crew_.hire(workers);
    if (alone_) {
      open_reader(plan, kHost, [](const Queue&) { return true; });
      return {};
    }
    for (int worker : workers)
      open_reader(plan, worker, [&](const Queue& queue) { return worker_of(queue) == worker; });
    return workers;
  }

  template <typename Owns>
  void open_reader(const Plan& plan, int worker, Owns&& owns) {
    std::vector<std::size_t> tasks(plan.queues.size(), 0);
    for (const Task& task : plan.tasks) ++tasks[static_cast<std::size_t>(task.queue)];
    for (std::size_t q = 0; q < tasks.size(); ++q)
      if (!owns(plan.queues[q])) tasks[q] = 0;
    place_->readers[static_cast<std::size_t>(worker)].open(tasks);
  }

  const Machine machine_;
  const Inject inject_;
  std::shared_ptr<CpuBlas> blas_;
  std::shared_ptr<Faults> faults_;
  HostMemory memory_;
  std::shared_ptr<Workplace> place_;
  WorkerCrew crew_;
  const Plan* plan_ = nullptr;
  std::optional<CpuBlas::Lease> lease_;
  bool open_ = false;
  bool alone_ = false;
  std::uint64_t runs_alone_ = 0;
};

}  // namespace

std::unique_ptr<Backend> make_host_backend(const Machine& machine, std::shared_ptr<CpuBlas> blas,
                                           const Options& options) {
  return std::make_unique<HostBackend>(machine, std::move(blas), options);
}

}  // namespace fleet
