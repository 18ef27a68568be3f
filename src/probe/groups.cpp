// SPDX-License-Identifier: BSD-3-Clause
// groups.cpp: groups members around medians, and measures as many groups as there is time for. It
// must not know what is measured.
#include "probe/groups.hpp"

#include <algorithm>
#include <numeric>

namespace fleet {
namespace {

constexpr int kMoreLooks = 4;

}  // namespace

std::vector<ProbeGroup> groups_by_time(const std::vector<double>& seconds, double tolerance) {
  std::vector<std::size_t> left(seconds.size());
  std::iota(left.begin(), left.end(), std::size_t{0});
  std::ranges::stable_sort(left, {}, [&](std::size_t i) { return seconds[i]; });
  std::vector<ProbeGroup> groups;
  while (!left.empty()) {
    ProbeGroup group{.members = {}, .seconds = seconds[left[left.size() / 2]]};
    const auto is_like = [&](std::size_t i) {
      return seconds[i] <= group.seconds * tolerance && seconds[i] >= group.seconds / tolerance;
    };
    std::ranges::copy_if(left, std::back_inserter(group.members), is_like);
    std::erase_if(left, is_like);
    std::ranges::sort(group.members);
    groups.push_back(std::move(group));
  }
  return groups;
}

std::vector<ProbeGroup> look_at_each(std::size_t count, double tolerance, const ShortLook& look) {
  std::vector<std::size_t> all(count);
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::vector<double> seconds = look(all);
  if (seconds.empty()) return {{.members = all}};
  std::vector<ProbeGroup> groups = groups_by_time(seconds, tolerance);
  for (int again = 0; again < kMoreLooks && groups.size() > 1; ++again) {
    std::vector<std::size_t> odd;
    for (std::size_t g = 1; g < groups.size(); ++g)
      odd.insert(odd.end(), groups[g].members.begin(), groups[g].members.end());
    std::ranges::sort(odd);
    const std::vector<double> retaken = look(odd);
    for (std::size_t i = 0; i < retaken.size(); ++i)
      seconds[odd[i]] = std::min(seconds[odd[i]], retaken[i]);
    groups = groups_by_time(seconds, tolerance);
  }
  return groups;
}

std::size_t measure_groups(const std::vector<ProbeGroup>& groups, const ProbeSession& session,
                           const std::function<void(const ProbeGroup&)>& measure,
                           const std::function<void(const ProbeGroup&, double)>& scale) {
  std::size_t scaled = 0;
  for (const ProbeGroup& group : groups) {
    if (&group == &groups.front() || session.has_time_for_more()) {
      measure(group);
      continue;
    }
    scale(group, group.seconds / groups.front().seconds);
    scaled += group.members.size();
  }
  return scaled;
}

}  // namespace fleet
