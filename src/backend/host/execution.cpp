// SPDX-License-Identifier: BSD-3-Clause
// execution.cpp: workers that read their queues until the run is over, or the caller's thread that
// reads them all. It must not know how plans are made.
#include "backend/host/execution.hpp"

#include <algorithm>
#include <optional>
#include <random>
#include <utility>

#include "backend/host/queues.hpp"
#include "backend/host/run.hpp"
#include "base/error.hpp"
#include "base/exit_guard.hpp"

namespace fleet::host {

/// The state that workers need during a run. Shared with them, so that one left behind at the end
/// still finds it.
struct Workplace {
  Workplace(std::shared_ptr<CpuBlas> blas, std::shared_ptr<Faults> faults, int workers)
      : run(std::move(blas), std::move(faults)) {
    for (int w = 0; w < workers; ++w) readers.emplace_back(run);
  }

  /// Worker's part of the run, in plan order as far as its queues allow.
  void work(int worker) {
    guarded([&] {
      QueueReader& reader = readers[static_cast<std::size_t>(worker)];
      for (;;) {
        const int heard = run.bell();
        if (const auto piece = reader.lowest()) {
          run.do_piece(*piece);
          reader.pass(*piece);
        } else if (reader.finished()) {
          return;
        } else {
          run.wait_for_bell(heard);
        }
      }
    });
  }

  /// The whole run on this thread, in a random order if there is a generator for it.
  void work_alone(std::mt19937_64* random) {
    guarded([&] {
      QueueReader& reader = readers[kHost];
      while (const auto piece = random != nullptr ? reader.any(*random) : reader.lowest()) {
        run.do_piece(*piece);
        reader.pass(*piece);
      }
      if (!reader.finished())
        run.fail(Status::internal, kNoTask, "the tasks of the plan wait for each other");
    });
  }

  /// Nothing may leave a worker but a failed run.
  template <typename Work>
  void guarded(Work&& work) {
    try {
      work();
    } catch (const std::exception& error) {
      run.fail(Status::device_failed, kNoTask, error.what());
    }
  }

  Run run;
  std::vector<QueueReader> readers;  ///< per location; kHost's also reads alone, for all
};

namespace {

/// Whose thread runs a queue: a device's own, the source's for copies to the host; the host's own
/// for what stays there (the pinned ring, products in place).
DeviceId worker_of(const Queue& queue) {
  if (!on_host(queue.device)) return queue.device;
  if (queue.kind == Queue::Kind::link && !on_host(queue.source)) return queue.source;
  return kHost;
}

/// Products of virtual devices run side by side; those in place on the host have it to themselves.
int kernel_threads(const Plan& plan) {
  const bool on_devices = std::ranges::any_of(
      plan.queues, [](const Queue& queue) { return !on_host(worker_of(queue)); });
  return on_devices ? 1 : core_count();
}

std::vector<std::int64_t> limits(const Machine& machine, const Options& options) {
  std::vector<std::int64_t> bytes;
  for (const Device& device : machine.devices) bytes.push_back(device.memory_bytes);
  if (options.device_memory > 0)
    std::fill(bytes.begin() + kFirstDevice, bytes.end(), options.device_memory);
  return bytes;
}

class HostExecution final : public Execution {
 public:
  HostExecution(Devices& devices, const Plan& plan)
      : devices_(devices), place_(*devices.place), plan_(plan) {
    const std::vector<int> workers = assign_queues();
    lease_.emplace(*devices.blas, kernel_threads(plan));
    place_.run.open(plan);
    devices.crew.invite(workers);
    devices.is_running = is_open_ = true;
  }

  ~HostExecution() override {
    if (is_open_ && devices_.crew.present()) finish();
  }

  void* slot(const Where& where) override {
    return devices_.memory.arena(where.device) + plan_.slot(where).offset_bytes;
  }

  void copy(TaskId id, const View& from, const View& to) override {
    place_.run.enqueue(id, {.a = from, .c = to});
  }

  void launch(TaskId id, const Launch& launch) override { place_.run.enqueue(id, launch); }

  Trace finish() override {
    if (!is_open_) return {};
    place_.run.close();
    if (is_alone_) {
      const auto order = devices_.inject.order;
      std::mt19937_64 random(order.value_or(0) + devices_.runs_alone++);
      place_.work_alone(order ? &random : nullptr);
    }
    devices_.crew.wait();
    Trace trace = place_.run.trace();
    devices_.is_running = is_open_ = false;
    lease_.reset();
    Memory& memory = devices_.memory;
    if (trace.lost >= 0 && !devices_.faults->is_reported(trace.lost)) memory.forget(trace.lost);
    devices_.faults->note_reported(trace.lost);
    if (trace.status != Status::ok) return trace;  // a recovery goes on from the slots
    if (devices_.inject.poison) memory.poison_arenas(plan_.arena_bytes);
    memory.let_go();
    return trace;
  }

 private:
  /// Who reads which queues; nobody where this thread does it alone: for a random order, or because
  /// the system gives no threads.
  std::vector<int> assign_queues() {
    std::vector<int> workers;
    if (!devices_.inject.order)
      for (const Queue& queue : plan_.queues)
        if (std::ranges::find(workers, worker_of(queue)) == workers.end())
          workers.push_back(worker_of(queue));
    is_alone_ = devices_.inject.order || !devices_.crew.hire(workers);
    if (is_alone_) {
      open_reader(kHost, [](const Queue&) { return true; });
      return {};
    }
    for (int worker : workers)
      open_reader(worker, [&](const Queue& queue) { return worker_of(queue) == worker; });
    return workers;
  }

  template <typename Owns>
  void open_reader(int worker, Owns&& owns) {
    std::vector<std::size_t> tasks(plan_.queues.size(), 0);
    for (const Task& task : plan_.tasks) ++tasks[static_cast<std::size_t>(task.queue)];
    for (std::size_t q = 0; q < tasks.size(); ++q)
      if (!owns(plan_.queues[q])) tasks[q] = 0;
    place_.readers[static_cast<std::size_t>(worker)].open(tasks);
  }

  Devices& devices_;
  Workplace& place_;
  const Plan& plan_;
  std::optional<CpuBlas::Lease> lease_;
  bool is_alone_ = false;
  bool is_open_ = false;
};

}  // namespace

Devices::Devices(const Machine& shape, std::shared_ptr<CpuBlas> cpu_blas, const Options& options)
    : machine(without_peers(shape, options.inject)),
      inject(options.inject),
      blas(std::move(cpu_blas)),
      faults(std::make_shared<Faults>(inject, machine, shape)),
      memory({.limit_bytes = limits(machine, options),
              .failing_allocation = inject.alloc,
              .poison = inject.poison}),
      place(std::make_shared<Workplace>(blas, faults, locations())),
      crew(locations(), [place = place](int worker) { place->work(worker); }) {}

void Devices::require_threads() const {
  if (!crew.present())
    throw Error(Status::device_failed, "virtual devices do not exist in a forked child");
  if (ExitGuard::exiting())
    throw Error(Status::device_failed, "virtual devices do not work while the process exits");
}

std::unique_ptr<Execution> begin_run(Devices& devices, const Plan& plan) {
  devices.require_threads();
  if (devices.is_running) throw Error(Status::internal, "another run is under way");
  devices.faults->require_devices(plan);
  devices.memory.reserve(plan.arena_bytes);
  if (devices.inject.poison) devices.memory.poison_arenas(plan.arena_bytes);
  try {
    return std::make_unique<HostExecution>(devices, plan);
  } catch (const std::bad_alloc&) {
    devices.memory.let_go();
    throw Error(Status::no_memory, "the host cannot hold the queues of the plan");
  }
}

}  // namespace fleet::host
