// SPDX-License-Identifier: BSD-3-Clause
// plan_ahead.hpp: the thread that plans the next queued calls while the devices run those before.
// It knows no devices.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/worker_crew.hpp"
#include "core/call_order.hpp"
#include "core/program_planner.hpp"

namespace fleet {

/// Owned and used by the thread of the queue alone; begin() and end() enclose a run. Its thread is
/// started by the first run, waits between runs, and ends with its owner; a forked child has none
/// and never asks for it.
class PlanAhead {
 public:
  /// A plan for the calls with these events, if the program and what it finds are as the key says.
  struct Draft {
    std::vector<std::shared_ptr<Event>> events;
    ProgramKey key;
    Planned planned;
  };
  /// Whether the run is over, and a bell that rings then.
  class Run {
   public:
    bool is_over() const { return over_.load(); }
    /// False: it is over.
    bool wait_for(std::chrono::microseconds time);
    void begin() { over_ = false; }
    void end();

   private:
    std::atomic<bool> over_{false};
    std::mutex mutex_;
    std::condition_variable bell_;
  };
  /// Looks for calls and plans them; returns nothing when the run is over. It does not throw.
  using Work = std::function<std::unique_ptr<Draft>(Run& run)>;

  PlanAhead();

  /// From now on drafts are made. Without a thread to be had there are none.
  void begin(Work work);
  /// Waits for the draft that is being made.
  void end();
  /// The last draft; each is given once.
  std::unique_ptr<Draft> take() { return std::move(draft_); }

 private:
  /// Shared with the thread, which may outlive this.
  struct Desk {
    Work work;
    std::unique_ptr<Draft> draft;
    Run run;
  };

  const std::shared_ptr<Desk> desk_;
  WorkerCrew crew_;
  bool is_hired_ = false, is_busy_ = false;
  std::unique_ptr<Draft> draft_;
};

}  // namespace fleet
