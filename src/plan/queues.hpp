// SPDX-License-Identifier: BSD-3-Clause
// queues.hpp: the queues that every plan of a machine has, and which of them share a sender.
#pragma once
#include <algorithm>
#include <vector>

#include "plan/plan.hpp"

namespace fleet {

/// Gives the plan a queue per link, and the lanes of each device (one queue per device with the
/// rule `overlap` off). Returns the first lane of each device.
inline std::vector<QueueId> add_queues(Plan& plan, const Machine& machine) {
  const bool overlap = plan.tuning.rules.has(Rule::overlap);
  for (const Link& link : machine.links)
    plan.queues.push_back({Queue::Kind::link, link.target, link.source, 0});
  std::vector<QueueId> first_lane;
  for (DeviceId d = 0; d < static_cast<DeviceId>(machine.devices.size()); ++d) {
    first_lane.push_back(static_cast<QueueId>(plan.queues.size()));
    const int lanes = overlap ? std::max(1, machine.devices[static_cast<std::size_t>(d)].lanes) : 1;
    for (int lane = 0; lane < lanes; ++lane)
      plan.queues.push_back({overlap ? Queue::Kind::lane : Queue::Kind::device, d, d, lane});
  }
  return first_lane;
}

/// The device that all matrices of a call are at home on, on which all others then wait; or the
/// host, if there is none. Several calls pass results to each other, and parts of k sums.
inline DeviceId only_source(const Plan& plan) {
  const TileProgram& program = *plan.program;
  const auto first = std::ranges::find(program.matrices, false, &Matrix::is_scratch);
  if (first == program.matrices.end() || program.calls.size() != 1 || plan.tuning.split_k)
    return kHost;
  const bool alone = std::all_of(first, program.matrices.end(), [&](const Matrix& matrix) {
    return matrix.is_scratch ||
           (matrix.home == first->home && !matrix.stays && !matrix.distribution);
  });
  return alone ? first->home : kHost;
}

/// By device, whether it is to send in turn, where all data of a call lie at `source`: devices that
/// can, where they wait for one that sends to several of them. Anywhere else copies that are not
/// ready would hold up others (docs/performance/lessons.md).
inline std::vector<char> sending_in_turn(const Machine& machine, DeviceId source,
                                         const std::vector<DeviceId>& workers) {
  const auto targets =
      static_cast<std::ptrdiff_t>(workers.size()) - std::ranges::count(workers, source);
  if (on_host(source) || targets < 2) return std::vector<char>(machine.devices.size(), 0);
  return machine.sends_in_turn();
}

/// Marks the queues of the plan that go in turn.
inline void send_in_turn(Plan& plan, const Machine& machine) {
  if (!plan.tuning.rules.has(Rule::overlap)) return;
  const std::vector<char> in_turn =
      sending_in_turn(machine, only_source(plan), plan.tuning.workers);
  for (Queue& queue : plan.queues)
    queue.in_turn = queue.kind == Queue::Kind::link && !on_host(queue.device) &&
                    in_turn[static_cast<std::size_t>(queue.source)] != 0;
}

}  // namespace fleet
