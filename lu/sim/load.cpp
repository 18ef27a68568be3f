// SPDX-License-Identifier: BSD-3-Clause
// load.cpp: from one event to the next one.
#include "sim/load.hpp"

#include <limits>

namespace fleet::lu {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
/// Of the cores, what messages leave at least: nothing stands still.
constexpr double kLeastCores = 0.05;

bool is_done(const Load::Chain& chain) { return chain.end_s.size() == chain.seconds.size(); }

}  // namespace

double Load::demand(const std::vector<Use>& uses, double at_s) {
  double demand = 0;
  for (const Use& use : uses)
    if (use.begin_s <= at_s && at_s < use.end_s) demand += use.demand;
  return demand;
}

double Load::next_change_s(double at_s) const {
  double next_s = kNever;
  for (const std::vector<Use>* const uses : {&messages_, &work_})
    for (const Use& use : *uses)
      for (const double change_s : {use.begin_s, use.end_s})
        if (change_s > at_s) next_s = std::min(next_s, change_s);
  return next_s;
}

void Load::run(std::vector<Chain>& chains) {
  std::vector<double> left;  // of the piece at hand
  std::vector<Use> made;
  for (const Chain& chain : chains) {
    left.push_back(chain.seconds.empty() ? 0 : chain.seconds.front());
    made.push_back({chain.now_s, chain.now_s, chain.demand});
  }
  double now_s = kNever;
  for (const Chain& chain : chains)
    if (!is_done(chain)) now_s = std::min(now_s, chain.now_s);
  while (now_s < kNever) {
    const double left_over = cores_ - demand(messages_, now_s);
    double wanted = demand(work_, now_s), next_s = next_change_s(now_s);
    for (const Chain& chain : chains) {
      if (is_done(chain)) continue;
      if (chain.now_s <= now_s)
        wanted += chain.demand;
      else
        next_s = std::min(next_s, chain.now_s);
    }
    const double speed = std::min(1.0, std::max(kLeastCores * cores_, left_over) / wanted);
    const auto works = [&](std::size_t i) {
      return !is_done(chains[i]) && chains[i].now_s <= now_s;
    };
    for (std::size_t i = 0; i < chains.size(); ++i)
      if (works(i)) next_s = std::min(next_s, now_s + left[i] / speed);
    for (std::size_t i = 0; i < chains.size(); ++i) {
      if (!works(i)) continue;
      Chain& chain = chains[i];
      const bool ends = now_s + left[i] / speed <= next_s;
      left[i] -= (next_s - now_s) * speed;
      if (!ends) continue;
      chain.end_s.push_back(next_s);
      made[i].end_s = next_s;
      if (!is_done(chain)) left[i] = chain.seconds[chain.end_s.size()];
    }
    // Chains that wait to begin have a time after next_s, or it.
    now_s = std::ranges::all_of(chains, is_done) ? kNever : next_s;
  }
  for (const Use& use : made)
    if (use.end_s > use.begin_s) work_.push_back(use);
}

}  // namespace fleet::lu
