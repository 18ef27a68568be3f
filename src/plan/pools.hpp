// SPDX-License-Identifier: BSD-3-Clause
// pools.hpp: how the memory of a plan's devices is divided into pools of slots. It knows no tile.
#pragma once
#include <span>
#include <vector>

#include "plan/slots.hpp"

namespace fleet {

/// The least slots of the pinned ring of the host. Copies into it and out of it share them in the
/// order of the plan: with four, those of operands waited for those of results, which took 7 % of a
/// run (docs/performance/lessons.md).
inline constexpr std::int64_t kLeastRingSlots = 8;
std::int64_t ring_slots(const Tuning& tuning);

/// Limits the pools of each location (index DeviceId) where slots are recycled: those of plans that
/// do not fit the memory caps, that keep no tile (rule `caching` off) or whose tiles stream, and
/// the pinned ring of the host. Slots of a pool are as large as the largest tile that it may hold.
void limit_pools(std::vector<SlotStore>& stores, const Plan& plan, const Machine& machine,
                 std::span<const Dealing> deals);

}  // namespace fleet
