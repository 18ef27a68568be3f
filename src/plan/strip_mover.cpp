// SPDX-License-Identifier: BSD-3-Clause
// strip_mover.cpp: tasks of copies, each after whatever used its places before.
#include "plan/strip_mover.hpp"

#include <algorithm>

namespace fleet {

StripMover::StripMover(Plan& plan, const Machine& machine, TaskList& tasks)
    : plan_(plan),
      program_(*plan.program),
      machine_(machine),
      tasks_(tasks),
      router_(machine, plan.tuning, false),
      slots_(machine.devices.size()),
      homes_(program_.matrices.size()) {}

void StripMover::make_ring(DeviceId home, std::int64_t bytes) {
  if (!passes_host(home)) return;
  // Two per worker: one fills while the other empties.
  const int count = std::max(4, 2 * static_cast<int>(plan_.tuning.workers.size()));
  ring_ = SlotRing(slots_[kHost], count, bytes);
}

// Does some copy go through pinned memory: from pageable memory, between devices without a link, or
// from a device to itself?
bool StripMover::passes_host(DeviceId home) const {
  if (plan_.tuning.routing == Routing::over_host) return true;
  const auto lacks_link = [&](DeviceId from, DeviceId to) {
    return from != to && machine_.find_link(from, to) < 0;
  };
  const auto& workers = plan_.tuning.workers;
  return std::ranges::any_of(workers, [&](DeviceId a) {
    const bool copies_own = plan_.tuning.own_copies && a == home;
    return copies_own || lacks_link(home, a) ||
           std::ranges::any_of(workers, [&](DeviceId b) { return lacks_link(a, b); });
  });
}

TaskId StripMover::add(const Task& task, const std::array<TileId, 2>& inputs) {
  for (const std::size_t x : {0, 1})
    if (inputs[x].exists()) used(task.inputs[x], inputs[x]).before_read(after_);
  used(task.to, task.tile).before_write(after_);
  const TaskId id = tasks_.add(task, after_);
  for (const std::size_t x : {0, 1})
    if (inputs[x].exists()) used(task.inputs[x], inputs[x]).note_read(id);
  used(task.to, task.tile).note_write(id);
  return id;
}

double StripMover::fetch(const TileId& tile, const TileCopy& from, const Where& to, TaskKind kind) {
  const Holder holder{from.where.device, from.ready_s};
  const Cargo cargo = program_.cargo_of(tile);
  const Chain& chain = router_.route({&holder, 1}, {&to.device, 1}, cargo);
  used(from.where, tile).before_read(after_);
  emit_leg(kind, tile, chain.legs[0], from.where, to, chain.chunks, kNoTask);
  router_.commit(chain.legs[0], cargo.bytes);
  return chain.legs[0].stop_s();
}

TaskId StripMover::emit_leg(TaskKind kind, const TileId& tile, const Leg& leg, const Where& from,
                            const Where& to, int chunks, TaskId upstream) {
  Where at = from;
  const bool overlap = plan_.tuning.rules.has(Rule::overlap);
  for (int h = 0; h < leg.hop_count; ++h) {
    const Link& link = machine_.links[index(leg.hops[h].link)];
    const bool is_last = h + 1 == leg.hop_count;
    const Where next = is_last ? to : Where{link.target, ring_.next()};
    const DeviceId device = kind == TaskKind::writeback ? link.source : link.target;
    Task task;
    task.kind = kind;
    task.chunks = static_cast<std::uint8_t>(chunks);
    task.queue = overlap ? static_cast<QueueId>(leg.hops[h].link)
                         : static_cast<QueueId>(machine_.links.size()) + device;
    task.link = leg.hops[h].link;
    task.upstream = upstream;
    task.tile = tile;
    task.from = at;
    task.to = next;
    used(next, tile).before_write(after_);
    upstream = tasks_.add(task, after_);
    used(at, tile).note_read(upstream);
    used(next, tile).note_write(upstream);
    at = next;
  }
  return upstream;
}

void StripMover::finish() {
  for (StripSlots& slots : slots_) {
    plan_.arena_bytes.push_back(slots.arena_bytes());
    plan_.slots.push_back(slots.take());
  }
}

}  // namespace fleet
