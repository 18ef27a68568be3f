// SPDX-License-Identifier: BSD-3-Clause
// plan_ahead.cpp: the desk at which drafts are made, one after another.
#include "core/plan_ahead.hpp"

#include <utility>

namespace fleet {

PlanAhead::PlanAhead()
    : desk_(std::make_shared<Desk>()), crew_(1, [desk = desk_](int) {
        while (auto draft = desk->work(desk->over)) desk->draft = std::move(draft);
      }) {}

void PlanAhead::begin(Work work) {
  if (!is_hired_ && !crew_.hire({0})) return;
  is_hired_ = is_busy_ = true;
  desk_->work = std::move(work);
  desk_->draft.reset();
  desk_->over = false;
  crew_.invite({0});
}

void PlanAhead::end() {
  if (!is_busy_) return;
  is_busy_ = false;
  desk_->over = true;
  crew_.wait();
  desk_->work = {};
  draft_ = std::move(desk_->draft);
}

}  // namespace fleet
