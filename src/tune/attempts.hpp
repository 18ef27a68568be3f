// SPDX-License-Identifier: BSD-3-Clause
// attempts.hpp: plans and simulates candidates while a budget lasts. It proposes and chooses none.
#pragma once
#include <algorithm>
#include <functional>
#include <vector>

#include "tune/choice.hpp"
#include "tune/limits.hpp"

namespace fleet {

/// The budget of planning, in tasks. It grows with the size of the plans made.
class Budget {
 public:
  /// `run_s` is the estimated time of the run; `part` of what it is worth is the budget.
  explicit Budget(double run_s, double part = 1)
      : affordable_(part * limits::kLargestShare * run_s * limits::kTasksPerSecond),
        factor_(part * limits::kBudgetFactor) {
    const double usual = part * std::max(limits::kUsualBudget,
                                         limits::kUsualShare * run_s * limits::kTasksPerSecond);
    const double least = part * static_cast<double>(limits::kLeastBudget);
    whole_ = static_cast<std::int64_t>(std::max(least, std::min(affordable_, usual)));
  }

  void spend(std::int64_t effort) {
    spent_ += effort;
    const double wanted = factor_ * static_cast<double>(effort);
    whole_ = std::max(whole_, static_cast<std::int64_t>(std::min(wanted, affordable_)));
  }
  std::int64_t whole() const { return whole_; }
  std::int64_t spent() const { return spent_; }

 private:
  double affordable_, factor_;
  std::int64_t spent_ = 0, whole_ = 0;
};

class Attempts {
 public:
  /// All must outlive it.
  Attempts(Choice& choice, Budget& budget, const std::function<bool()>& gives_up)
      : choice_(choice), budget_(budget), gives_up_(gives_up) {}

  /// Plans and simulates one tuning. Returns what came out, until the next one; null if it does not
  /// fit into memory or lacks a route. Throws GaveUp.
  const Considered* attempt(Considered candidate);
  /// The same if its tasks fit into the budget up to `end`.
  const Considered* attempt_before(std::int64_t end, Considered candidate);
  bool fits(const Considered& candidate, std::int64_t end) const;
  /// The first candidates are attempted next, as far as the budget up to `end` goes.
  void expect(const std::vector<Considered>& list, std::int64_t end,
              std::size_t most = limits::kMostPlanned);

  Choice& choice() { return choice_; }
  const Budget& budget() const { return budget_; }

 private:
  Choice& choice_;
  Budget& budget_;
  const std::function<bool()>& gives_up_;
};

}  // namespace fleet
