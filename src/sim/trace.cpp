// SPDX-License-Identifier: BSD-3-Clause
// trace.cpp: the cost of a run, and names of tasks and queues. It knows no clock.
#include "sim/trace.hpp"

#include <algorithm>

#include "sim/busy_time.hpp"

namespace fleet {
namespace {

/// Calls act(task, span) for each completed task.
template <typename Act>
void for_each_done(const Plan& plan, const Trace& trace, Act act) {
  const std::size_t count = std::min(plan.tasks.size(), trace.spans.size());
  for (std::size_t t = 0; t < count; ++t)
    if (trace.spans[t].done()) act(plan.tasks[t], trace.spans[t]);
}

/// 0 if the watts of a device that worked are unknown.
double joules_of(const Machine& machine, const std::vector<std::vector<Span>>& kernels,
                 double seconds) {
  double joules = 0;
  for (std::size_t d = 0; d < machine.devices.size(); ++d) {
    const Device& device = machine.devices[d];
    const double working_s = busy_s(kernels[d]);
    if (working_s > 0 && device.busy_watts <= 0) return 0;
    joules += device.busy_watts * working_s + device.idle_watts * (seconds - working_s);
  }
  return joules;
}

}  // namespace

const char* to_string(CostSource source) {
  switch (source) {
    case CostSource::predicted:
      return "predicted";
    case CostSource::simulated:
      return "simulated";
    case CostSource::measured:
      return "measured";
  }
  return "unknown";
}

double busy_s(std::vector<Span> spans) {
  std::ranges::sort(spans, {}, &Span::start_s);
  double busy = 0, until_s = 0;
  for (const Span& span : spans) {
    if (!span.done()) continue;
    busy += std::max(0.0, span.stop_s - std::max(span.start_s, until_s));
    until_s = std::max(until_s, span.stop_s);
  }
  return busy;
}

std::vector<std::vector<Span>> kernel_spans(const Plan& plan, const Machine& machine,
                                            const Trace& trace) {
  std::vector<std::vector<Span>> spans(machine.devices.size());
  for_each_done(plan, trace, [&](const Task& task, const Span& span) {
    if (task.kind == TaskKind::compute)
      spans.at(static_cast<std::size_t>(task.device())).push_back(span);
  });
  return spans;
}

std::vector<std::vector<Span>> copy_spans(const Plan& plan, const Machine& machine,
                                          const Trace& trace) {
  std::vector<std::vector<Span>> spans(machine.links.size());
  for_each_done(plan, trace, [&](const Task& task, const Span& span) {
    if (task.kind != TaskKind::compute)
      spans.at(static_cast<std::size_t>(task.link)).push_back(span);
  });
  return spans;
}

Cost cost_of(const Plan& plan, const Machine& machine, const Trace& trace) {
  Cost cost{.source = trace.source,
            .seconds = trace.seconds,
            .joules = joules_of(machine, kernel_spans(plan, machine, trace), trace.seconds),
            .bytes_by_link = std::vector<std::int64_t>(machine.links.size(), 0)};
  for_each_done(plan, trace, [&](const Task& task, const Span&) {
    if (task.kind != TaskKind::compute)
      cost.bytes_by_link.at(static_cast<std::size_t>(task.link)) +=
          plan.program->moved_bytes_of(task.tile);
  });
  return cost;
}

}  // namespace fleet
