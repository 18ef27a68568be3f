// SPDX-License-Identifier: BSD-3-Clause
// choice.hpp: the candidates of one tuning that were planned and simulated, and the choice among
// them. It proposes none.
#pragma once
#include <vector>

#include "base/error.hpp"
#include "base/sizes.hpp"
#include "tune/ahead.hpp"
#include "tune/tune.hpp"

namespace fleet {

class Choice {
 public:
  /// All must outlive it.
  Choice(const Problem& problem, const Machine& machine, const Goal& goal)
      : machine_(machine),
        goal_(goal),
        search_{.objective = goal.objective},
        ahead_(problem, machine) {}

  /// Candidates that are likely to be attempted next, in this order: helpers begin with them.
  void expect(const std::vector<Tuning>& tunings) { ahead_.expect(tunings); }
  Helpers& helpers() { return ahead_.helpers(); }
  /// Plans and simulates a candidate, and books it. Null: it does not fit into memory or lacks a
  /// route. Valid until the next candidate.
  const Considered* attempt(Considered candidate);
  void pass_over(Considered&& candidate, Considered::Verdict verdict, std::int64_t limit) {
    search_.pass_over(std::move(candidate), verdict, limit);
  }

  /// No candidate has a part for the CPU, for this reason.
  void leave_cpu_out(std::string why) { search_.no_cpu = std::move(why); }
  /// Only candidates with a part for the CPU are to be chosen, if any has a plan.
  void require_cpu();

  int planned() const { return planned_; }
  /// What candidates are ranked by: their time, and after rank_by_goal() their value.
  double rank(const Considered& c) const { return by_goal_ ? c.value : c.seconds; }
  void rank_by_goal();
  /// The least rank.
  double least() const { return least_; }
  /// Why the last candidate without a plan has none.
  const Error& refusal() const { return refusal_; }
  /// The planned ones, best first; of workers `team` only, unless null.
  std::vector<Considered> best(std::size_t most, const std::vector<DeviceId>* team = nullptr) const;
  /// best(most, &team), but one of those that are cut alike, then of each other grid the best that
  /// is not far behind.
  std::vector<Considered> best_of_grids(std::size_t most, const std::vector<DeviceId>& team) const;

  /// Chooses. At least one candidate must have a plan. Throws Error(bad_argument) where the
  /// caller's objective is a number for none.
  Tuned take();

 private:
  /// Whether a candidate may be chosen, whatever its rank.
  class Eligible;
  struct Kept {
    std::size_t candidate;  ///< its index in `search_`
    Plan plan;
    Trace trace;
    double rank;
  };
  bool is_too_slow(const Considered& c) const {
    return by_goal_ && c.seconds > goal_.objective.most_time * least_s_;
  }
  Kept plan_of(std::size_t candidate);
  std::vector<std::size_t> nearly_best() const;
  void examine(const std::vector<Kept>& affordable);

  const Machine& machine_;
  const Goal& goal_;
  Search search_;
  Ahead ahead_;
  std::vector<Kept> near_;  ///< plans nearly as good as the best so far
  bool by_goal_ = false;
  double least_ = kNever, least_s_ = kNever;
  Error refusal_{Status::no_memory, "the memory caps hold no tile product"};
  int planned_ = 0;
};

}  // namespace fleet
