// SPDX-License-Identifier: BSD-3-Clause
// team_search.hpp: plans with sets of workers that do without some, and variants of the best. It
// must not know the problem, the machine, or how candidates are made.
#pragma once
#include <functional>
#include <utility>
#include <vector>

#include "tune/attempts.hpp"
#include "tune/teams.hpp"

namespace fleet {

class TeamSearch {
 public:
  /// The candidates of a team, the most promising first. Helpers call it too.
  using List = std::function<std::vector<Considered>(const Team&)>;
  /// Attempts variants of the best plans of a team, with groups for so many tasks.
  using Vary = std::function<void(const Team&, std::int64_t for_groups)>;

  /// The plans with all `workers` are made elsewhere. They and `attempts` must outlive it.
  TeamSearch(Attempts& attempts, const Team& workers, List list, Vary vary)
      : attempts_(attempts), workers_(workers), list_(std::move(list)), vary_(std::move(vary)) {}

  /// Plans with sets of workers that may be better than those that were tried, and varies the best.
  void search(const std::vector<Team>& teams);
  /// Says of sets without a plan that their candidates had too many tasks.
  void pass_over_rest();

 private:
  /// A set of workers that does without some.
  struct Trial {
    Team team;
    std::vector<Considered> list;  ///< the candidates that are left, the most promising first
    std::size_t tried = 0;         ///< no longer in the list
    double least = kNever;         ///< rank while it was tried
    bool is_varied = false;
  };
  void attempt_trials(std::int64_t end);
  bool attempt_next(Trial& trial, std::int64_t end);
  std::vector<Trial*> best_trials();

  Attempts& attempts_;
  Choice& choice_ = attempts_.choice();
  const Budget& budget_ = attempts_.budget();
  const Team& workers_;
  const List list_;
  const Vary vary_;
  std::vector<Trial> trials_;  ///< of all searches
};

}  // namespace fleet
