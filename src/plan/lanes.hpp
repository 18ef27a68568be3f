// SPDX-License-Identifier: BSD-3-Clause
// lanes.hpp: the lanes of devices in which the targets of a call are computed. It knows no time.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "base/sizes.hpp"
#include "plan/call_layout.hpp"
#include "plan/plan.hpp"

namespace fleet {

/// Targets take the lanes of their device in turn, so that neighbours overlap: as many lanes as it
/// takes products to fill the device. The CPU's kernels have all of its cores, one after another.
class Lanes {
 public:
  /// `first`: the first lane of each device. The machine has to outlive it.
  Lanes(std::vector<QueueId> first, const Machine& machine, const Tuning& tuning)
      : machine_(machine),
        first_(std::move(first)),
        next_(tuning.workers.size(), 0),
        overlaps_(tuning.rules.has(Rule::overlap)) {}

  /// From now on targets are those of this call; `device`: its first worker's.
  void enter(const CallLayout& layout, DeviceId device) {
    // A kernel that streams takes all of a device's bandwidth: one runs while the next is launched.
    constexpr int kStreaming = 2;
    const Device& known = machine_.devices[index(device)];
    const CallCuts& cuts = layout.call().cuts;
    const std::int64_t elements = std::max<std::int64_t>(1, longest_piece(cuts.m)) *
                                  std::max<std::int64_t>(1, longest_piece(cuts.n));
    in_use_ = static_cast<int>(ceil_div(known.filling_elements, elements));
    const OpChain& chain = layout.chain(layout.call().first_chain);
    if (layout.program().op(chain.first + chain.ops - 1).kernel == Kernel::solve)
      in_use_ = std::max(in_use_, known.lanes_beside_solves);
    if (layout.deal().streams) in_use_ = kStreaming;
  }

  QueueId first_of(DeviceId device) const { return first_[index(device)]; }
  /// The lane of the worker's next target.
  QueueId next(int worker, DeviceId device) {
    if (on_host(device)) return first_of(device);
    const int most = std::max(1, machine_.devices[index(device)].lanes);
    const int lanes = overlaps_ ? std::clamp(in_use_, 1, most) : 1;
    return first_of(device) + next_[index(worker)]++ % lanes;
  }

 private:
  const Machine& machine_;
  std::vector<QueueId> first_;
  std::vector<int> next_;  ///< per worker
  bool overlaps_;
  int in_use_ = 1;  ///< of each device, if it has as many
};

}  // namespace fleet
