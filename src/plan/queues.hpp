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

/// Whether all matrices are at home on one device, the source that all others wait for.
inline bool lies_on_one_device(const TileProgram& program) {
  const auto first = std::ranges::find(program.matrices, false, &Matrix::is_scratch);
  return first != program.matrices.end() && !on_host(first->home) &&
         std::all_of(first, program.matrices.end(), [&](const Matrix& matrix) {
           return matrix.is_scratch ||
                  (matrix.home == first->home && !matrix.stays && !matrix.distribution);
         });
}

/// Has devices that send in turn do so. Measured where `lies_on_one_device`; with data elsewhere,
/// simulated, copies wait for others that are not ready (docs/performance/lessons.md).
inline void send_in_turn(Plan& plan, const Machine& machine) {
  const std::vector<char> in_turn = machine.sends_in_turn();
  for (Queue& queue : plan.queues)
    queue.in_turn = queue.kind == Queue::Kind::link && !on_host(queue.device) &&
                    in_turn[static_cast<std::size_t>(queue.source)] != 0;
}

}  // namespace fleet
