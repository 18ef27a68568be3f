// SPDX-License-Identifier: BSD-3-Clause
// attempts.cpp: routes over other workers are given up where memory is short.
#include "tune/attempts.hpp"

#include <optional>

namespace fleet {

const Considered* Attempts::attempt(Considered c) {
  if (gives_up_ && gives_up_()) throw GaveUp();
  std::optional<Considered> direct;
  if (c.tuning.max_hops > 0) direct = c;
  const Considered* planned = choice_.attempt(std::move(c));
  if (planned == nullptr && direct) {
    // Tiles that pass through a worker take memory there.
    direct->tuning.max_hops = 0;
    return attempt(*std::move(direct));
  }
  if (planned != nullptr) budget_.spend(planned->effort);
  return planned;
}

bool Attempts::fits(const Considered& c, std::int64_t end) const {
  return std::max(c.tasks, c.effort) <= end - budget_.spent();
}

void Attempts::expect(const std::vector<Considered>& list, std::int64_t end, std::size_t most) {
  if (!choice_.helpers().any()) return;
  std::vector<Tuning> likely;
  std::int64_t spent = budget_.spent();
  for (const Considered& c : list) {
    if (c.tasks > end - spent) continue;
    spent += c.tasks;
    likely.push_back(c.tuning);
    if (likely.size() == most) break;
  }
  choice_.expect(likely);
}

const Considered* Attempts::attempt_before(std::int64_t end, Considered c) {
  if (fits(c, end)) return attempt(std::move(c));
  choice_.pass_over(std::move(c), Considered::Verdict::over_budget, end - budget_.spent());
  return nullptr;
}

}  // namespace fleet
