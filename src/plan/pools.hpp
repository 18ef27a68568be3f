// SPDX-License-Identifier: BSD-3-Clause
// pools.hpp: how the memory of a plan's devices is divided into pools of slots. It knows no tile.
#pragma once
#include <span>
#include <vector>

#include "plan/slots.hpp"

namespace fleet {

/// Limits the pools of each location (index DeviceId) where slots are recycled: those of plans that
/// do not fit the memory caps, that keep no tile (rule `caching` off) or whose tiles stream, and
/// the pinned ring of the host. Slots of a pool are as large as the largest tile that it may hold.
void limit_pools(std::vector<SlotStore>& stores, const Plan& plan, const Machine& machine,
                 std::span<const Dealing> deals);

}  // namespace fleet
