// SPDX-License-Identifier: BSD-3-Clause
// considered.hpp: what the tuner considered, and why it chose what it chose. Values: they decide
// nothing.
#pragma once
#include <string>
#include <vector>

#include "program/tuning.hpp"

namespace fleet {

struct Considered {
  /// What became of it. The first four were planned and simulated.
  enum class Verdict {
    chosen,
    slower,        ///< than the chosen one
    more_issuing,  ///< no slower, but so little faster that its further tasks would eat the gain
    alike,         ///< no slower, no fewer tasks to issue: the one planned first was kept
    refused,       ///< the planner found no plan: no memory, or no way
    over_budget,   ///< of planning
    enough_plans,  ///< were made before its turn
    too_large,     ///< its tiles are larger than any link needs
  };

  Tuning tuning;
  double estimate_s = 0;   ///< closed form; 0: levels 1 and 2 have none
  double seconds = 0;      ///< simulated; 0 without a plan
  std::int64_t tasks = 0;  ///< of its plan; an estimate without one
  Verdict verdict = Verdict::slower;
  std::int64_t limit = 0;  ///< that it was above: tasks left, plans made, bytes of a tile product
  std::string refusal;     ///< the planner's message

  bool is_planned() const { return verdict <= Verdict::alike; }
};

inline constexpr int kVerdicts = 8;
const char* to_string(Considered::Verdict verdict);  ///< the enumerator's name

/// All candidates of one tuning.
struct Search {
  std::vector<Considered> list;  ///< in the order in which they were dealt with
  std::size_t chosen = 0;
  std::size_t passed_over = 0;  ///< those in the list that have no plan
  std::int64_t not_kept = 0;    ///< more that had no plan; they are in no list

  /// Notes one without a plan, or counts it where there are enough of them.
  void pass_over(Considered&& candidate, Considered::Verdict verdict, std::int64_t limit = 0);
  /// Gives all that were planned their verdict, now that one of them is chosen. `issue_s` is what
  /// issuing costs per task.
  void choose(std::size_t index, double issue_s);
  /// The chosen one, others that were planned by their time, and the rest by estimate.
  std::vector<const Considered*> best_first() const;
  /// Why it was not chosen, as one sentence that is true by its numbers.
  std::string reason(const Considered& candidate) const;
};

}  // namespace fleet
