// SPDX-License-Identifier: BSD-3-Clause
// groups.hpp: a short look at each of many that ought to be alike, so that a few of them can
// be measured for all. It knows no backend and no machine.
#pragma once
#include <functional>
#include <vector>

#include "probe/session.hpp"

namespace fleet {

/// Members that took alike, by index in ascending order.
struct ProbeGroup {
  std::vector<std::size_t> members;
  double seconds = 0;  ///< the median of their short looks
};

/// All in groups: the first around the median of all, the next around that of the rest, and so on.
/// None is more than `tolerance` times as fast or as slow as the median of its group. Equal times
/// keep the lower index first.
std::vector<ProbeGroup> groups_by_time(const std::vector<double>& seconds, double tolerance);

/// Seconds of a short look at each of these; none if memory does not hold it.
using ShortLook = std::function<std::vector<double>(const std::vector<std::size_t>&)>;

/// One look at each of `count`, and a few more at those that differ from the most: what else runs
/// on a machine makes a look longer, so the shortest counts. One group of all if `look` gives
/// nothing.
std::vector<ProbeGroup> look_at_each(std::size_t count, double tolerance, const ShortLook& look);

/// Calls `measure` for the first group, and for the others as long as the session has time for
/// them. Then calls `scale` with how many times as long as the first they took. Returns how many
/// members are only known so.
std::size_t measure_groups(const std::vector<ProbeGroup>& groups, const ProbeSession& session,
                           const std::function<void(const ProbeGroup&)>& measure,
                           const std::function<void(const ProbeGroup&, double)>& scale);

}  // namespace fleet
