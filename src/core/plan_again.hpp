// SPDX-License-Identifier: BSD-3-Clause
// plan_again.hpp: the thread that plans a problem anew, with all the time that a good plan takes,
// while calls run with the plan that they did not have to wait long for. It knows no devices.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "base/worker_crew.hpp"
#include "problem/problem.hpp"
#include "tune/tune.hpp"

namespace fleet {

/// For one thread at a time. Its thread is started by the first problem and ends with its owner; a
/// forked child has none. What nobody wants any more ends with the plan that is being made.
class PlanAgain {
 public:
  /// What planning came to.
  struct Outcome {
    Problem problem;
    std::optional<Tuned> tuned;  ///< nothing: no plan is possible, or there was no memory for it
    double plan_s = 0;           ///< measured
    std::uint64_t made_for = 0;  ///< what begin() was told
  };
  /// It takes no state but its own, and may throw. `gives_up` becomes true when the outcome is not
  /// wanted any more, or the process exits.
  using Work = std::function<Tuned(const std::function<bool()>& gives_up)>;

  PlanAgain();
  ~PlanAgain() { forget(); }
  PlanAgain(const PlanAgain&) = delete;
  PlanAgain& operator=(const PlanAgain&) = delete;

  /// Is a problem being planned, which takes cores from whatever else is under way?
  bool is_busy() const { return !desk_->is_free.load(std::memory_order_acquire); }
  /// Is none being planned, and is a thread to be had? A forked child has none.
  bool can_begin() const { return !is_busy() && !was_refused_ && crew_.present(); }
  /// Begins if it can. What nobody has taken is gone then. `made_for`: the version of the machine.
  void begin(const Problem& problem, std::uint64_t made_for, Work work);
  /// The last outcome, once it is there; each is given once.
  std::optional<Outcome> take();
  /// What is being planned is not wanted any more.
  void forget() { desk_->is_wanted = false; }

 private:
  /// Shared with the thread, which may outlive this.
  struct Desk {
    Work work;
    Outcome outcome;
    std::atomic<bool> is_free{true};
    std::atomic<bool> is_wanted{false};  ///< the outcome on the desk, or to come
  };
  static void plan(Desk& desk);

  const std::shared_ptr<Desk> desk_;
  WorkerCrew crew_;
  bool was_refused_ = false;  ///< the system has refused the thread
};

}  // namespace fleet
