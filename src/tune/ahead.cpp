// SPDX-License-Identifier: BSD-3-Clause
// ahead.cpp: jobs for helpers, and their results by tuning.
#include "tune/ahead.hpp"

#include <algorithm>
#include <utility>

#include "sim/simulate.hpp"

namespace fleet {

Ahead::Simulated Ahead::simulated(const Tuning& tuning) {
  Simulated result{.plan = make_plan(problem_, machine_, tuning, expansions_)};
  result.trace = simulate(result.plan, machine_, &result.rates_given);
  return result;
}

void Ahead::expect(const std::vector<Tuning>& tunings) {
  if (!helpers_.any()) return;
  helpers_.withdraw();
  expected_.clear();  // what helpers are at keeps what it needs
  for (const Tuning& tuning : tunings) {
    auto next = std::make_shared<Expected>(Expected{.tuning = tuning});
    next->job = std::make_shared<Helpers::Job>([this, to = std::weak_ptr(next)] {
      const auto result = to.lock();
      if (result == nullptr) return;
      try {
        result->simulated = simulated(result->tuning);
      } catch (...) {
        result->refusal = std::current_exception();
      }
    });
    expected_.push_back(next);
    helpers_.offer(next->job);
  }
}

Ahead::Simulated Ahead::take(const Tuning& tuning) {
  const auto found = std::ranges::find(expected_, tuning,
                                       [](const auto& e) -> const Tuning& { return e->tuning; });
  if (found == expected_.end()) return simulated(tuning);
  const std::shared_ptr<Expected> expected = std::move(*found);
  expected_.erase(found);
  helpers_.finish(*expected->job);
  if (expected->refusal != nullptr) std::rethrow_exception(expected->refusal);
  return *std::move(expected->simulated);
}

}  // namespace fleet
