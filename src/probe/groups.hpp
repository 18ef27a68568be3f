// SPDX-License-Identifier: BSD-3-Clause
// groups.hpp: a short measurement of each of many members that should be alike, so that a few of
// them can be measured for all. It knows no backend and no machine.
#pragma once
#include <functional>
#include <vector>

#include "probe/session.hpp"

namespace fleet {

/// Members with similar times, as indices in ascending order.
struct ProbeGroup {
  std::vector<std::size_t> members;
  double seconds = 0;  ///< the median of their short measurements
};

/// Groups all members: the first group around the median of all, the next around the median of the
/// rest, and so on. Every member is within a factor `tolerance` of the median of its group. Equal
/// times keep the lower index first.
std::vector<ProbeGroup> groups_by_time(const std::vector<double>& seconds, double tolerance);

/// The members with these indices.
template <typename Member>
std::vector<Member> picked(const std::vector<Member>& members,
                           const std::vector<std::size_t>& indices) {
  std::vector<Member> some;
  for (const std::size_t i : indices) some.push_back(members[i]);
  return some;
}

/// Seconds of a short measurement of each of these members; empty if memory is too small.
using ShortLook = std::function<std::vector<double>(const std::vector<std::size_t>&)>;

/// Measures each of `count` members once, and those outside the first group a few times more. Other
/// load makes a measurement longer, so the shortest counts. One group of all members if `look`
/// returns nothing.
std::vector<ProbeGroup> look_at_each(std::size_t count, double tolerance, const ShortLook& look);

/// Calls `measure` for the first group, and for the others while the session has time. For each
/// remaining group it calls `scale` with the ratio of its time to that of the first group. Returns
/// the number of members in scaled groups.
std::size_t measure_groups(const std::vector<ProbeGroup>& groups, const ProbeSession& session,
                           const std::function<void(const ProbeGroup&)>& measure,
                           const std::function<void(const ProbeGroup&, double)>& scale);

}  // namespace fleet
