// SPDX-License-Identifier: BSD-3-Clause
// plan.cpp: plans as values, and the traffic of a finished one.
#include "plan/plan.hpp"

#include <utility>

namespace fleet {

std::shared_ptr<const TileProgram> Plan::no_program() {
  return std::make_shared<const TileProgram>();
}

bool operator==(const Plan& a, const Plan& b) {
  const auto parts = [](const Plan& p) {
    return std::tie(*p.program, p.tuning, p.queues, p.slots, p.arena_bytes, p.tasks, p.after_pool,
                    p.found, p.kept, p.away_before, p.away_after, p.planned_s);
  };
  return parts(a) == parts(b);
}

Residency residency_after(const Plan& plan) {
  Residency after{.away = plan.away_after};
  for (const Resident& resident : plan.kept)
    after.copies.push_back({resident.tile, resident.where.device});
  return after;
}

std::vector<DeviceId> senders(const Plan& plan) {
  std::vector<DeviceId> senders(plan.queues.size(), -1);
  for (const Task& task : plan.tasks) {
    const auto q = static_cast<std::size_t>(task.queue);
    const Queue& queue = plan.queues[q];
    if (task.kind == TaskKind::fetch && queue.in_turn && queue.sent == Sent::inputs)
      senders[q] = queue.source;
  }
  return senders;
}

double cpu_share(const Plan& plan) {
  if (!plan.tuning.has_cpu()) return 0;
  double cpus = 0, all = 0;
  for (const OpChain& chain : plan.program->chains)
    for (OpId id = chain.first; id < chain.first + chain.ops; ++id)
      all += plan.program->multiply_adds_of(plan.program->op(id), chain.target);
  for (const Task& task : plan.tasks)
    if (task.kind == TaskKind::compute && on_host(task.device()))
      cpus += plan.program->multiply_adds_of(plan.program->op(task.op), task.tile);
  return all > 0 ? cpus / all : 0;
}

std::vector<std::int64_t> bytes_by_link(const Plan& plan, std::size_t links) {
  std::vector<std::int64_t> bytes(links, 0);
  for (const Task& task : plan.tasks)
    if (task.kind != TaskKind::compute)
      bytes.at(static_cast<std::size_t>(task.link)) += plan.program->moved_bytes_of(task.tile);
  return bytes;
}

std::string link_name(const Machine& machine, LinkId link) {
  const Link& l = machine.links.at(static_cast<std::size_t>(link));
  return machine.devices.at(static_cast<std::size_t>(l.source)).name + "->" +
         machine.devices.at(static_cast<std::size_t>(l.target)).name;
}

}  // namespace fleet
