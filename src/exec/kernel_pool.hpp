// SPDX-License-Identifier: BSD-3-Clause
// kernel_pool.hpp: the kernels of one device that share nothing but the device: n of them run at
// 1/n of their speed each. It knows queues as numbers only.
#pragma once
#include <algorithm>
#include <iterator>
#include <limits>
#include <vector>

namespace fleet {

/// Because all kernels run at the same rate, one clock of "service given to each" says when each is
/// done. Those that are being launched and those that run wait in the order of what comes next.
class KernelPool {
 public:
  static constexpr double kIdle = std::numeric_limits<double>::infinity();
  static constexpr int kNone = -1;

  explicit KernelPool(double launch_s) : launch_s_(launch_s) {}

  void start(int queue, double work_s, double now_s) {
    launching_.push_back({queue, now_s + launch_s_, work_s});
  }

  /// When the next launch is over or the next kernel done.
  double next_event_s() const {
    const double launched_s = launching_.empty() ? kIdle : launching_.front().done_s;
    if (running_.empty()) return launched_s;
    return std::min(launched_s,
                    as_of_s_ + std::max(0.0, running_.back().done - service_s_) * count());
  }

  /// A queue whose kernel is done by `now_s`, or kNone. Launches that are over begin to run.
  int take_finished(double now_s) {
    if (!running_.empty()) service_s_ += (now_s - as_of_s_) / count();
    as_of_s_ = now_s;
    // What rounding may have added to the clocks since they were set.
    const double slack_s = 1e-12 * (now_s + service_s_);
    while (!launching_.empty() && launching_.front().done_s <= now_s + slack_s) {
      run(launching_.front());
      launching_.erase(launching_.begin());
    }
    if (running_.empty() || running_.back().done > service_s_ + slack_s) return kNone;
    const int queue = running_.back().queue;
    running_.pop_back();
    return queue;
  }

 private:
  struct Launching {
    int queue;
    double done_s;
    double work_s;
  };
  struct Running {
    int queue;
    double done;  ///< by the service clock
  };

  double count() const { return static_cast<double>(running_.size()); }

  void run(const Launching& kernel) {
    const Running entry{kernel.queue, service_s_ + kernel.work_s};
    auto at = running_.end();
    while (at != running_.begin() && std::prev(at)->done < entry.done) --at;
    running_.insert(at, entry);
  }

  double launch_s_;
  std::vector<Launching> launching_;  ///< first in, first out: all launches take as long
  std::vector<Running> running_;      ///< the next that is done comes last
  double as_of_s_ = 0;
  double service_s_ = 0;  ///< what each kernel that ran all the time would have got
};

}  // namespace fleet
