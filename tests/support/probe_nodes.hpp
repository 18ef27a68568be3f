// SPDX-License-Identifier: BSD-3-Clause
// probe_nodes.hpp: simulated machines for tests of probes: random machines, machines disguised as
// others, and differences between machines. It knows no probe.
#pragma once
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "backend/sim/backend.hpp"
#include "support/wrapped_backend.hpp"

namespace fleet::test {

/// Names two unordered tasks of which one writes what the other accesses; "" if there are none.
inline std::string unordered_conflict(const Plan& plan) {
  struct Use {
    TaskId task;
    bool writes;
  };
  using Place = std::tuple<Where, TileId>;
  std::map<Place, std::vector<Use>> uses;
  std::vector<std::vector<bool>> behind(plan.tasks.size());
  std::vector<TaskId> last(plan.queues.size(), kNoTask);
  for (TaskId t = 0; t < static_cast<TaskId>(plan.tasks.size()); ++t) {
    const Task& task = plan.tasks[static_cast<std::size_t>(t)];
    std::vector<bool>& before = behind[static_cast<std::size_t>(t)];
    before.assign(static_cast<std::size_t>(t), false);
    const auto follow = [&](TaskId earlier) {
      if (earlier == kNoTask) return;
      const std::vector<bool>& more = behind[static_cast<std::size_t>(earlier)];
      for (std::size_t i = 0; i < more.size(); ++i) before[i] = before[i] || more[i];
      before[static_cast<std::size_t>(earlier)] = true;
    };
    follow(std::exchange(last[static_cast<std::size_t>(task.queue)], t));
    for (const TaskId earlier : plan.after(task)) follow(earlier);

    const auto use = [&](const Where& where, const TileId& tile, bool writes) -> std::string {
      std::vector<Use>& here = uses[{where, where.in_place() ? tile : TileId{0, 0, 0}}];
      for (const Use& other : here)
        if ((writes || other.writes) && other.task != t &&
            !before[static_cast<std::size_t>(other.task)])
          return "tasks " + std::to_string(other.task) + " and " + std::to_string(t);
      here.push_back({t, writes});
      return "";
    };
    std::vector<std::string> found = {use(task.to, task.tile, true)};
    if (task.kind == TaskKind::compute)
      for (std::size_t i = 0; i < task.inputs.size(); ++i)
        found.push_back(use(task.inputs[i], plan.program->op(task.op).inputs[i].tile, false));
    else
      found.push_back(use(task.from, task.tile, false));
    for (const std::string& one : found)
      if (!one.empty()) return one;
  }
  return "";
}

/// Runs as `real` but describes itself as `said`: the same shape with other numbers.
class Disguise : public WrappedBackend {
 public:
  Disguise(const Machine& real, Machine said)
      : WrappedBackend(make_sim_backend(real)), said_(std::move(said)) {}

  const Machine& machine() const override { return said_; }
  std::unique_ptr<Execution> begin(const Plan& plan, const Binding& binding,
                                   std::uint64_t serial) override {
    if (conflict.empty()) conflict = unordered_conflict(plan);
    auto run = WrappedBackend::begin(plan, binding, serial);
    ++runs;
    if (!times_kept) ++runs_without_times;
    if (runs == failing_run) return std::make_unique<Failing>(std::move(run));
    return run;
  }
  void keep_times(bool wanted) override { times_kept = wanted; }

  int runs = 0;
  int runs_without_times = 0;
  bool times_kept = false;
  int failing_run = -1;
  std::string conflict;  ///< the first conflict in any plan

 private:
  struct Failing final : WrappedExecution {
    using WrappedExecution::WrappedExecution;
    Trace finish() override {
      Trace trace = WrappedExecution::finish();
      trace.status = Status::device_failed;
      trace.message = "on purpose";
      return trace;
    }
  };
  Machine said_;
};

/// The machine without its ports.
inline Machine stripped(Machine machine) {
  machine.ports.clear();
  for (Link& link : machine.links) link.ports.clear();
  for (Device& device : machine.devices) device.ports.clear();
  return machine;
}

/// The machine with placeholder rates and capacities. Weights stay, except those of CPU threads,
/// which follow the rates.
inline Machine forgotten(Machine machine) {
  machine.issue_s = 1;
  for (Port& port : machine.ports)
    if (port.name.find("thread") == port.name.npos && port.name != "cores") port.capacity = 1;
  for (Link& link : machine.links) {
    for (PortShare& share : link.ports)
      if (std::abs(share.weight * link.bytes_per_s - 1) < 1e-9) share.weight = 1 / 1e9;
    link.latency_s = 1;
    link.bytes_per_s = 1e9;
    link.columns.clear();
    link.near_columns.clear();
  }
  for (std::size_t d = kFirstDevice; d < machine.devices.size(); ++d) {
    machine.devices[d].launch_s = 1;
    machine.devices[d].memory_bytes_per_s = 1;
    for (KernelRate& rate : machine.devices[d].kernels) rate.flops_per_s = 1;
  }
  return machine;
}

/// The first number of `found` that is off by more than `share`, or "".
inline std::string difference(const Machine& real, const Machine& found, double share) {
  const auto off = [&](double a, double b) { return std::abs(a - b) > share * std::abs(a); };
  const auto say = [](const std::string& what, double a, double b) {
    return what + ": " + std::to_string(b) + " instead of " + std::to_string(a);
  };
  if (off(real.issue_s, found.issue_s)) return say("issue", real.issue_s, found.issue_s);
  for (std::size_t l = 0; l < real.links.size(); ++l) {
    const Link &a = real.links[l], &b = found.links[l];
    const std::string name = "link " + std::to_string(l);
    if (off(a.bytes_per_s, b.bytes_per_s)) return say(name, a.bytes_per_s, b.bytes_per_s);
    if (off(a.latency_s, b.latency_s)) return say(name + " latency", a.latency_s, b.latency_s);
    for (const auto& [columns, apart] :
         {std::pair(&b.columns, kFarColumns), std::pair(&b.near_columns, kNearColumns)})
      for (const ColumnRate& column : *columns)
        if (const double expected = a.columns.empty() ? 1 : a.column_share(column.bytes, apart);
            off(expected, column.share))
          return say(name + " columns of " + std::to_string(column.bytes) + ", " +
                         std::to_string(apart) + " apart",
                     expected, column.share);
    if (a.columns.empty() != b.columns.empty() || a.columns.empty() != b.near_columns.empty())
      return name + " and its columns";
    if (a.ports.size() != b.ports.size()) return name + " and its ports";
    for (std::size_t s = 0; s < a.ports.size(); ++s)
      if (off(a.ports[s].weight, b.ports[s].weight))
        return say(name + " weight", a.ports[s].weight, b.ports[s].weight);
  }
  for (std::size_t p = 0; p < real.ports.size(); ++p)
    if (off(real.ports[p].capacity, found.ports[p].capacity))
      return say("port " + real.ports[p].name, real.ports[p].capacity, found.ports[p].capacity);
  for (std::size_t d = kFirstDevice; d < real.devices.size(); ++d) {
    const Device &a = real.devices[d], &b = found.devices[d];
    if (off(a.launch_s, b.launch_s)) return say(a.name + " launch", a.launch_s, b.launch_s);
    if (off(a.memory_bytes_per_s, b.memory_bytes_per_s))
      return say(a.name + " memory", a.memory_bytes_per_s, b.memory_bytes_per_s);
    if (a.kernels.size() != b.kernels.size()) return a.name + " has other kernels";
    for (std::size_t k = 0; k < a.kernels.size(); ++k)
      if (a.kernels[k].type != b.kernels[k].type || a.kernels[k].edge != b.kernels[k].edge ||
          off(a.kernels[k].flops_per_s, b.kernels[k].flops_per_s))
        return say(a.name + " kernel " + std::to_string(k), a.kernels[k].flops_per_s,
                   b.kernels[k].flops_per_s);
  }
  return "";
}

/// A node of GPUs on PCIe, two per switch, with host memory that writes load more than reads, and
/// wires between some GPUs. Every port is full when all its links are busy.
inline Machine random_node(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto between = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  Machine machine;
  machine.issue_s = between(0.1e-6, 0.9e-6);
  const int gpus = 6 + 2 * static_cast<int>(random() % 2);
  for (int d = 0; d < kFirstDevice + gpus; ++d) {
    Device device;
    device.name = d == kHost       ? "host"
                  : d == kPageable ? "pageable"
                                   : std::to_string(d - kFirstDevice);
    device.memory_bytes = std::int64_t{1} << 36;
    device.launch_s = between(1e-6, 9e-6);
    device.memory_bytes_per_s = between(1e12, 4e12);
    if (d >= kFirstDevice)
      for (const std::int64_t edge : {256, 1024, 4096})
        device.kernels.push_back({DataType::f64, edge, between(1e13, 6e13)});
    machine.devices.push_back(device);
  }
  const double pcie = between(10e9, 60e9), weight = between(1.2, 1.5);
  machine.ports.push_back({"host memory", pcie * gpus * between(0.4, 0.5)});
  for (int gpu = 0; gpu < gpus; ++gpu) {
    if (gpu % 2 == 0)
      machine.ports.push_back({"switch " + std::to_string(gpu / 2), pcie * between(1.1, 1.5)});
    const auto its_switch = static_cast<PortId>(1 + gpu / 2);
    const DeviceId d = kFirstDevice + gpu;
    machine.links.push_back(
        {kHost, d, between(2e-6, 9e-6), pcie * between(0.9, 1), {{0, 1}, {its_switch, 1}}});
    machine.links.push_back(
        {d, kHost, between(2e-6, 9e-6), pcie * between(0.9, 1), {{0, weight}, {its_switch, 1}}});
  }
  for (int gpu = 0; gpu < gpus; ++gpu) {
    const double wire = between(50e9, 400e9);
    machine.ports.push_back({"out " + std::to_string(gpu), wire * between(1, 1.5)});
    for (int other = 0; other < gpus; ++other)
      if (other != gpu)
        machine.links.push_back({kFirstDevice + gpu,
                                 kFirstDevice + other,
                                 between(2e-6, 9e-6),
                                 wire * between(0.8, 1),
                                 {{static_cast<PortId>(machine.ports.size() - 1), 1}}});
  }
  if (seed % 2 == 0) return machine;
  // All links of a kind get the same rate, because a probe expects that.
  for (Link& link : machine.links) {
    const double least = on_host(link.source) ? 0.3 : on_host(link.target) ? 0.4 : 0.5;
    link.columns = {{4096, least}, {16384, 0.9}, {32768, 0.8}, {57344, 1}};
    link.near_columns = {{2048, least}, {4096, 0.7}, {8192, 0.95}, {kNearColumns, 1}};
  }
  return machine;
}

}  // namespace fleet::test
