// SPDX-License-Identifier: BSD-3-Clause
// detours.hpp: ways over other workers that are faster than the link between two devices (paper 2,
// 3.2: re-routing). It knows no clock and no tile.
#pragma once
#include <span>
#include <vector>

#include "machine/machine.hpp"
#include "program/tuning.hpp"

namespace fleet {

/// Most links of a way: max_hops (at most 2) other places lie on it.
inline constexpr int kMostLinks = 3;

/// Links one after another.
struct Detour {
  LinkId links[kMostLinks] = {-1, -1, -1};
  int count = 0;
};

class Detours {
 public:
  /// At most tuning.max_hops workers lie on each. Others take no part in a call, and a tile that
  /// passes through a worker may be of use there. None where both ends are not devices.
  Detours(const Machine& machine, const LinkTable& links, const Tuning& tuning);

  /// The fastest few ways from one device to another whose slowest link is faster than the direct
  /// one (or, without one, than the way over the host) by a fifth.
  std::span<const Detour> between(DeviceId from, DeviceId to) const {
    if (by_pair_.empty()) return {};
    return by_pair_[static_cast<std::size_t>(from) * devices_ + static_cast<std::size_t>(to)];
  }
  bool empty() const { return by_pair_.empty(); }

 private:
  std::size_t devices_;
  std::vector<std::vector<Detour>> by_pair_;  ///< empty if no pair has any
};

}  // namespace fleet
