// SPDX-License-Identifier: BSD-3-Clause
// test_sim_random.cpp: properties of every simulated run, for random machines and plans.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "sim/simulate.hpp"
#include "support/hand_plan.hpp"
#include "support/scale.hpp"

namespace fleet::test {
namespace {

constexpr double kClose = 1e-9;

/// A machine and a plan for it; links and lanes take random ports.
struct Case {
  explicit Case(std::uint64_t seed) : random(seed), machine(3, 4), plan(make_plan()) {}

  std::size_t below(std::size_t end) { return random() % end; }
  double between(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  }
  bool chance(double share) { return between(0, 1) < share; }

  std::vector<PortShare> shares(double scale) {
    std::vector<PortShare> taken;
    for (std::size_t p = 0; p < machine.get().ports.size(); ++p)
      if (chance(0.4)) taken.push_back({static_cast<PortId>(p), scale * between(0.5, 2)});
    return taken;
  }

  HandPlan make_plan() {
    for (std::size_t p = below(5); p > 0; --p) machine.port(between(2, 12));
    for (DeviceId source = kHost; source < kFirstDevice + 3; ++source)
      for (DeviceId target = kHost; target < kFirstDevice + 3; ++target)
        if (source != target)
          machine.link(source, target, between(1, 6), shares(1), chance(0.5) ? 0.1 : 0);
    for (DeviceId d = kFirstDevice; d < kFirstDevice + 3; ++d) {
      Device& device = machine.get().devices[static_cast<std::size_t>(d)];
      device.launch_s = chance(0.5) ? 0.05 : 0;
      if (chance(0.5)) device.ports = shares(8);
    }
    std::vector<std::int64_t> sizes;
    for (int tile = 0; tile < 8; ++tile) sizes.push_back(static_cast<std::int64_t>(1 + below(9)));

    HandPlan made(machine.get(), sizes);
    TaskId tasks = 0;
    while (tasks < 60) {
      std::vector<TaskId> after;
      for (std::size_t count = below(3); count > 0 && tasks > 0; --count)
        after.push_back(static_cast<TaskId>(below(static_cast<std::size_t>(tasks))));
      tasks = chance(0.5) ? add_kernel(made, after) : add_chain(made, after);
    }
    return made;
  }

  TaskId add_kernel(HandPlan& made, const std::vector<TaskId>& after) {
    return 1 + made.compute({.device = kFirstDevice + static_cast<int>(below(3)),
                             .tile = static_cast<int>(below(8)),
                             .lane = static_cast<int>(below(4)),
                             .after = after,
                             .kernel = chance(0.2) ? Kernel::add : Kernel::multiply});
  }

  TaskId add_chain(HandPlan& made, const std::vector<TaskId>& after) {
    const auto tile = static_cast<int>(below(8));
    const int chunks = chance(0.7) ? 1 << below(4) : 1;
    std::vector<DeviceId> stops = {0, 1, 2, 3, 4};
    std::ranges::shuffle(stops, random);
    TaskId upstream = kNoTask;
    for (std::size_t hop = 0; hop < 1 + below(4); ++hop)
      upstream = made.copy({.link = machine.get().find_link(stops[hop], stops[hop + 1]),
                            .tile = tile,
                            .after = upstream == kNoTask ? after : std::vector<TaskId>{},
                            .chunks = chunks,
                            .upstream = upstream});
    return upstream + 1;
  }

  std::mt19937_64 random;
  HandMachine machine;
  HandPlan plan;
};

/// One task on an idle machine: its seconds, its shortest lag behind an upstream, and its total
/// demand on each port.
struct Alone {
  double seconds = 0;
  double chunk_s = 0;
  std::vector<double> units;
};

Alone alone(const Plan& plan, const Machine& machine, const Task& task) {
  Alone result{.units = std::vector<double>(machine.ports.size(), 0.0)};
  std::vector<PortShare> shares;
  double fixed_s = 0, work = 0, rate = 1;
  if (task.kind == TaskKind::compute) {
    const Device& device = machine.devices[static_cast<std::size_t>(task.device())];
    const std::int64_t bytes = plan.program->bytes_of(task.tile);
    work = (task.kernel == Kernel::add
                ? machine.stream_s(task.device(), 3 * bytes)
                : machine.multiply_s(task.device(), DataType::f64, bytes / 8, 1, 1)) -
           device.launch_s;
    fixed_s = device.launch_s;
    shares = device.ports;
  } else {
    const Link& link = machine.links[static_cast<std::size_t>(task.link)];
    work = static_cast<double>(plan.program->bytes_of(task.tile));
    fixed_s = link.latency_s * task.chunks;
    rate = link.bytes_per_s;
    shares = link.ports;
  }
  result.chunk_s = (fixed_s + work / rate) / task.chunks;
  double port_s = 0;
  for (const PortShare& share : shares) {
    const auto p = static_cast<std::size_t>(share.port);
    result.units[p] = share.weight * work;
    port_s = std::max(port_s, result.units[p] / machine.ports[p].capacity);
  }
  // A launch precedes the kernel; latency hides behind a port that is too slow for the link.
  result.seconds = task.kind == TaskKind::compute ? fixed_s + std::max(work, port_s)
                                                  : std::max(fixed_s + work / rate, port_s);
  return result;
}

TEST(RandomRun, RespectsOrderPortsAndTheSpeedOfEachTask) {
  for (std::int64_t seed = 0; seed < scaled(600); ++seed) {
    Case made(static_cast<std::uint64_t>(seed));
    const Plan& plan = made.plan.get();
    const Machine& machine = made.machine.get();

    const Trace trace = simulate(plan, machine);

    std::vector<Alone> lone;
    for (const Task& task : plan.tasks) lone.push_back(alone(plan, machine, task));
    std::vector<TaskId> last_of_queue(plan.queues.size(), kNoTask);
    double serial_s = 0;
    for (std::size_t t = 0; t < plan.tasks.size(); ++t) {
      const Task& task = plan.tasks[t];
      const Span& span = trace.spans[t];
      const auto stop_of = [&](TaskId id) {
        return trace.spans[static_cast<std::size_t>(id)].stop_s;
      };
      ASSERT_TRUE(span.done());
      ASSERT_GE(span.stop_s - span.start_s, lone[t].seconds * (1 - kClose) - kClose);
      for (const TaskId before : plan.after(task)) ASSERT_GE(span.start_s, stop_of(before));
      TaskId& previous = last_of_queue[static_cast<std::size_t>(task.queue)];
      if (previous != kNoTask) {
        ASSERT_GE(span.start_s, stop_of(previous));
      }
      previous = static_cast<TaskId>(t);
      if (task.upstream != kNoTask) {
        const auto up = static_cast<std::size_t>(task.upstream);
        ASSERT_GE(span.start_s, trace.spans[up].start_s + lone[up].chunk_s - kClose);
        ASSERT_GE(span.stop_s, trace.spans[up].stop_s + lone[t].chunk_s * (1 - 1e-6) - kClose);
      }
      serial_s += lone[t].seconds;
    }
    // At least one task always progresses: no plan takes longer than its tasks one after another.
    ASSERT_LE(trace.seconds, serial_s * (1 + kClose));

    // The tasks that lie wholly inside a window fit through each port in that time.
    for (const Span& first : trace.spans)
      for (const Span& last : trace.spans) {
        if (last.stop_s <= first.start_s) continue;
        std::vector<double> units(machine.ports.size(), 0.0);
        for (std::size_t t = 0; t < plan.tasks.size(); ++t)
          if (trace.spans[t].start_s >= first.start_s && trace.spans[t].stop_s <= last.stop_s)
            for (std::size_t p = 0; p < units.size(); ++p) units[p] += lone[t].units[p];
        for (std::size_t p = 0; p < units.size(); ++p)
          ASSERT_LE(units[p],
                    machine.ports[p].capacity * (last.stop_s - first.start_s) * (1 + 1e-6));
      }
  }
}

TEST(RandomRun, IsTheSameEachTime) {
  Case made(77);

  const Trace once = simulate(made.plan.get(), made.machine.get());
  const Trace again = simulate(made.plan.get(), made.machine.get());

  for (std::size_t t = 0; t < once.spans.size(); ++t) {
    ASSERT_EQ(once.spans[t].start_s, again.spans[t].start_s);
    ASSERT_EQ(once.spans[t].stop_s, again.spans[t].stop_s);
  }
}

}  // namespace
}  // namespace fleet::test
