// SPDX-License-Identifier: BSD-3-Clause
// cpu_beside.cpp: hands each task to the devices or to the CPU's lane, and puts their traces
// together. It must not know how plans are made.
#include "backend/cpu_beside.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"

namespace fleet {
namespace {

bool is_cpus(const Task& task) { return task.kind == TaskKind::compute && on_host(task.device()); }

/// The kernels of the CPU in a plan. Throws Error(internal) if they wait, or are waited for.
std::size_t count_cpus(const Plan& plan) {
  std::size_t count = 0;
  for (const Task& task : plan.tasks) {
    count += is_cpus(task) ? 1 : 0;
    for (const TaskId earlier : plan.after(task))
      if (is_cpus(task) || is_cpus(plan.tasks[static_cast<std::size_t>(earlier)]))
        throw Error(Status::internal, "the CPU's part of a plan waits for another");
  }
  return count;
}

class BesideCpu final : public Execution {
 public:
  BesideCpu(const Plan& plan, std::unique_ptr<Execution> devices, CpuLane& lane)
      : plan_(plan), devices_(std::move(devices)), lane_(lane) {}

  ~BesideCpu() override {
    devices_.reset();  // waits
    lane_.finish();
  }

  bool is_whole() const override { return devices_->is_whole(); }
  void* slot(const Where& where) override { return devices_->slot(where); }
  void copy(TaskId id, const View& from, const View& to) override { devices_->copy(id, from, to); }

  void launch(TaskId id, const Launch& launch) override {
    if (!is_cpus(plan_.tasks[static_cast<std::size_t>(id)])) return devices_->launch(id, launch);
    const Launch nothing{.kernel = Kernel::scale, .beta = 1.0};
    devices_->launch(id, nothing);
    lane_.push(launch);
  }

  Trace finish() override {
    Trace trace = devices_->finish();
    const double devices_done_s = now_s();
    const CpuLane::Done done = lane_.finish();
    trace.seconds += now_s() - devices_done_s;
    const bool is_first_fault = done.failed && trace.status == Status::ok;
    if (is_first_fault) {
      trace.status = Status::device_failed;
      trace.message = done.failure;
    }
    std::size_t at = 0;
    for (std::size_t id = 0; id < trace.spans.size(); ++id) {
      if (!is_cpus(plan_.tasks[id])) continue;
      const Span& span = trace.spans[id] = done.spans[at++];
      if (is_first_fault && span.start_s >= 0 && !span.done())
        trace.failed = static_cast<TaskId>(id);
    }
    return trace;
  }

 private:
  const Plan& plan_;
  std::unique_ptr<Execution> devices_;
  CpuLane& lane_;
};

}  // namespace

std::unique_ptr<Execution> beside_cpu(const Plan& plan, std::unique_ptr<Execution> devices,
                                      CpuLane& lane, int threads) {
  const std::size_t kernels = count_cpus(plan);
  auto run = std::make_unique<BesideCpu>(plan, std::move(devices), lane);
  lane.begin(kernels, threads);
  return run;
}

}  // namespace fleet
