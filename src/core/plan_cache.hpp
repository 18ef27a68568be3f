// SPDX-License-Identifier: BSD-3-Clause
// plan_cache.hpp: plans by what they are for, the least recently used ones dropped. It knows no
// machine; the owner sees to locks.
#pragma once
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "run/backend.hpp"
#include "run/places.hpp"
#include "sim/evidence.hpp"
#include "tune/tune_factorization.hpp"
#include "tune/tune_program.hpp"

namespace fleet {

/// A plan, and what deciding whether to use it needs.
struct Planned {
  /// Of the time of a search in full, what one for a call that waits takes (limits::kQuick).
  static constexpr double kQuickShare = 0.25;
  Tuned tuned;
  Places places;      ///< that a run of it has to itself
  double plan_s = 0;  ///< tuning and planning together, measured
  /// Of the plans that are kept: different for each (see Backend::begin).
  std::uint64_t serial = 0;
  /// The devices that the plan does without, by user-facing number; null: none.
  std::shared_ptr<const std::vector<LeftOut>> left_out = {};
  std::vector<DeviceId> part = {};  ///< the devices that it had to be for; empty: any
  bool is_ahead = false;            ///< made while the devices ran something else
  /// A longer search may find a better one: this was made for a call that waited for it.
  bool may_improve = false;
  double cpu_share = 0;  ///< of its multiply-adds, by the CPU beside the devices
  double host_s = 0;     ///< what the CPU BLAS would take, copies from devices included
  /// The changes of the machine (OnlineModel::version) before the plan was made, and before its
  /// cost was predicted.
  std::uint64_t made_for = 0, priced_for = 0;
  /// About what a search in full for its problem takes.
  double whole_search_s() const { return may_improve ? plan_s / kQuickShare : plan_s; }
  /// Of its runs; the thread with the turn writes it.
  std::shared_ptr<Evidence> evidence = std::make_shared<Evidence>();
};

/// Pinned memory of the host that runs of one plan use again and again: a backend may keep them
/// with its address.
class KeptPinned {
 public:
  KeptPinned() = default;
  ~KeptPinned();
  KeptPinned(const KeptPinned&) = delete;
  KeptPinned& operator=(const KeptPinned&) = delete;
  /// Always the same number of bytes. Throws Error(no_memory).
  void* of(Backend& backend, std::int64_t bytes);

 private:
  Backend* backend_ = nullptr;
  void* data_ = nullptr;
};

/// A factorization as plans of its stages, in their order.
struct PlannedFactors {
  std::vector<std::shared_ptr<const Planned>> stages;
  Cost cost;  ///< predicted: of all stages
  double host_s = 0, plan_s = 0;
  std::uint64_t priced_for = 0;    ///< as in Planned, where there are no stages: the CPU is faster
  std::vector<TriedStrips> tried;  ///< what the stages were chosen from
  /// Of the panels' outcomes; for the thread with the turn.
  std::shared_ptr<KeptPinned> outcomes = std::make_shared<KeptPinned>();
};

/// `Key`: what plans are made for.
template <class Key>
class PlanCache {
 public:
  /// nullptr when there is none.
  std::shared_ptr<const Planned> find(const Key& key) {
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry)
      if (entry->first == key) {
        entries_.splice(entries_.begin(), entries_, entry);
        return entry->second;
      }
    return nullptr;
  }

  void insert(const Key& key, std::shared_ptr<const Planned> planned) {
    erase(key);
    tasks_ += planned->tuned.plan.tasks.size();
    entries_.emplace_front(key, std::move(planned));
    while (entries_.size() > 1 && (entries_.size() > kMostPlans || tasks_ > kMostTasks)) {
      tasks_ -= entries_.back().second->tuned.plan.tasks.size();
      entries_.pop_back();
    }
  }

  void erase(const Key& key) {
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry)
      if (entry->first == key) {
        tasks_ -= entry->second->tuned.plan.tasks.size();
        entries_.erase(entry);
        return;
      }
  }

  /// Forgets everything: devices or caps have changed.
  void clear() {
    entries_.clear();
    tasks_ = 0;
  }

 private:
  static constexpr std::size_t kMostPlans = 128;
  static constexpr std::size_t kMostTasks = 400'000;  // about 50 MB

  // Comparing a hundred problems takes less than a microsecond, so a list is enough.
  std::list<std::pair<Key, std::shared_ptr<const Planned>>> entries_;
  std::size_t tasks_ = 0;
};

}  // namespace fleet
