// SPDX-License-Identifier: BSD-3-Clause
// plan_again.cpp: the desk at which one problem after another is planned anew.
#include "core/plan_again.hpp"

#include <exception>
#include <utility>

#include "base/clock.hpp"
#include "base/exit_guard.hpp"

namespace fleet {

PlanAgain::PlanAgain()
    : desk_(std::make_shared<Desk>()), crew_(1, [desk = desk_](int) { plan(*desk); }) {}

void PlanAgain::plan(Desk& desk) {
  const ExitGuard inside;  // exit destroys the tables that planning reads
  const double start_s = now_s();
  try {
    desk.outcome.tuned = desk.work([&desk] { return !desk.is_wanted || ExitGuard::exiting(); });
  } catch (const std::exception&) {
    desk.outcome.tuned.reset();
  }
  desk.outcome.plan_s = now_s() - start_s;
  desk.work = {};
  desk.is_free.store(true, std::memory_order_release);
}

void PlanAgain::begin(const Problem& problem, std::uint64_t made_for, Work work) {
  if (!can_begin()) return;
  was_refused_ = !crew_.hire({0});
  if (was_refused_) return;
  desk_->work = std::move(work);
  desk_->outcome = {.problem = problem, .tuned = {}, .made_for = made_for};
  desk_->is_free = false;
  desk_->is_wanted = true;
  crew_.invite({0});
}

std::optional<PlanAgain::Outcome> PlanAgain::take() {
  if (!desk_->is_wanted || is_busy()) return {};
  desk_->is_wanted = false;
  return std::exchange(desk_->outcome, {});
}

}  // namespace fleet
