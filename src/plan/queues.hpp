// SPDX-License-Identifier: BSD-3-Clause
// queues.hpp: the queues that every plan of a machine has, and those through which devices send.
#pragma once
#include <algorithm>
#include <array>
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

/// By device, whether it can send in turn (Machine::sends_in_turn()). None is to, where `home`,
/// which has data of a call, is the host or has no other worker to send to.
std::vector<char> sending_in_turn(const Machine& machine, DeviceId home,
                                  const std::vector<DeviceId>& workers);

/// Queues beside those of links, for what devices send (Queue::in_turn).
class SentQueues {
 public:
  SentQueues() = default;
  explicit SentQueues(const Machine& machine)
      : queues_(machine.links.size(), {-1, -1, -1}), sends_(machine.devices.size(), 0) {}
  void add(LinkId link, Sent sent, DeviceId source, QueueId id) {
    queues_[static_cast<std::size_t>(link)][static_cast<std::size_t>(sent)] = id;
    if (sent == Sent::inputs) sends_[static_cast<std::size_t>(source)] = 1;
  }

  /// Are there any?
  bool any() const { return !queues_.empty(); }
  /// Are there some for inputs from this device?
  bool sends(DeviceId device) const {
    return any() && sends_[static_cast<std::size_t>(device)] != 0;
  }
  /// Where copies of this kind over the link go: the queue of the link, if there is none for them.
  QueueId of(LinkId link, Sent sent) const {
    if (!any()) return link;
    const QueueId id = queues_[static_cast<std::size_t>(link)][static_cast<std::size_t>(sent)];
    return id < 0 ? link : id;
  }

 private:
  std::vector<std::array<QueueId, 3>> queues_;  ///< by link; -1: none
  std::vector<char> sends_;                     ///< by device
};

/// Marks the queues of the plan that go in turn, or adds some that do. Where all data of a call lie
/// on one device, all that devices send goes through the queues of links. Where others lie
/// elsewhere, inputs that are not ready would hold up those that are, so each kind has queues of
/// its own beside those of links, which are returned (Sent, docs/performance/lessons.md); what is
/// passed on only where its source has less data of the call than the target, which fetches it
/// elsewhere.
SentQueues send_in_turn(Plan& plan, const Machine& machine);

}  // namespace fleet
