// SPDX-License-Identifier: BSD-3-Clause
// detours.cpp: all ways over one or two workers, and which of them are worth it.
#include "plan/detours.hpp"

#include <algorithm>
#include <utility>

namespace fleet {
namespace {

/// How much faster the slowest link of a detour has to be: it loads several links.
constexpr double kWorthIt = 1.2;
/// Ways that are kept for each pair.
constexpr std::size_t kMostWays = 2;

}  // namespace

Detours::Detours(const Machine& machine, const LinkTable& links, const Tuning& tuning)
    : devices_(machine.devices.size()) {
  if (tuning.max_hops == 0) return;
  const auto rate = [&](LinkId l) {
    return l < 0 ? 0.0 : machine.links[static_cast<std::size_t>(l)].bytes_per_s;
  };
  std::vector<std::pair<double, Detour>> found;
  std::vector<std::vector<Detour>> by_pair(devices_ * devices_);
  bool any = false;
  for (DeviceId from = kFirstDevice; from < std::ssize(machine.devices); ++from)
    for (DeviceId to = kFirstDevice; to < std::ssize(machine.devices); ++to) {
      if (from == to) continue;
      const LinkId direct = links.at(from, to);
      const double least = direct >= 0
                               ? kWorthIt * rate(direct)
                               : std::min(rate(links.at(from, kHost)), rate(links.at(kHost, to)));
      found.clear();
      const auto consider = [&](std::initializer_list<DeviceId> places) {
        Detour way;
        double slowest = rate(links.at(from, *places.begin()));
        DeviceId last = from;
        for (const DeviceId place : places) {
          way.links[way.count++] = links.at(last, place);
          slowest = std::min(slowest, rate(way.links[way.count - 1]));
          last = place;
        }
        if (slowest > least) found.emplace_back(slowest, way);
      };
      const auto is_between = [&](DeviceId via) {
        return !on_host(via) && via != from && via != to;
      };
      for (const DeviceId first : tuning.workers) {
        if (!is_between(first)) continue;
        consider({first, to});
        if (tuning.max_hops < 2) continue;
        for (const DeviceId second : tuning.workers)
          if (is_between(second) && second != first) consider({first, second, to});
      }
      // Of equally fast ones those with fewer links, in the order of the workers.
      std::ranges::stable_sort(found, [](const auto& x, const auto& y) {
        return x.first != y.first ? x.first > y.first : x.second.count < y.second.count;
      });
      auto& ways =
          by_pair[static_cast<std::size_t>(from) * devices_ + static_cast<std::size_t>(to)];
      for (std::size_t i = 0; i < std::min(found.size(), kMostWays); ++i)
        ways.push_back(found[i].second);
      any = any || !ways.empty();
    }
  if (any) by_pair_ = std::move(by_pair);
}

}  // namespace fleet
