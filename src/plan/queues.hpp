// SPDX-License-Identifier: BSD-3-Clause
// queues.hpp: the queues that every plan of a machine has. It knows no problem.
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

}  // namespace fleet
