// SPDX-License-Identifier: BSD-3-Clause
// turns.cpp: one pass over the queue for who may start, and one back for who must go before. It
// knows no calls.
#include "base/turns.hpp"

#include <algorithm>

namespace fleet {
namespace {

/// Of longer queues only so many members are looked at: comparing them takes a few milliseconds.
constexpr std::size_t kMostCompared = 1024;

}  // namespace

std::vector<std::size_t> next_turns(std::span<const Turn> queue, std::size_t most,
                                    const std::function<bool(std::size_t, std::size_t)>& conflict) {
  std::vector<std::size_t> ready, waiting;
  for (std::size_t i = 0; i < queue.size() && ready.size() < kMostCompared; ++i) {
    const auto is_behind = [&](std::size_t earlier) { return conflict(earlier, i); };
    const bool waits = !queue[i].may_start || std::ranges::any_of(waiting, is_behind);
    (waits ? waiting : ready).push_back(i);
  }
  if (ready.empty()) return {};
  const auto priority = [&](std::size_t i) { return queue[i].priority; };
  const int highest = priority(*std::ranges::max_element(ready, {}, priority));

  std::vector<std::size_t> next;  // the last first
  for (auto i = ready.rbegin(); i != ready.rend(); ++i) {
    const auto is_needed = [&](std::size_t later) { return conflict(*i, later); };
    if (priority(*i) == highest || std::ranges::any_of(next, is_needed)) next.push_back(*i);
  }
  std::ranges::reverse(next);
  if (next.size() > most) next.resize(most);
  return next;
}

}  // namespace fleet
