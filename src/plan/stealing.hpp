// SPDX-License-Identifier: BSD-3-Clause
// stealing.hpp: which op each worker computes next where workers take over each other's tiles
// (paper 5, IV-D: owner-computes with work stealing). It chooses; it emits nothing.
#pragma once
#include <algorithm>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "plan/walk.hpp"

namespace fleet {

/// The chains of a call, each worker's own first, in the order of the program.
///
/// A worker has as many of its own chains in progress as `width`, one op of each in turn, so that
/// the tiles of one step serve them all. When it has nothing left, it takes the last chain that the
/// worker with most left has not begun.
class Stealing {
 public:
  Stealing(const CallLayout& layout, int workers, int width)
      : layout_(layout),
        width_(static_cast<std::size_t>(width)),
        queues_(index(workers)),
        open_(index(workers)),
        done_(index(workers), false) {
    const ProgramCall& call = layout.call();
    for (int c = call.first_chain; c < call.first_chain + call.chains; ++c)
      queues_[index(layout.owner_of(layout.chain(c).target))].push_back(c);
  }

  /// Whether tiles may change their worker: not in groups, nor where a call reads what it writes.
  static bool is_possible(const CallLayout& layout) {
    const Dealing& deal = layout.deal();
    return !layout.call().reads_target && !layout.is_split() && !deal.streams && deal.cubes == 1 &&
           deal.groups() == 1;
  }

  struct Turn {
    int worker = 0;
    Next next;
  };
  /// The next op of the worker that is free first and has one, or nothing when all are done.
  /// free_s: per worker. One that is slow, or waits for copies, is left behind, and others take
  /// over its tiles.
  std::optional<Turn> next(std::span<const double> free_s) {
    for (;;) {
      int first = -1;
      for (int w = 0; w < std::ssize(free_s); ++w)
        if (!done_[index(w)] && (first < 0 || free_s[index(w)] < free_s[index(first)])) first = w;
      if (first < 0) return std::nullopt;
      if (const auto next = next_of(first)) return Turn{first, *next};
      done_[index(first)] = true;
    }
  }

 private:
  static std::size_t index(int worker) { return static_cast<std::size_t>(worker); }

  /// The next op of the worker, or nothing when none is left for it.
  std::optional<Next> next_of(int worker) {
    std::deque<Next>& open = open_[index(worker)];
    std::deque<int>& own = queues_[index(worker)];
    for (; open.size() < width_ && !own.empty(); own.pop_front()) open.push_back({own.front(), 0});
    if (open.empty())
      if (const int chain = steal(); chain >= 0) open.push_back({chain, 0});
    if (open.empty()) return std::nullopt;
    // One in progress for longer is ahead of those begun later.
    std::size_t least = 0;
    for (std::size_t i = 1; i < open.size(); ++i)
      if (open[i].at < open[least].at) least = i;
    const Next next = open[least];
    if (++open[least].at == layout_.chain(next.chain).ops)
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(least));
    return next;
  }

  /// A chain that nobody has begun, or -1.
  int steal() {
    const auto most = std::ranges::max_element(queues_, {}, &std::deque<int>::size);
    if (most->empty()) return -1;
    const int chain = most->back();
    most->pop_back();
    return chain;
  }

  const CallLayout& layout_;
  const std::size_t width_;
  std::vector<std::deque<int>> queues_;  ///< chains that are not begun, per worker
  std::vector<std::deque<Next>> open_;   ///< the next op of those in progress, per worker
  std::vector<bool> done_;               ///< per worker
};

}  // namespace fleet
