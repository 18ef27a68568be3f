// SPDX-License-Identifier: BSD-3-Clause
// goal.cpp: the value of a cost by each objective.
#include "tune/goal.hpp"

#include <cmath>
#include <limits>

namespace fleet {

double Goal::value(const Cost& cost) const {
  const double energy = cost.joules > 0 ? cost.joules : cost.devices * cost.seconds;
  switch (objective.kind) {
    case Objective::Kind::time:
      return cost.seconds;
    case Objective::Kind::edp:
      return energy * cost.seconds;
    case Objective::Kind::energy:
      return energy;
    case Objective::Kind::own:
      break;
  }
  const double value = own(cost);
  return std::isfinite(value) ? value : std::numeric_limits<double>::infinity();
}

}  // namespace fleet
