// SPDX-License-Identifier: BSD-3-Clause
// hand_plan.hpp: machines and plans made by hand for tests of the simulator and the trace. It knows
// no planner: only the order of tasks matters here, their results are meaningless.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "plan/plan.hpp"

namespace fleet::test {

/// A machine whose devices compute `elements_per_s` elements of C per second, per column of A.
class HandMachine {
 public:
  explicit HandMachine(int devices, double elements_per_s = 1) {
    machine_.name = "by hand";
    for (int d = 0; d < kFirstDevice + devices; ++d) {
      Device device{.name = d == kHost       ? "host"
                            : d == kPageable ? "pageable"
                                             : std::to_string(d - kFirstDevice),
                    .memory_bytes = 1 << 30,
                    .memory_bytes_per_s = 8,
                    .kernels = {},
                    .ports = {}};
      if (!on_host(d)) device.kernels = {{DataType::f64, 1, 2 * elements_per_s}};
      machine_.devices.push_back(device);
    }
  }

  PortId port(double elements_per_s, const std::string& name = "port") {
    machine_.ports.push_back({name, 8 * elements_per_s});
    return static_cast<PortId>(machine_.ports.size() - 1);
  }
  LinkId link(DeviceId source, DeviceId target, double elements_per_s,
              std::vector<PortShare> ports = {}, double latency_s = 0) {
    machine_.links.push_back({.source = source,
                              .target = target,
                              .latency_s = latency_s,
                              .bytes_per_s = 8 * elements_per_s,
                              .ports = std::move(ports)});
    return static_cast<LinkId>(machine_.links.size() - 1);
  }
  Machine& get() { return machine_; }

 private:
  Machine machine_;
};

/// A plan built task by task. Tile i has `sizes[i]` elements of 8 bytes; every link and lane has
/// its queue.
class HandPlan {
 public:
  HandPlan(const Machine& machine, const std::vector<std::int64_t>& sizes) : machine_(machine) {
    Cuts cuts = {0};
    for (const std::int64_t size : sizes) cuts.push_back(cuts.back() + size);
    plan_.program = std::make_shared<const TileProgram>(
        expand(make_problem({.m = cuts.back(), .n = 1, .k = 1}), {cuts, {0, 1}, {0, 1}}));
    // Every device has a slot for each tile.
    std::vector<Slot> slots;
    for (std::size_t tile = 0; tile < sizes.size(); ++tile)
      slots.push_back({8 * cuts[tile], 8 * sizes[tile]});
    plan_.slots.assign(machine.devices.size(), slots);
    plan_.arena_bytes.assign(machine.devices.size(), 8 * cuts.back());
  }

  /// The sources of copies between devices send them in turn.
  void send_in_turn() { sends_in_turn_ = true; }

  struct Copy {
    LinkId link = 0;
    int tile = 0;
    std::vector<TaskId> after = {};
    int chunks = 1;
    TaskId upstream = kNoTask;
  };
  TaskId copy(const Copy& copy) {
    const Link& link = machine_.links[static_cast<std::size_t>(copy.link)];
    Task task{.kind = link.target == kHost ? TaskKind::writeback : TaskKind::fetch,
              .chunks = static_cast<std::uint8_t>(copy.chunks),
              .queue = queue(
                  {.kind = Queue::Kind::link,
                   .device = link.target,
                   .source = link.source,
                   .in_turn = sends_in_turn_ && !on_host(link.target) && !on_host(link.source)}),
              .link = copy.link,
              .upstream = copy.upstream,
              .tile = {kA, copy.tile, 0},
              .from = {link.source, on_host(link.source) ? -1 : copy.tile},
              .to = {link.target, on_host(link.target) ? -1 : copy.tile}};
    return add(task, copy.after);
  }

  struct Compute {
    DeviceId device = kFirstDevice;
    int tile = 0;
    int lane = 0;
    std::vector<TaskId> after = {};
    Kernel kernel = Kernel::multiply;
    Queue::Kind queue = Queue::Kind::lane;
  };
  TaskId compute(const Compute& compute) {
    Task task{.kind = TaskKind::compute,
              .kernel = compute.kernel,
              .queue = queue({compute.queue, compute.device, kHost, compute.lane}),
              .tile = {kC, compute.tile, 0},
              .from = {},
              .to = {compute.device, compute.tile},
              .op = compute.tile};
    return add(task, compute.after);
  }

  void set_workers(const std::vector<DeviceId>& workers) {
    plan_.tuning.workers = workers;
    plan_.tuning.grid = {1, static_cast<int>(workers.size())};
  }
  /// Access to a task, to change what the functions above do not set.
  Task& task(TaskId id) { return plan_.tasks[static_cast<std::size_t>(id)]; }
  const Plan& get() const { return plan_; }

 private:
  QueueId queue(const Queue& wanted) {
    for (std::size_t q = 0; q < plan_.queues.size(); ++q)
      if (plan_.queues[q] == wanted) return static_cast<QueueId>(q);
    plan_.queues.push_back(wanted);
    return static_cast<QueueId>(plan_.queues.size() - 1);
  }
  TaskId add(Task task, const std::vector<TaskId>& after) {
    task.after_begin = static_cast<std::int32_t>(plan_.after_pool.size());
    task.after_count = static_cast<std::int32_t>(after.size());
    plan_.after_pool.insert(plan_.after_pool.end(), after.begin(), after.end());
    plan_.tasks.push_back(task);
    return static_cast<TaskId>(plan_.tasks.size() - 1);
  }

  const Machine& machine_;
  bool sends_in_turn_ = false;
  Plan plan_;
};

}  // namespace fleet::test
