// SPDX-License-Identifier: BSD-3-Clause
// plan_ahead.cpp: the desk at which drafts are made, one after another.
#include "core/plan_ahead.hpp"

#include <utility>

namespace fleet {

bool PlanAhead::Run::wait_for(std::chrono::microseconds time) {
  std::unique_lock lock(mutex_);
  return !bell_.wait_for(lock, time, [&] { return over_.load(); });
}

void PlanAhead::Run::end() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  bell_.notify_all();
}

PlanAhead::PlanAhead()
    : desk_(std::make_shared<Desk>()), crew_(1, [desk = desk_](int) {
        while (auto draft = desk->work(desk->run)) desk->draft = std::move(draft);
      }) {}

void PlanAhead::begin(Work work) {
  if (!is_hired_ && !crew_.hire({0})) return;
  is_hired_ = is_busy_ = true;
  desk_->work = std::move(work);
  desk_->draft.reset();
  desk_->run.begin();
  crew_.invite({0});
}

void PlanAhead::end() {
  if (!is_busy_) return;
  is_busy_ = false;
  desk_->run.end();
  crew_.wait();
  desk_->work = {};
  draft_ = std::move(desk_->draft);
}

}  // namespace fleet
