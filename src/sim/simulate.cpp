// SPDX-License-Identifier: BSD-3-Clause
// simulate.cpp: computes when each task of a plan starts and stops: queues, `after` and upstream
// chunks are events; FairShare and KernelPool give the rates. It knows no routine, only task
// shapes.
#include "sim/simulate.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "plan/kernel_times.hpp"
#include "sim/copy_times.hpp"
#include "sim/fair_share.hpp"
#include "sim/kernel_pool.hpp"

namespace fleet {
namespace {

/// Events closer than this (relative to the clock) are simultaneous.
constexpr double kTogether = 1e-12;

constexpr int kNoQueue = -1;

/// The minimum of a fixed set of times that change one by one, kept as minima of blocks and of
/// blocks of blocks. Branches on a single time would be unpredictable, so there are none.
class EventTimes {
 public:
  explicit EventTimes(std::size_t count)
      : regions_(count / (kBlock * kBlock) + 1, kNever),
        blocks_(regions_.size() * kBlock, kNever),
        due_s_(blocks_.size() * kBlock, kNever) {}

  void set(std::size_t slot, double time_s) {
    due_s_[slot] = time_s;
    const std::size_t block = slot / kBlock, region = block / kBlock;
    blocks_[block] = least(&due_s_[block * kBlock]);
    regions_[region] = least(&blocks_[region * kBlock]);
  }
  double least_s() const {
    double least_s = kNever;
    for (const double region_s : regions_) least_s = std::min(least_s, region_s);
    return least_s;
  }

  /// Calls act(slot) for each slot due by `time_s`. `act` may change that slot only.
  template <typename Act>
  void for_each_due(double time_s, Act act) {
    for (std::size_t region = 0; region < regions_.size(); ++region) {
      if (regions_[region] > time_s) continue;
      for_each_due_in(blocks_, region, time_s,
                      [&](std::size_t block) { for_each_due_in(due_s_, block, time_s, act); });
    }
  }

 private:
  static constexpr std::size_t kBlock = 8;

  static double least(const double* t) {
    return std::min(std::min(std::min(t[0], t[1]), std::min(t[2], t[3])),
                    std::min(std::min(t[4], t[5]), std::min(t[6], t[7])));
  }

  template <typename Act>
  static void for_each_due_in(const std::vector<double>& times_s, std::size_t block, double time_s,
                              Act act) {
    unsigned due = 0;
    for (unsigned i = 0; i < kBlock; ++i)
      due |= static_cast<unsigned>(times_s[block * kBlock + i] <= time_s) << i;
    for (; due != 0; due &= due - 1)
      act(block * kBlock + static_cast<std::size_t>(std::countr_zero(due)));
  }

  std::vector<double> regions_, blocks_, due_s_;
};

/// Seconds of kernels: their work, and the delay before it.
class WorkTimes {
 public:
  WorkTimes(const Plan& plan, const Machine& machine)
      : program_(*plan.program), machine_(machine), times_(program_, machine, plan.tuning) {}

  double work_s(const Task& task) {
    const Device& device = machine_.devices[static_cast<std::size_t>(task.device())];
    if (task.kernel == Kernel::prepare) return device.prepare_s;
    const double whole_s = seconds(task);
    if (!std::isfinite(whole_s))
      throw Error(Status::unsupported, "device " + device.name + " of machine " + machine_.name +
                                           " has no rate for this type of kernel");
    const double work_s = std::max(0.0, whole_s - device.launch_s) * share_of(task);
    return streams(task)
               ? work_s
               : work_s + times_.few_rows_s(task.device(), program_.op(task.op), task.tile);
  }
  /// Seconds of the kernel in which the device can do other work at full speed.
  double delay_s(const Task& task) const {
    const Device& device = machine_.devices[static_cast<std::size_t>(task.device())];
    if (streams(task) || task.kernel == Kernel::prepare) return device.launch_s;
    return device.launch_s + times_.steps_s(task.device(), program_.op(task.op));
  }

 private:
  bool streams(const Task& task) const {
    return task.kernel == Kernel::add || task.kernel == Kernel::scale;
  }
  double seconds(const Task& task) {
    if (!streams(task)) return times_.whole_s(task.device(), program_.op(task.op), task.tile);
    // An add reads two tiles and writes one; the others read and write one.
    const std::int64_t times = task.kernel == Kernel::add ? 3 : 2;
    return machine_.stream_s(task.device(), times * program_.bytes_of(task.tile));
  }
  double share_of(const Task& task) const {
    return streams(task) ? program_.share_of(task.tile)
                         : times_.share(task.device(), program_.op(task.op), task.tile);
  }

  const TileProgram& program_;
  const Machine& machine_;
  KernelTimes times_;
};

class Simulation {
 public:
  Simulation(const Plan& plan, const Machine& machine);
  Trace run();
  std::int64_t rates_given() const { return share_.rates_given(); }

 private:
  struct QueueState {
    TaskId head = kNoTask;
    TaskId tail = kNoTask;     ///< while building: the last task so far
    std::int32_t checked = 0;  ///< the first `checked` entries of the head's `after` are finished
    int next_watcher = kNoQueue;
    bool running = false;
    double launched_s = kNever;  ///< when a kernel after its delay becomes a flow
  };
  struct TaskState {
    int queue = kNoQueue;
    TaskId next = kNoTask;           ///< next task of the same queue
    std::int32_t pieces_before = 0;  ///< kernels and chunks issued before this task
    int finish_watcher = kNoQueue;
    int chunk_watcher = kNoQueue;
  };

  const Task& task(TaskId id) const { return plan_.tasks[static_cast<std::size_t>(id)]; }
  TaskState& state(TaskId id) { return states_[static_cast<std::size_t>(id)]; }
  QueueState& queue(int id) { return queues_[static_cast<std::size_t>(id)]; }
  int queue_of(const Task& task) const;
  Span& span(TaskId id) { return trace_.spans[static_cast<std::size_t>(id)]; }
  std::size_t slot_of_kernels(DeviceId device) const {
    return queues_.size() + static_cast<std::size_t>(device);
  }
  bool has_own_clock(DeviceId device) const {
    return machine_.devices[static_cast<std::size_t>(device)].ports.empty();
  }

  void examine(int queue_id);
  bool upstream_allows(int queue_id, TaskId upstream);
  void start(int queue_id);
  void start_copy(int queue_id, const Task& task);
  void start_kernel(int queue_id, const Task& task);
  void start_kernel_flow(int queue_id);
  void finish(int queue_id);
  void wake(int& first_watcher);
  void settle();
  void happen(std::size_t slot);

  const Plan& plan_;
  const Machine& machine_;
  const std::vector<DeviceId> senders_;
  std::vector<QueueState> queues_;  ///< of the plan, then of each device that sends in turn
  std::vector<TaskState> states_;
  std::vector<KernelPool> pools_;  ///< one per device whose kernels share only that device
  std::vector<int> to_examine_;
  std::vector<DeviceId> touched_pools_;
  FairShare share_;
  EventTimes events_;
  WorkTimes kernel_times_;
  double now_s_ = 0;
  double horizon_s_ = 0;  ///< events due by then happen now
  std::size_t finished_ = 0;
  Trace trace_;
};

Simulation::Simulation(const Plan& plan, const Machine& machine)
    : plan_(plan),
      machine_(machine),
      senders_(senders(plan)),
      queues_(plan.queues.size() + (sends_in_turn(plan) ? machine.devices.size() : 0)),
      states_(plan.tasks.size()),
      pools_(machine.devices.size()),
      share_(machine, static_cast<int>(queues_.size())),
      events_(queues_.size() + machine.devices.size()),
      kernel_times_(plan, machine) {
  trace_.source = CostSource::simulated;
  trace_.spans.resize(plan.tasks.size());
  to_examine_.reserve(2 * queues_.size());
  touched_pools_.reserve(4 * queues_.size());
  std::int32_t pieces = 0;
  for (TaskId id = 0; id < static_cast<TaskId>(plan.tasks.size()); ++id) {
    if (task(id).link >= static_cast<LinkId>(machine.links.size()) ||
        task(id).device() >= static_cast<DeviceId>(machine.devices.size()))
      throw Error(Status::internal, "the plan is not made for machine " + machine.name);
    const int in = state(id).queue = queue_of(task(id));
    if (in >= static_cast<int>(queues_.size()))
      throw Error(Status::internal, "the plan is not made for machine " + machine.name);
    QueueState& q = queue(in);
    (q.tail == kNoTask ? q.head : state(q.tail).next) = id;
    q.tail = id;
    state(id).pieces_before = pieces;
    pieces += task(id).chunks;
  }
}

/// What a device sends in turn goes through one queue, in the order of the plan.
int Simulation::queue_of(const Task& task) const {
  const DeviceId sender = senders_[static_cast<std::size_t>(task.queue)];
  return sender < 0 ? task.queue : static_cast<int>(plan_.queues.size()) + sender;
}

Trace Simulation::run() {
  for (int q = static_cast<int>(queues_.size()); q-- > 0;) to_examine_.push_back(q);
  while (true) {
    while (!to_examine_.empty()) {
      const int q = to_examine_.back();
      to_examine_.pop_back();
      examine(q);
    }
    settle();
    const double next_s = events_.least_s();
    if (next_s == kNever) break;
    now_s_ = std::max(now_s_, next_s);
    horizon_s_ = now_s_ * (1 + kTogether);
    events_.for_each_due(horizon_s_, [this](std::size_t slot) { happen(slot); });
  }
  if (finished_ != plan_.tasks.size())
    throw Error(Status::internal, "a plan with a cycle of dependencies cannot be simulated");
  trace_.seconds = now_s_;
  return std::move(trace_);
}

/// Starts the head of an idle queue, or makes the queue watch one task that the head waits for.
void Simulation::examine(int id) {
  QueueState& q = queue(id);
  if (q.running || q.head == kNoTask) return;
  const Task& head = task(q.head);
  const std::span<const TaskId> after = plan_.after(head);
  for (; q.checked < head.after_count; ++q.checked) {
    const TaskId before = after[static_cast<std::size_t>(q.checked)];
    if (span(before).done()) continue;
    q.next_watcher = state(before).finish_watcher;
    state(before).finish_watcher = id;
    return;
  }
  if (head.upstream != kNoTask && !upstream_allows(id, head.upstream)) return;
  const double issued_s = state(q.head).pieces_before * machine_.issue_s;
  if (issued_s > horizon_s_)
    events_.set(static_cast<std::size_t>(id), issued_s);
  else
    start(id);
}

bool Simulation::upstream_allows(int id, TaskId upstream) {
  if (span(upstream).done()) return true;
  const int hop = state(upstream).queue;
  const bool under_way = queue(hop).running && queue(hop).head == upstream;
  if (under_way && share_.first_chunk_arrived(hop, now_s_)) return true;
  queue(id).next_watcher = state(upstream).chunk_watcher;
  state(upstream).chunk_watcher = id;
  if (under_way) share_.announce(hop, now_s_);
  return false;
}

void Simulation::start(int id) {
  QueueState& q = queue(id);
  q.running = true;
  span(q.head).start_s = now_s_;
  const Task& head = task(q.head);
  if (head.kind == TaskKind::compute)
    start_kernel(id, head);
  else
    start_copy(id, head);
}

/// Latency lowers the rate of a copy instead of preceding it. The time of a copy alone is the same,
/// and in a busy queue its latency hides behind the data of others at the shared ports.
void Simulation::start_copy(int id, const Task& copy) {
  const LoneCopy lone = lone_copy(plan_, machine_, copy);
  const double chunk = lone.bytes / copy.chunks;
  const double latency_s = lone.latency_s / copy.chunks;
  const double alone_s = latency_s + chunk / lone.rate;
  const FlowId upstream =
      copy.upstream == kNoTask || span(copy.upstream).done() ? kNoFlow : state(copy.upstream).queue;
  share_.start(id,
               {.user = share_.user_of_link(copy.link),
                .amount = lone.bytes,
                .cap = latency_s > 0 ? chunk / alone_s : lone.rate,
                .chunk = chunk},
               upstream, now_s_);
  if (state(queue(id).head).chunk_watcher != kNoQueue) share_.announce(id, now_s_);
}

void Simulation::start_kernel(int id, const Task& kernel) {
  const DeviceId device = kernel.device();
  const double delay_s = kernel_times_.delay_s(kernel);
  if (has_own_clock(device)) {
    pools_[static_cast<std::size_t>(device)].start(id, delay_s, kernel_times_.work_s(kernel),
                                                   now_s_);
    touched_pools_.push_back(device);
  } else if (delay_s > 0) {
    queue(id).launched_s = now_s_ + delay_s;
    events_.set(static_cast<std::size_t>(id), queue(id).launched_s);
  } else {
    start_kernel_flow(id);
  }
}

void Simulation::start_kernel_flow(int id) {
  const Task& kernel = task(queue(id).head);
  queue(id).launched_s = kNever;
  share_.start(id,
               {.user = share_.user_of_kernels(kernel.device()),
                .amount = kernel_times_.work_s(kernel),
                .cap = 1},
               kNoFlow, now_s_);
}

void Simulation::finish(int id) {
  QueueState& q = queue(id);
  const TaskId done = q.head;
  span(done).stop_s = now_s_;
  ++finished_;
  q.running = false;
  q.head = state(done).next;
  q.checked = 0;
  to_examine_.push_back(id);
  wake(state(done).finish_watcher);
  wake(state(done).chunk_watcher);
}

void Simulation::wake(int& first_watcher) {
  for (int q = first_watcher; q != kNoQueue; q = queue(q).next_watcher) to_examine_.push_back(q);
  first_watcher = kNoQueue;
}

/// Updates the times of the next events after tasks have started and stopped.
void Simulation::settle() {
  for (const FlowId flow : share_.settle(now_s_))
    events_.set(static_cast<std::size_t>(flow), share_.next_event_s(flow));
  for (const DeviceId device : touched_pools_)
    events_.set(slot_of_kernels(device), pools_[static_cast<std::size_t>(device)].next_event_s());
  touched_pools_.clear();
}

void Simulation::happen(std::size_t slot) {
  if (slot >= queues_.size()) {
    const auto device = slot - queues_.size();
    for (int q = pools_[device].take_finished(now_s_); q != KernelPool::kNone;
         q = pools_[device].take_finished(now_s_))
      finish(q);
    touched_pools_.push_back(static_cast<DeviceId>(device));
    return;
  }
  const int id = static_cast<int>(slot);
  events_.set(slot, kNever);
  if (!queue(id).running) {  // its head has been issued
    to_examine_.push_back(id);
    return;
  }
  if (queue(id).launched_s <= horizon_s_) {
    start_kernel_flow(id);
    return;
  }
  for (auto event = share_.take_event(id, horizon_s_); event != FairShare::Event::none;
       event = share_.take_event(id, horizon_s_)) {
    if (event == FairShare::Event::chunk_arrived) {
      wake(state(queue(id).head).chunk_watcher);
      continue;
    }
    share_.stop(id);
    finish(id);
  }
  if (queue(id).running) events_.set(slot, share_.next_event_s(id));
}

}  // namespace

Trace simulate(const Plan& plan, const Machine& machine, std::int64_t* rates_given) {
  Simulation simulation(plan, machine);
  Trace trace = simulation.run();
  if (rates_given != nullptr) *rates_given = simulation.rates_given();
  return trace;
}

Cost predicted(const Plan& plan, const Machine& machine) {
  Cost cost = cost_of(plan, machine, simulate(plan, machine));
  cost.source = CostSource::predicted;
  return cost;
}

}  // namespace fleet
