// SPDX-License-Identifier: BSD-3-Clause
// trace_json.cpp: the timeline of a run as Chrome trace events, with what the run did and how near
// it came to the bound under "fleetblas". It must not know how the run was timed.
#include <nlohmann/json.hpp>

#include "machine/corrections.hpp"
#include "plan/bound.hpp"
#include "sim/busy_time.hpp"
#include "sim/trace.hpp"

namespace fleet {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMicroseconds = 1e6;

const std::string& name_of(const Machine& machine, DeviceId device) {
  return machine.devices.at(static_cast<std::size_t>(device)).name;
}

const char* category_of(TaskKind kind) {
  switch (kind) {
    case TaskKind::fetch:
      return "fetch";
    case TaskKind::compute:
      return "compute";
    case TaskKind::writeback:
      return "writeback";
  }
  return "unknown";
}

const char* kind_of(const Queue& queue) {
  switch (queue.kind) {
    case Queue::Kind::link:
      return "link";
    case Queue::Kind::lane:
      return "lane";
    case Queue::Kind::device:
      return "device";
  }
  return "unknown";
}

/// "A(0,1)"; with items of a batch "A[3](0,1)". Of a factorization: "strip 2", "panel 2", "outcome
/// 2".
std::string tile_name(const Plan& plan, const TileId& tile) {
  if (const auto& strips = plan.program->strips) {
    const int id = tile.matrix, count = strips->count();
    if (id < count) return "strip " + std::to_string(id);
    const bool is_panel = id < count + strips->panels;
    return is_panel ? "panel " + std::to_string(id - count)
                    : "outcome " + std::to_string(id - count - strips->panels);
  }
  const Matrix& matrix = plan.program->matrix_of(tile);
  const int rows = std::max(1, matrix.tile_rows());
  std::string name(1, static_cast<char>('A' + tile.matrix));
  if (matrix.items > 1) name += "[" + std::to_string(tile.row / rows) + "]";
  return name + "(" + std::to_string(tile.row % rows) + "," + std::to_string(tile.col) + ")";
}

/// The place of a product among the ops of its tile. Steps that a triangle leaves out do not count,
/// as in other texts.
int step_of(const Plan& plan, const Task& task) {
  const auto chain =
      std::ranges::upper_bound(plan.program->chains, task.op, {}, &OpChain::first) - 1;
  return task.op - chain->first;
}

}  // namespace

std::string task_name(const Plan& plan, const Task& task) {
  const std::string tile = tile_name(plan, task.tile);
  if (task.kind != TaskKind::compute) return tile;
  switch (task.kernel) {
    case Kernel::multiply:
    case Kernel::gemv:
    case Kernel::axpy:
    case Kernel::dot:
      return tile + " k=" + std::to_string(step_of(plan, task));
    case Kernel::add:
      return tile + " add";
    case Kernel::scale:
      return tile + " scale";
    case Kernel::solve:
      return tile + " solve";
    case Kernel::prepare:
      return tile + " prepare";
    default:
      return tile + " " + to_string(task.kernel) + " " +
             tile_name(plan, plan.program->op(task.op).inputs[0].tile);
  }
  return tile;
}

std::string queue_name(const Machine& machine, const Queue& queue) {
  const std::string& device = name_of(machine, queue.device);
  switch (queue.kind) {
    case Queue::Kind::link:
      return name_of(machine, queue.source) + "->" + device;
    case Queue::Kind::lane:
      return device + " lane " + std::to_string(queue.lane);
    case Queue::Kind::device:
      return device;
  }
  return device;
}

namespace {

/// Of the queues of a link, those of what its source sends.
const char* what(Sent sent) {
  switch (sent) {
    case Sent::inputs:
      return " sent";
    case Sent::passed:
      return " passed on";
    case Sent::results:
      return " results";
  }
  return "";
}

/// As queue_name(), and what the queue is for where the link has several.
std::string lane_name(const Plan& plan, const Machine& machine, const Queue& queue) {
  const auto of_link = [&](const Queue& other) {
    return other.kind == Queue::Kind::link && other.device == queue.device &&
           other.source == queue.source;
  };
  std::string name = queue_name(machine, queue);
  if (queue.in_turn && std::ranges::count_if(plan.queues, of_link) > 1) name += what(queue.sent);
  return name;
}

Json metadata(const char* what, int pid, int tid, Json arguments) {
  return {{"ph", "M"}, {"name", what}, {"pid", pid}, {"tid", tid}, {"args", std::move(arguments)}};
}

/// Flops of a product or a solution; 0 for kernels that only stream.
double flops_of(const Plan& plan, const Task& task) {
  const bool is_counted = is_product(task.kernel) || task.kernel == Kernel::solve ||
                          task.kernel == Kernel::update || task.kernel == Kernel::factor;
  if (task.kind != TaskKind::compute || !is_counted) return 0;
  const TileProgram& program = *plan.program;
  return (is_complex(program.matrix_of(task.tile).storage) ? 8.0 : 2.0) *
         program.multiply_adds_of(program.op(task.op), task.tile);
}

Json event_of(const Plan& plan, const Machine& machine, TaskId id, const Span& span) {
  const Task& task = plan.tasks[static_cast<std::size_t>(id)];
  Json arguments = {{"tile", tile_name(plan, task.tile)}, {"task", id}};
  if (const double count = flops_of(plan, task); count > 0) arguments["flops"] = count;
  if (task.kind != TaskKind::compute) {
    arguments["bytes"] = plan.program->moved_bytes_of(task.tile);
    arguments["link"] = link_name(machine, task.link);
    arguments["chunks"] = task.chunks;
    if (task.upstream != kNoTask) arguments["upstream"] = task.upstream;
  }
  return {{"ph", "X"},
          {"name", task_name(plan, task)},
          {"cat", category_of(task.kind)},
          {"pid", plan.queues.at(static_cast<std::size_t>(task.queue)).device},
          {"tid", task.queue},
          {"ts", span.start_s * kMicroseconds},
          {"dur", (span.stop_s - span.start_s) * kMicroseconds},
          {"args", std::move(arguments)}};
}

std::vector<bool> used_queues(const Plan& plan) {
  std::vector<bool> used(plan.queues.size(), false);
  for (const Task& task : plan.tasks) used.at(static_cast<std::size_t>(task.queue)) = true;
  return used;
}

Json events(const Plan& plan, const Machine& machine, const Trace& trace) {
  Json all = Json::array();
  const std::vector<bool> used = used_queues(plan);
  std::vector<bool> device_named(machine.devices.size(), false);
  for (std::size_t q = 0; q < used.size(); ++q) {
    if (!used[q]) continue;
    const Queue& queue = plan.queues[q];
    const int tid = static_cast<int>(q);
    if (!device_named.at(static_cast<std::size_t>(queue.device))) {
      device_named[static_cast<std::size_t>(queue.device)] = true;
      const std::string& device = name_of(machine, queue.device);
      all.push_back(metadata("process_name", queue.device, 0,
                             {{"name", on_host(queue.device) ? device : "device " + device}}));
      all.push_back(
          metadata("process_sort_index", queue.device, 0, {{"sort_index", queue.device}}));
    }
    all.push_back(
        metadata("thread_name", queue.device, tid, {{"name", lane_name(plan, machine, queue)}}));
    all.push_back(metadata("thread_sort_index", queue.device, tid, {{"sort_index", tid}}));
  }
  for (std::size_t t = 0; t < std::min(plan.tasks.size(), trace.spans.size()); ++t)
    if (trace.spans[t].done())
      all.push_back(event_of(plan, machine, static_cast<TaskId>(t), trace.spans[t]));
  return all;
}

/// The names that INTERFACE gives to devices: user-facing numbers, -1 for the host alone. The CPU
/// beside devices is none of them, as in plans.
Json worker_ids(const Plan& plan) {
  Json ids = Json::array();
  for (const DeviceId worker : plan.tuning.workers)
    if (!plan.tuning.has_cpu() || !on_host(worker))
      ids.push_back(on_host(worker) ? -1 : worker - kFirstDevice);
  return ids;
}

Json queue_list(const Plan& plan, const Machine& machine) {
  Json list = Json::array();
  const std::vector<bool> used = used_queues(plan);
  for (std::size_t q = 0; q < used.size(); ++q) {
    if (!used[q]) continue;
    const Queue& queue = plan.queues[q];
    Json entry = {{"tid", q},
                  {"pid", queue.device},
                  {"name", lane_name(plan, machine, queue)},
                  {"kind", kind_of(queue)},
                  {"device", name_of(machine, queue.device)}};
    if (queue.kind == Queue::Kind::link) entry["source"] = name_of(machine, queue.source);
    list.push_back(std::move(entry));
  }
  return list;
}

/// Only devices that computed, and links that carried something.
Json busy_seconds(const Plan& plan, const Machine& machine, const Trace& trace) {
  Json devices = Json::object(), links = Json::object();
  const auto kernels = kernel_spans(plan, machine, trace);
  for (std::size_t d = 0; d < kernels.size(); ++d)
    if (!kernels[d].empty()) devices[machine.devices[d].name] = busy_s(kernels[d]);
  const auto copies = copy_spans(plan, machine, trace);
  for (std::size_t l = 0; l < copies.size(); ++l)
    if (!copies[l].empty()) links[link_name(machine, static_cast<LinkId>(l))] = busy_s(copies[l]);
  return {{"devices", std::move(devices)}, {"links", std::move(links)}};
}

Json bytes_of_links(const Machine& machine, const Cost& cost) {
  Json bytes = Json::object();
  for (std::size_t l = 0; l < cost.bytes_by_link.size(); ++l)
    if (cost.bytes_by_link[l] > 0)
      bytes[link_name(machine, static_cast<LinkId>(l))] = cost.bytes_by_link[l];
  return bytes;
}

Json summary(const Plan& plan, const Machine& machine, const Trace& trace) {
  const Bound least = bound(*plan.program, at_best(machine), plan.tuning.cpu_part);
  const Cost cost = cost_of(plan, machine, trace);
  std::size_t unfinished = plan.tasks.size();
  for (const Span& span : trace.spans) unfinished -= span.done() ? 1 : 0;
  std::string problems;
  double all_flops = 0;
  for (const ProgramCall& call : plan.program->calls) {
    problems += (problems.empty() ? "" : "; ") + to_text(call.problem);
    all_flops += flops(call.problem);
  }
  if (const auto& strips = plan.program->strips) {
    problems = to_text(strips->what);
    all_flops = flops(strips->what);
  }
  Json result = {{"problem", problems},
                 {"machine", machine.name},
                 {"source", to_string(trace.source)},
                 {"status", to_string(trace.status)},
                 {"seconds", trace.seconds},
                 {"bound_s", least.seconds},
                 {"limited_by", least.limited_by},
                 {"flops", all_flops},
                 {"workers", worker_ids(plan)},
                 {"cpu_share", cpu_share(plan)},
                 {"grid", {plan.tuning.grid.rows, plan.tuning.grid.cols}},
                 {"tile", plan.tuning.tile},
                 {"chunks", plan.tuning.chunks},
                 {"rules", to_string(plan.tuning.rules)},
                 {"out_of_core", to_string(plan.tuning.out_of_core)},
                 {"tasks", plan.tasks.size()},
                 {"unfinished_tasks", unfinished},
                 {"bytes_by_link", bytes_of_links(machine, cost)},
                 {"busy_s", busy_seconds(plan, machine, trace)},
                 {"queues", queue_list(plan, machine)}};
  if (cost.joules > 0) result["joules"] = cost.joules;
  if (cost.joules_node > 0) result["joules_node"] = cost.joules_node;
  if (trace.status != Status::ok) result["message"] = trace.message;
  if (trace.failed != kNoTask) result["failed_task"] = trace.failed;
  return result;
}

}  // namespace

std::string chrome_trace_json(const Plan& plan, const Machine& machine, const Trace& trace) {
  const Json page = {{"displayTimeUnit", "ms"},
                     {"traceEvents", events(plan, machine, trace)},
                     {"fleetblas", summary(plan, machine, trace)}};
  // A message may quote anything: bytes that are not UTF-8 must not cost the timeline.
  return page.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace fleet
