// SPDX-License-Identifier: BSD-3-Clause
// objective.hpp: what plans are chosen for, as a value and as a word. It knows no costs.
#pragma once
#include <limits>
#include <string>
#include <string_view>

namespace fleet {

struct Objective {
  enum class Kind {
    time,    ///< seconds
    edp,     ///< seconds times joules (energy-delay product)
    energy,  ///< joules; paper 2 calls it PDP, the product of power and delay
    own,     ///< a number that the caller computes
  };
  Kind kind = Kind::time;
  /// Plans that take longer than this many times the least time are not chosen ("energy@1.1").
  double most_time = std::numeric_limits<double>::infinity();

  bool is_time() const { return kind == Kind::time; }
  friend bool operator==(const Objective&, const Objective&) = default;
};

/// "time", "edp", "energy" (or "pdp"), "energy@X" with X >= 1. Throws Error(bad_option).
Objective parse_objective(std::string_view text);
/// The word of parse_objective, "own" for Kind::own.
std::string to_string(const Objective& objective);

}  // namespace fleet
