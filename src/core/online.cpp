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

bool OnlineModel::has_slower() const {
  const auto is_slower = [](const NamedCorrection& correction) { return correction.factor < 1; };
  return corrections_ != nullptr && std::ranges::any_of(*corrections_, is_slower);
}

bool OnlineModel::forgets_after_unused() {
  if (!has_slower() || ++unused_ < patience_) return false;
  unused_ = 0;
  patience_ *= 2;
  change(std::make_shared<const Machine>(uncorrected(*machine_)));
  ++version_;
  return true;
}

bool OnlineModel::outdates(const Planned& planned, const Trace& measured) {
  const Lesson lesson =
      learn(*planned.evidence, planned.tuned.plan, *machine_, planned.tuned.cost.seconds, measured);
  if (!lesson.corrections.empty()) {
    change(std::make_shared<const Machine>(corrected(*machine_, lesson.corrections)));
    ++version_;
    is_kept_ = keep_ == nullptr;
  } else if (lesson.too_fast && has_slower()) {
    change(std::make_shared<const Machine>(at_best(*machine_)));
    ++version_;
    is_kept_ = keep_ == nullptr;
  }
  // Writing takes a few milliseconds: not at each of many small changes. The last of them is
  // written once a second has passed.
  if (!is_kept_ && (std::has_single_bit(version()) || now_s() - kept_at_s_ >= kKeepAgainS)) {
    keep_(*machine_);
    is_kept_ = true;
    kept_at_s_ = now_s();
  }
  return lesson.far_off && planned.made_for != version();
}

}  // namespace fleet
