// SPDX-License-Identifier: BSD-3-Clause
// machine.hpp: the shape of a machine of virtual devices.
#pragma once
#include <cstdint>

#include "machine/machine.hpp"

namespace fleet {

/// The devices, links and ports of `devices` virtual devices on `cores` cores, with placeholder
/// rates: the shape that probe fills in. Links: host <-> device, device <-> device, and
/// pageable <-> host; ports: the thread of each device, and the cores.
Machine host_machine(int devices, int cores, std::int64_t memory_bytes);

}  // namespace fleet
