// SPDX-License-Identifier: BSD-3-Clause
// goal.hpp: the number that the tuner makes least, from the cost of a plan. It knows no tuning.
#pragma once
#include <cmath>
#include <functional>

#include "base/objective.hpp"
#include "sim/trace.hpp"

namespace fleet {

struct Goal {
  Objective objective;
  /// With Objective::Kind::own: the caller's number of a predicted cost, less being better. A cost
  /// whose number is not finite is never chosen.
  std::function<double(const Cost&)> own;

  bool is_time() const { return objective.is_time(); }
  /// Of two costs the one with the lesser value is better. Where the watts of devices are not known
  /// each counts as one watt, as in paper 2 (one number for each selected GPU): what is compared is
  /// the time of devices then.
  double value(const Cost& cost) const;
};

/// The largest value that counts as within `ratio` of `least`, which a caller may have made
/// negative.
inline double within(double ratio, double least) { return least + (ratio - 1) * std::abs(least); }

}  // namespace fleet
