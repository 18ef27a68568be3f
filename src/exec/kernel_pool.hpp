// SPDX-License-Identifier: BSD-3-Clause
// kernel_pool.hpp: the kernels of one device that share nothing but the device: n of them run at
// 1/n of their speed each. It knows queues as numbers only.
#pragma once
#include <algorithm>
#include <limits>
#include <vector>

namespace fleet {

/// Because all kernels run at the same rate, one clock of "service given to each" says when each is
/// done, and a start or stop costs a look at the few lanes and no more.
class KernelPool {
 public:
  static constexpr double kIdle = std::numeric_limits<double>::infinity();
  static constexpr int kNone = -1;

  void start(int queue, double launch_s, double work_s, double now_s) {
    advance(now_s);
    entries_.push_back({.queue = queue, .work_s = work_s, .due = now_s + launch_s});
  }

  /// When the next launch is over or the next kernel done.
  double next_event_s() const {
    double launched_s = kIdle, least_service = kIdle;
    for (const Entry& entry : entries_) {
      double& least = entry.running ? least_service : launched_s;
      least = std::min(least, entry.due);
    }
    if (running_ == 0) return launched_s;
    return std::min(launched_s, as_of_s_ + std::max(0.0, least_service - service_s_) * running_);
  }

  /// A queue whose kernel is done by `now_s`, or kNone. Launches that are over begin to run.
  int take_finished(double now_s) {
    advance(now_s);
    // What rounding may have added to the clocks since they were set.
    const double slack_s = 1e-12 * (now_s + service_s_);
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      Entry& entry = entries_[i];
      if (!entry.running && entry.due <= now_s + slack_s) {
        entry.running = true;
        entry.due = service_s_ + entry.work_s;
        ++running_;
      }
      if (!entry.running || entry.due > service_s_ + slack_s) continue;
      const int queue = entry.queue;
      entry = entries_.back();
      entries_.pop_back();
      --running_;
      return queue;
    }
    return kNone;
  }

 private:
  struct Entry {
    int queue = 0;
    bool running = false;
    double work_s = 0;
    double due = 0;  ///< running: by the service clock; else the time at which the launch is over
  };

  void advance(double now_s) {
    if (running_ > 0) service_s_ += (now_s - as_of_s_) / running_;
    as_of_s_ = now_s;
  }

  std::vector<Entry> entries_;
  int running_ = 0;
  double as_of_s_ = 0;
  double service_s_ = 0;  ///< what each kernel that ran all the time would have got
};

}  // namespace fleet
