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

/// The state that workers need during one run. Shared with them, so that one left behind at the end
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

// Workers who come to the first task would go to sleep before the second: waking them costs as much
// as enqueueing dozens.
constexpr TaskId kTasksBeforeWork = 64;

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

void let_go(Memory& memory, const Plan& plan) {
  for (DeviceId d = 0; d < static_cast<DeviceId>(plan.arena_bytes.size()); ++d)
    if (plan.arena_bytes[static_cast<std::size_t>(d)] > 0) memory.let_go(d);
}

class HostExecution final : public Execution {
 public:
  HostExecution(Devices& devices, const Plan& plan)
      : devices_(devices),
        plan_(plan),
        places_(places_of(plan)),
        tasks_(tasks_of_queues(plan)),
        place_(take_place()) {
    try {
      devices.faults->require_devices(plan);
      devices.memory.reserve(plan.arena_bytes);
      if (devices.inject.poison) devices.memory.poison_arenas(plan.arena_bytes);
      workers_ = assign_queues();
      lease_.emplace(*devices.blas, kernel_threads(plan));
      place_->run.open(plan);
    } catch (...) {
      leave();
      throw;
    }
    for (int worker : workers_)
      devices.roster->workplaces[static_cast<std::size_t>(worker)] = place_;
    is_open_ = true;
  }

  ~HostExecution() override {
    if (is_open_ && devices_.crew.present()) finish();
  }

  void* slot(const Where& where) override {
    return devices_.memory.arena(where.device) + plan_.slot(where).offset_bytes;
  }

  void copy(TaskId id, const View& from, const View& to) override {
    enqueue(id, {.a = from, .c = to});
  }

  void launch(TaskId id, const Launch& launch) override { enqueue(id, launch); }

  Trace finish() override {
    if (!is_open_) return {};
    place_->run.close();
    invite();
    if (is_alone_) {
      const auto order = devices_.inject.order;
      std::mt19937_64 random(order.value_or(0) + devices_.runs_alone++);
      place_->work_alone(order ? &random : nullptr);
    }
    devices_.crew.wait(workers_);
    Trace trace = place_->run.trace();
    if (!places_.has(trace.lost)) trace.lost = -1;  // for a run of that device to report
    is_open_ = false;
    lease_.reset();
    close(trace);
    leave();
    return trace;
  }

 private:
  void enqueue(TaskId id, const Launch& work) {
    place_->run.enqueue(id, work);
    if (id + 1 >= kTasksBeforeWork) invite();
  }

  void invite() {
    if (!std::exchange(is_invited_, true)) devices_.crew.invite(workers_);
  }

  std::shared_ptr<Workplace> take_place() {
    const std::lock_guard lock(devices_.mutex);
    if (devices_.busy.meets(places_))
      throw Error(Status::internal, "another run of these devices is under way");
    std::shared_ptr<Workplace> place;
    if (devices_.free_places.empty()) {
      devices_.free_places.reserve(devices_.places_made + 1);
      place = std::make_shared<Workplace>(devices_.blas, devices_.faults, devices_.locations());
      ++devices_.places_made;
    } else {
      place = std::move(devices_.free_places.back());
      devices_.free_places.pop_back();
    }
    devices_.busy.add(places_);
    return place;
  }

  void leave() {
    const std::lock_guard lock(devices_.mutex);
    devices_.busy.remove(places_);
    devices_.free_places.push_back(place_);
  }

  void close(const Trace& trace) {
    Memory& memory = devices_.memory;
    if (trace.lost >= 0 && !devices_.faults->is_reported(trace.lost)) memory.forget(trace.lost);
    devices_.faults->note_reported(trace.lost);
    if (trace.status != Status::ok) return;  // a recovery goes on from the slots
    if (devices_.inject.poison) memory.poison_arenas(plan_.arena_bytes);
    let_go(memory, plan_);
  }

  /// Who reads which queues; nobody where this thread does it alone: for a random order, or because
  /// the system gives no threads.
  std::vector<int> assign_queues() {
    std::vector<int> workers;
    for (std::size_t q = 0; q < tasks_.size() && !devices_.inject.order; ++q) {
      const DeviceId worker = worker_of(plan_.queues[q]);
      if (tasks_[q] > 0 && std::ranges::find(workers, worker) == workers.end())
        workers.push_back(worker);
    }
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
    std::vector<std::size_t> tasks = tasks_;
    for (std::size_t q = 0; q < tasks.size(); ++q)
      if (!owns(plan_.queues[q])) tasks[q] = 0;
    place_->readers[static_cast<std::size_t>(worker)].open(tasks);
  }

  Devices& devices_;
  const Plan& plan_;
  const Places places_;
  const std::vector<std::size_t> tasks_;  ///< by queue
  const std::shared_ptr<Workplace> place_;
  std::vector<int> workers_;
  std::optional<CpuBlas::Lease> lease_;
  bool is_alone_ = false;
  bool is_invited_ = false;
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
      roster(std::make_shared<Roster>()),
      crew(locations(), [roster = roster](int worker) {
        const auto place = roster->workplaces[static_cast<std::size_t>(worker)];
        place->work(worker);
      }) {
  roster->workplaces.resize(static_cast<std::size_t>(locations()));
}

bool Devices::is_busy(DeviceId location) const {
  const std::lock_guard lock(mutex);
  return busy.has(location);
}

void Devices::require_threads() const {
  if (!crew.present())
    throw Error(Status::device_failed, "virtual devices do not exist in a forked child");
  if (ExitGuard::exiting())
    throw Error(Status::device_failed, "virtual devices do not work while the process exits");
}

std::unique_ptr<Execution> begin_run(Devices& devices, const Plan& plan) {
  devices.require_threads();
  try {
    return std::make_unique<HostExecution>(devices, plan);
  } catch (const std::bad_alloc&) {
    let_go(devices.memory, plan);
    throw Error(Status::no_memory, "the host cannot hold the queues of the plan");
  }
}

}  // namespace fleet::host
