// SPDX-License-Identifier: BSD-3-Clause
// online.hpp: the machine that a context plans for, as its runs correct it. It knows no plan cache
// and no backend.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "core/corrections_text.hpp"
#include "core/plan_cache.hpp"

namespace fleet {

/// Counts the calls that this process computes, on devices or on the CPU, in whichever context:
/// they share the cores and the memory. Process-wide for that reason.
class Computing {
 public:
  Computing() : others_(running_.fetch_add(1) > 0), begun_(all_begun_.fetch_add(1) + 1) {}
  ~Computing() { running_.fetch_sub(1); }
  Computing(const Computing&) = delete;
  Computing& operator=(const Computing&) = delete;
  /// Whether no other call was under way at any time since.
  bool alone() const { return !others_ && all_begun_.load() == begun_; }
  /// For a call that somebody else has computed meanwhile.
  static void note_other() { all_begun_.fetch_add(1, std::memory_order_relaxed); }

 private:
  static std::atomic<int> running_;
  static std::atomic<std::uint64_t> all_begun_;
  const bool others_;
  const std::uint64_t begun_;
};

/// Changed by the thread with the turn only; read by any.
class OnlineModel {
 public:
  /// Writes a machine where later processes find it, as far as that is possible.
  using Keep = std::function<void(const Machine&)>;

  void start(std::shared_ptr<const Machine> machine, Keep keep);

  /// nullptr before start(). Also in a forked child.
  std::shared_ptr<const Machine> machine() const;
  /// The number of times that the machine has changed.
  std::uint64_t version() const { return version_.load(std::memory_order_relaxed); }
  /// The corrections of the machine; null: none. For the thread with the turn.
  const std::shared_ptr<const NamedCorrections>& corrections() const { return corrections_; }

  /// Learns from a run of `planned`, which was made or priced for the present machine. Where runs
  /// are much faster than predicted and no rate shows why, corrections downwards are dropped: they
  /// describe a machine that was disturbed. True: the prediction was far off twice, and what plans
  /// are made for (for_plans()) has changed since, so that a better plan may exist.
  bool outdates(const Planned& planned, const Trace& measured);

  /// For a call that the model kept off some devices, or off all. If rates were corrected
  /// downwards, the corrections are dropped after kPatience such calls, then after twice as many,
  /// and so on: what slowed a device down may be gone, and no run would show it. True: they are
  /// dropped, and plans are to be made anew.
  bool forgets_after_unused();

 private:
  static constexpr std::uint64_t kPatience = 64;
  static constexpr double kKeepAgainS = 1;
  void change(std::shared_ptr<const Machine> machine);
  /// As one more version.
  void correct(Machine machine);
  bool has_slower() const;

  std::shared_ptr<const Machine> machine_;
  std::shared_ptr<const NamedCorrections> corrections_;
  std::atomic<std::uint64_t> version_{0};
  std::uint64_t plans_since_ = 0;  ///< the version since which plans are made as now
  std::uint64_t unused_ = 0, patience_ = kPatience;  ///< calls
  Keep keep_;
  bool is_kept_ = true;  ///< the last correction, or nothing keeps machines
  double kept_at_s_ = 0;
};

}  // namespace fleet
