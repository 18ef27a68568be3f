// SPDX-License-Identifier: BSD-3-Clause
// online.cpp: takes over what runs teach, and has it kept. It must not know how it is learnt.
#include "core/online.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/clock.hpp"
#include "base/gate.hpp"

namespace fleet {

std::atomic<int> Computing::running_{0};
std::atomic<std::uint64_t> Computing::all_begun_{0};

void OnlineModel::start(std::shared_ptr<const Machine> machine, Keep keep) {
  keep_ = std::move(keep);
  change(std::move(machine));
}

std::shared_ptr<const Machine> OnlineModel::machine() const {
  const gate::StateLock lock;
  return machine_;
}

void OnlineModel::change(std::shared_ptr<const Machine> machine) {
  auto named = named_corrections(*machine);
  auto corrections =
      named.empty() ? nullptr : std::make_shared<const NamedCorrections>(std::move(named));
  const gate::StateLock lock;
  std::swap(machine_, machine);  // the old one is freed after the lock
  std::swap(corrections_, corrections);
}

void OnlineModel::correct(Machine machine) {
  const bool changes_plans = for_plans(machine) != for_plans(*machine_);
  change(std::make_shared<const Machine>(std::move(machine)));
  ++version_;
  if (changes_plans) plans_since_ = version();
}

bool OnlineModel::has_slower() const {
  const auto is_slower = [](const NamedCorrection& correction) { return correction.factor < 1; };
  return corrections_ != nullptr && std::ranges::any_of(*corrections_, is_slower);
}

bool OnlineModel::forgets_after_unused() {
  if (!has_slower() || ++unused_ < patience_) return false;
  unused_ = 0;
  patience_ *= 2;
  correct(uncorrected(*machine_));
  return true;
}

bool OnlineModel::outdates(const Planned& planned, const Trace& measured) {
  const Lesson lesson =
      learn(*planned.evidence, planned.tuned.plan, *machine_, planned.tuned.cost.seconds, measured);
  if (!lesson.corrections.empty()) {
    correct(corrected(*machine_, lesson.corrections));
    is_kept_ = keep_ == nullptr;
  } else if (lesson.too_fast && has_slower()) {
    correct(at_best(*machine_));
    is_kept_ = keep_ == nullptr;
  }
  // Writing takes a few milliseconds: not at each of many small changes. The last of them is
  // written once a second has passed.
  if (!is_kept_ && (std::has_single_bit(version()) || now_s() - kept_at_s_ >= kKeepAgainS)) {
    keep_(*machine_);
    is_kept_ = true;
    kept_at_s_ = now_s();
  }
  return lesson.far_off && planned.made_for < plans_since_;
}

}  // namespace fleet
