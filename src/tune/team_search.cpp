// SPDX-License-Identifier: BSD-3-Clause
// team_search.cpp: a few candidates of every set, more of those that are not far behind, and
// variants of the best.
#include "tune/team_search.hpp"

#include <algorithm>

namespace fleet {

/// The sets with the best plans of those that were not varied. Even one that is behind may be the
/// best once its parts are uneven.
std::vector<TeamSearch::Trial*> TeamSearch::best_trials() {
  std::vector<Trial*> best;
  for (const Considered& c : choice_.best(static_cast<std::size_t>(choice_.planned()))) {
    const auto trial = std::ranges::find(trials_, c.tuning.workers, &Trial::team);
    if (trial == trials_.end() || trial->is_varied) continue;
    if (best.size() < limits::kMostVaried && std::ranges::find(best, &*trial) == best.end())
      best.push_back(&*trial);
  }
  return best;
}

// Plans the first candidates of sets that do without some of the workers: one of each set, then the
// next of each, but for sets that are far behind. Sets of an earlier search had their turn, unless
// all that they have was too large then.
void TeamSearch::attempt_trials(std::int64_t end) {
  std::vector<Trial*> fresh;
  for (Trial& trial : trials_)
    if (trial.tried == 0) fresh.push_back(&trial);
  std::vector<Considered> likely;
  for (std::size_t round = 0; round < limits::kLeastOfTeam; ++round)
    for (const Trial* const trial : fresh)
      if (round < trial->list.size()) likely.push_back(trial->list[round]);
  attempts_.expect(likely, end);
  for (std::size_t round = 0; round < limits::kMostOfTeam; ++round)
    for (Trial* const trial : fresh) {
      const bool is_hopeless = round >= limits::kLeastOfTeam &&
                               trial->least > within(limits::kHopelessTeam, choice_.least());
      if (!is_hopeless) attempt_next(*trial, end);
    }
}

// Plans the first candidate that fits into the budget. False: there is none.
bool TeamSearch::attempt_next(Trial& trial, std::int64_t end) {
  const auto next =
      std::ranges::find_if(trial.list, [&](const Considered& c) { return attempts_.fits(c, end); });
  if (next == trial.list.end()) return false;
  Considered candidate = std::move(*next);
  trial.list.erase(next);
  ++trial.tried;
  if (const Considered* planned = attempts_.attempt(std::move(candidate)))
    trial.least = std::min(trial.least, choice_.rank(*planned));
  return true;
}

void TeamSearch::search(const std::vector<Team>& teams) {
  const std::size_t known = trials_.size();
  for (const Team& team : teams)
    if (team != workers_ && std::ranges::find(trials_, team, &Trial::team) == trials_.end())
      trials_.push_back({.team = team});
  choice_.helpers().for_each(trials_.size() - known, [&](std::size_t i) {
    Trial& trial = trials_[known + i];
    trial.list = list_(trial.team);
  });
  const bool many = workers_.size() > limits::kMostEnumerated;
  const std::int64_t whole = budget_.whole();
  attempt_trials(budget_.spent() + (many ? limits::kForTeamsOfMany : limits::kForTeams)(whole));
  for (Trial* const trial : best_trials()) {
    const std::int64_t end = budget_.spent() + limits::kForBestTeam(whole);
    if (!many) attempts_.expect(trial->list, end, limits::kMostOfBestTeam - trial->tried);
    while (!many && trial->tried < limits::kMostOfBestTeam && attempt_next(*trial, end)) {
    }
    vary_(trial->team, limits::kForGroupsOfTeam(whole));
    trial->is_varied = true;
  }
}

void TeamSearch::pass_over_rest() {
  for (Trial& trial : trials_)
    if (trial.tried == 0 && !trial.list.empty())
      choice_.pass_over(std::move(trial.list.front()), Considered::Verdict::over_budget, 0);
}

}  // namespace fleet
