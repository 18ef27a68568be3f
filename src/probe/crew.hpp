// SPDX-License-Identifier: BSD-3-Clause
// crew.hpp: devices whose kernels a probe times together. It knows no kernel.
#pragma once
#include <vector>

#include "machine/machine.hpp"
#include "probe/times.hpp"

namespace fleet {

/// Devices whose kernels are timed together, as many as their ports can serve.
struct Crew {
  std::vector<DeviceId> busy;
  std::vector<DeviceId> alike;  ///< if not empty, the measured rates hold for each of these
};

/// All devices with kernels in `said`, as the backend describes them. Similar virtual devices form
/// one crew; real devices fill crews in turn.
std::vector<Crew> crews_of(const Machine& machine, const std::vector<Device>& said);

/// Gives each device the value that was measured on it or on a similar device.
template <typename Apply>
void for_each_measured(const Crew& crew, const std::vector<DeviceId>& busy,
                       const std::vector<double>& values, Apply apply) {
  if (values.empty()) return;
  for (const DeviceId id : crew.alike) apply(id, mean(values));
  if (crew.alike.empty())
    for (std::size_t i = 0; i < busy.size(); ++i) apply(busy[i], values[i]);
}

}  // namespace fleet
