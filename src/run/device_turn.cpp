// SPDX-License-Identifier: BSD-3-Clause
// device_turn.cpp: waiting for devices, and giving them back. It knows no plans.
#include "run/device_turn.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/clock.hpp"

namespace fleet {
namespace {

/// So many calls in a row have to meet others before the next is expected to.
constexpr int kSteadyCalls = 4;
/// So often somebody may be overtaken.
constexpr int kPatience = 3;

bool overlap(const DeviceTurn::Range& a, const DeviceTurn::Range& b) {
  const auto end = [](const DeviceTurn::Range& range) {
    return range.begin + static_cast<std::uintptr_t>(range.bytes);
  };
  return a.bytes > 0 && b.bytes > 0 && a.begin < end(b) && b.begin < end(a);
}

bool uses(const DeviceTurn::Caller& caller, const DeviceTurn::Range& memory) {
  return std::ranges::any_of(caller.memory,
                             [&](const DeviceTurn::Range& own) { return overlap(own, memory); });
}

}  // namespace

void DeviceTurn::wait_until_empty(std::unique_lock<std::mutex>& lock) {
  ++waiting_for_all_;
  changed_.wait(lock, [&] { return visits_.empty(); });
  --waiting_for_all_;
  if (waiting_for_all_ == 0) changed_.notify_all();
}

std::unique_lock<std::mutex> DeviceTurn::take() {
  std::unique_lock lock(mutex_);
  if (!visits_.empty()) wait_until_empty(lock);
  return lock;
}

DeviceUse::DeviceUse(DeviceTurn& turn) : turn_(&turn), lock_(turn.mutex_) {
  turn.changed_.wait(lock_, [&] { return turn.waiting_for_all_ == 0; });
}

void DeviceUse::become_sole() {
  give_back();
  stop_waiting();
  if (!turn_->visits_.empty()) turn_->wait_until_empty(lock_);
}

Places DeviceUse::taken() const {
  Places places;
  for (const DeviceTurn::Visit& visit : turn_->visits_) places.add(visit.places);
  return places;
}

double DeviceUse::seconds_until_free(const Places& places) const {
  double most_s = 0;
  for (const DeviceTurn::Visit& visit : turn_->visits_)
    if (visit.places.meets(places)) most_s = std::max(most_s, std::abs(visit.end_s - now_s()));
  return most_s;
}

bool DeviceUse::is_steady() const { return turn_->met_others_ >= kSteadyCalls; }

const DeviceTurn::Caller* DeviceUse::rival(
    const std::function<bool(const Problem&)>& may_be) const {
  if (turn_->waiting_for_all_ > 0) return nullptr;  // nobody could use what was left
  for (auto other = turn_->waiting_.begin(); other != turn_->waiting_.end(); ++other)
    if (other != waiting_ && other->caller.seconds > 0 && may_be(other->caller.problem))
      return &other->caller;
  // Where somebody is at work, the last one may have been this thread itself.
  return is_steady() && turn_->visits_.empty() && turn_->last_ ? &*turn_->last_ : nullptr;
}

void DeviceUse::wait_for(const DeviceTurn::Range& memory) {
  if (turn_ == nullptr) return;
  turn_->changed_.wait(lock_, [&] {
    return std::ranges::none_of(
        turn_->visits_, [&](const DeviceTurn::Visit& visit) { return uses(visit.caller, memory); });
  });
}

void DeviceUse::take_when_free(const Places& places,
                               const std::array<DeviceTurn::Range, 3>& memory) {
  if (turn_ == nullptr) return;
  begin_waiting({.problem = {}, .seconds = 0, .memory = memory}, places);
  const auto is_free = [&] {
    if (turn_->waiting_for_all_ > 0) return false;
    return std::ranges::none_of(turn_->visits_, [&](const DeviceTurn::Visit& visit) {
      return visit.places.meets(places) || std::ranges::any_of(memory, [&](const auto& part) {
               return uses(visit.caller, part);
             });
    });
  };
  turn_->changed_.wait(lock_, [&] { return is_free() || is_overtaken(); });
  if (!is_free()) become_sole();
  take(places, {.problem = {}, .seconds = 0, .memory = memory}, 0);
}

void DeviceUse::wait(const DeviceTurn::Caller& caller, const Places& wanted, double seconds) {
  if (turn_->visits_.empty()) return;
  begin_waiting(caller, wanted);
  if (is_overtaken()) return become_sole();
  turn_->changed_.wait_for(lock_, std::chrono::duration<double>(seconds));
  // Who waits for all devices is let in first.
  turn_->changed_.wait(lock_, [&] { return turn_->waiting_for_all_ == 0; });
}

void DeviceUse::begin_waiting(const DeviceTurn::Caller& caller, const Places& wanted) {
  if (!waiting_) waiting_ = turn_->waiting_.insert(turn_->waiting_.end(), {caller, wanted});
}

bool DeviceUse::is_overtaken() const { return waiting_ && (*waiting_)->overtaken >= kPatience; }

void DeviceUse::take(const Places& places, const DeviceTurn::Caller& caller, double seconds) {
  visit_ = turn_->visits_.insert(turn_->visits_.end(), {places, now_s() + seconds, caller});
  stop_waiting();
  for (DeviceTurn::Waiting& other : turn_->waiting_) other.overtaken += other.wanted.meets(places);
}

void DeviceUse::stop_waiting() noexcept {
  if (waiting_) turn_->waiting_.erase(*waiting_);
  waiting_.reset();
}

/// With the lock.
void DeviceUse::give_back() noexcept {
  if (!visit_) return;
  if ((*visit_)->caller.seconds > 0) {  // no copy
    const bool meets_others = turn_->visits_.size() > 1 || !turn_->waiting_.empty();
    turn_->met_others_ = meets_others ? turn_->met_others_ + 1 : 0;
    turn_->last_ = (*visit_)->caller;
  }
  turn_->visits_.erase(*visit_);
  visit_.reset();
  turn_->changed_.notify_all();
}

void DeviceUse::leave() noexcept {
  if (turn_ == nullptr) return;
  if (!lock_.owns_lock()) lock_.lock();
  give_back();
  stop_waiting();
  lock_.unlock();
  turn_ = nullptr;
}

DeviceUse::Pause::Pause(DeviceUse* use) {
  if (use == nullptr || !use->is_visiting()) return;
  lock_ = &use->lock_;
  // Those who wait may have devices beside it.
  use->turn_->changed_.notify_all();
  lock_->unlock();
}

DeviceUse::Pause::~Pause() {
  if (lock_ != nullptr) lock_->lock();
}

}  // namespace fleet
