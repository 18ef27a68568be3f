// SPDX-License-Identifier: BSD-3-Clause
// places.hpp: which devices a run has to itself, so that others may go on beside it. It knows no
// threads and no calls.
#pragma once
#include <span>
#include <vector>

#include "plan/plan.hpp"

namespace fleet {

/// A set of locations. kHost stands for what there is once on the host: the pinned ring, the CPU's
/// part of a product, work in place. Copies between a device and the host are the device's.
class Places {
 public:
  Places() = default;
  explicit Places(std::span<const DeviceId> locations) {
    for (const DeviceId location : locations) add(location);
  }

  void add(DeviceId location);
  void add(const Places& other);
  void remove(const Places& other);
  bool has(DeviceId location) const;
  bool meets(const Places& other) const;

 private:
  std::vector<bool> has_;  ///< by location
};

/// By queue, how many tasks it has: plans name queues that they do not use.
std::vector<std::size_t> tasks_of_queues(const Plan& plan);

/// What a run of the plan has to itself: the devices that compute, those that hold operands, and
/// those with slots.
Places places_of(const Plan& plan);

}  // namespace fleet
