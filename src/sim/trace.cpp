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

/// A time in which a device draws more than while it waits.
struct Work {
  double start_s, stop_s, watts;
};

/// Work of each device, from its kernels and from copies at either end.
std::vector<std::vector<Work>> work_of(const Plan& plan, const Machine& machine,
                                       const Trace& trace) {
  std::vector<std::vector<Work>> works(machine.devices.size());
  const auto add = [&](DeviceId device, const Span& span, double Watts::*kind) {
    const auto at = static_cast<std::size_t>(device);
    works.at(at).push_back({span.start_s, span.stop_s, machine.devices[at].watts.*kind});
  };
  for_each_done(plan, trace, [&](const Task& task, const Span& span) {
    if (task.kind == TaskKind::compute)
      return add(task.device(), span,
                 streams_memory(task.kernel) ? &Watts::stream : &Watts::multiply);
    const Link& link = machine.links.at(static_cast<std::size_t>(task.link));
    const auto kind =
        on_host(link.source) || on_host(link.target) ? &Watts::copy : &Watts::exchange;
    add(link.source, span, kind);
    add(link.target, span, kind);
  });
  return works;
}

/// Joules of a device that draws `wait` watts in between. The power above that is cut into layers:
/// each is drawn for as long as any work of at least its height goes on.
double joules_of(std::vector<Work> works, double wait, double seconds) {
  std::ranges::sort(works, {}, &Work::start_s);
  std::vector<double> heights;
  for (const Work& work : works)
    if (work.watts > wait && std::ranges::find(heights, work.watts) == heights.end())
      heights.push_back(work.watts);
  std::ranges::sort(heights);
  double joules = wait * seconds, below = wait;
  for (const double height : heights) {
    double layer_s = 0, until_s = 0;
    for (const Work& work : works) {
      if (work.watts < height) continue;
      layer_s += std::max(0.0, work.stop_s - std::max(work.start_s, until_s));
      until_s = std::max(until_s, work.stop_s);
    }
    joules += (height - below) * layer_s;
    below = height;
  }
  return joules;
}

void add_energy(Cost& cost, const Plan& plan, const Machine& machine, const Trace& trace) {
  std::vector<std::vector<Work>> works = work_of(plan, machine, trace);
  bool known = true, all_known = true;
  for (std::size_t d = kFirstDevice; d < works.size(); ++d) {
    const Watts& watts = machine.devices[d].watts;
    const bool takes_part = !works[d].empty();
    const double joules = takes_part ? joules_of(std::move(works[d]), watts.wait, cost.seconds)
                                     : watts.idle * cost.seconds;
    cost.devices += takes_part ? 1 : 0;
    if (takes_part) cost.joules += joules;
    cost.joules_node += joules;
    known = known && (watts.known() || !takes_part);
    all_known = all_known && watts.known();
  }
  const Watts& host = machine.devices[kHost].watts;
  cost.joules_node += joules_of(std::move(works[kHost]), host.wait, cost.seconds);
  if (!known) cost.joules = 0;
  if (!all_known) cost.joules_node = 0;
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
            .bytes_by_link = std::vector<std::int64_t>(machine.links.size(), 0)};
  for_each_done(plan, trace, [&](const Task& task, const Span&) {
    if (task.kind != TaskKind::compute)
      cost.bytes_by_link.at(static_cast<std::size_t>(task.link)) +=
          plan.program->moved_bytes_of(task.tile);
  });
  add_energy(cost, plan, machine, trace);
  return cost;
}

}  // namespace fleet
