// SPDX-License-Identifier: BSD-3-Clause
// turns.hpp: whose turn it is in a queue whose members may have to wait, or may be urgent. Pure; it
// knows no calls.
#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace fleet {

/// A member of a queue.
struct Turn {
  bool may_start = true;
  int priority = 0;
};

/// Indices of the members whose turn it is, together and in this order: of those that may start,
/// the ones of the highest priority and what has to be done before them. `queue` is in the order of
/// arrival, and so is the result: nobody overtakes a member that `conflict(earlier, later)` is true
/// for, be that one ready to start or not. At most `most`.
std::vector<std::size_t> next_turns(std::span<const Turn> queue, std::size_t most,
                                    const std::function<bool(std::size_t, std::size_t)>& conflict);

}  // namespace fleet
