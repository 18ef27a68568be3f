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

/// What a device does, in spans: all kernels are those of products and others.
struct Work {
  std::vector<Span> products, kernels, copies, exchanges;
  bool empty() const { return kernels.empty() && copies.empty() && exchanges.empty(); }
};

std::vector<Work> work_of(const Plan& plan, const Machine& machine, const Trace& trace) {
  std::vector<Work> works(machine.devices.size());
  for_each_done(plan, trace, [&](const Task& task, const Span& span) {
    if (task.kind == TaskKind::compute) {
      Work& work = works.at(static_cast<std::size_t>(task.device()));
      work.kernels.push_back(span);
      if (!streams_memory(task.kernel)) work.products.push_back(span);
      return;
    }
    const Link& link = machine.links.at(static_cast<std::size_t>(task.link));
    const bool with_host = on_host(link.source) || on_host(link.target);
    for (const DeviceId end : {link.source, link.target}) {
      Work& work = works.at(static_cast<std::size_t>(end));
      (with_host ? work.copies : work.exchanges).push_back(span);
    }
  });
  return works;
}

/// Joules of a device that takes part for `seconds`.
double joules_of(Work work, const Watts& watts, double seconds) {
  const double product_s = busy_s(work.products);
  const auto more = [&](double kind) { return std::max(0.0, kind - watts.wait); };
  return watts.wait * seconds + more(watts.multiply) * product_s +
         more(watts.stream) * (busy_s(std::move(work.kernels)) - product_s) +
         more(watts.copy) * busy_s(std::move(work.copies)) +
         more(watts.exchange) * busy_s(std::move(work.exchanges));
}

void add_energy(Cost& cost, const Plan& plan, const Machine& machine, const Trace& trace) {
  std::vector<Work> works = work_of(plan, machine, trace);
  const bool knows_watts = machine.knows_watts();
  for (std::size_t d = kFirstDevice; d < works.size(); ++d) {
    const Watts& watts = machine.devices[d].watts;
    const bool takes_part = !works[d].empty();
    cost.devices += takes_part ? 1 : 0;
    if (!knows_watts) continue;
    const double joules = takes_part ? joules_of(std::move(works[d]), watts, cost.seconds)
                                     : watts.idle * cost.seconds;
    if (takes_part) cost.joules += joules;
    cost.joules_node += joules;
  }
  if (!knows_watts) return;
  const Watts& host = machine.devices[kHost].watts;
  cost.joules += std::max(0.0, host.multiply - host.wait) * busy_s(works[kHost].products);
  cost.joules_node += joules_of(std::move(works[kHost]), host, cost.seconds);
}

}  // namespace

void leave_out_dependents(const Plan& plan, std::vector<Span>& spans) {
  std::vector<char> is_stopped(plan.queues.size(), 0);
  for (std::size_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& task = plan.tasks[id];
    const auto is_missing = [&](TaskId earlier) {
      return !spans[static_cast<std::size_t>(earlier)].done();
    };
    char& stopped = is_stopped[static_cast<std::size_t>(task.queue)];
    if (spans[id].done() &&
        (stopped != 0 || (task.upstream != kNoTask && is_missing(task.upstream)) ||
         std::ranges::any_of(plan.after(task), is_missing)))
      spans[id].stop_s = -1;
    if (!spans[id].done()) stopped = 1;
  }
}

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

std::vector<std::int64_t> moved_bytes(const Plan& plan, const Machine& machine,
                                      const Trace& trace) {
  std::vector<std::int64_t> bytes(machine.links.size(), 0);
  for_each_done(plan, trace, [&](const Task& task, const Span&) {
    if (task.kind != TaskKind::compute)
      bytes.at(static_cast<std::size_t>(task.link)) += plan.program->moved_bytes_of(task.tile);
  });
  return bytes;
}

Cost cost_of(const Plan& plan, const Machine& machine, const Trace& trace) {
  Cost cost{.source = trace.source,
            .seconds = trace.seconds,
            .bytes_by_link = moved_bytes(plan, machine, trace)};
  add_energy(cost, plan, machine, trace);
  return cost;
}

}  // namespace fleet
