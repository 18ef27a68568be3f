// SPDX-License-Identifier: BSD-3-Clause
// factor_lanes.hpp: the lanes in which a worker updates strips and makes panels, and until when
// each is taken by the planner's clock. It knows no strips.
#pragma once
#include <algorithm>
#include <vector>

#include "base/sizes.hpp"

namespace fleet {

class FactorLanes {
 public:
  FactorLanes() = default;
  /// `updates`: lanes of updates, at least one; `panels_apart`: one more, of panels alone.
  FactorLanes(int updates, bool panels_apart)
      : updates_(updates), free_s_(index(updates + (panels_apart ? 1 : 0)), 0.0) {}

  /// Of those of updates, the one that is free first.
  int of_update() const {
    const auto begin = free_s_.begin();
    return static_cast<int>(std::min_element(begin, begin + updates_) - begin);
  }
  int of_panel() const { return std::ssize(free_s_) > updates_ ? updates_ : of_update(); }
  double free_s(int lane) const { return free_s_[index(lane)]; }
  /// When the next update can start.
  double next_s() const { return free_s(of_update()); }
  void take(int lane, double until_s) { free_s_[index(lane)] = until_s; }

 private:
  int updates_ = 0;
  std::vector<double> free_s_;
};

}  // namespace fleet
