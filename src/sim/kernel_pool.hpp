// SPDX-License-Identifier: BSD-3-Clause
// kernel_pool.hpp: the kernels of a device that share only that device: each of n kernels runs at
// 1/n of its speed. It knows queues as numbers only.
#pragma once
#include <algorithm>
#include <iterator>
#include <limits>
#include <vector>

namespace fleet {

/// All kernels run at the same rate, so one clock, the service that each has received, tells when
/// each finishes. Launching and running kernels are kept in the order of their next events.
class KernelPool {
 public:
  static constexpr double kIdle = std::numeric_limits<double>::infinity();
  static constexpr int kNone = -1;

  /// A kernel that takes nothing of the device for `delay_s`, then has `work_s` of work.
  void start(int queue, double delay_s, double work_s, double now_s) {
    const Launching kernel{queue, now_s + delay_s, work_s};
    auto at = launching_.end();
    while (at != launching_.begin() && std::prev(at)->done_s > kernel.done_s) --at;
    launching_.insert(at, kernel);
  }

  /// When the next kernel finishes, if none starts before.
  double next_event_s() const {
    double now_s = as_of_s_, service = service_s_, count = static_cast<double>(running_.size());
    double next = running_.empty() ? kIdle : running_.back().done;
    const auto next_s = [&] { return now_s + std::max(0.0, next - service) * count; };
    for (const Launching& kernel : launching_) {
      if (count > 0) {
        if (next_s() <= kernel.done_s) return next_s();
        service += (kernel.done_s - now_s) / count;
      }
      now_s = kernel.done_s;
      next = std::min(next, service + kernel.work_s);
      ++count;
    }
    return count > 0 ? next_s() : kIdle;
  }

  /// A queue whose kernel finishes by `now_s`, or kNone.
  int take_finished(double now_s) {
    while (!launching_.empty() && launching_.front().done_s <= now_s) {
      advance(launching_.front().done_s);
      run(launching_.front());
      launching_.erase(launching_.begin());
    }
    advance(now_s);
    // Allows for rounding accumulated in the clocks.
    const double slack_s = 1e-12 * (now_s + service_s_);
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
    double done;  ///< finish time on the service clock
  };

  void advance(double now_s) {
    if (!running_.empty()) service_s_ += (now_s - as_of_s_) / static_cast<double>(running_.size());
    as_of_s_ = now_s;
  }

  void run(const Launching& kernel) {
    const Running entry{kernel.queue, service_s_ + kernel.work_s};
    auto at = running_.end();
    while (at != running_.begin() && std::prev(at)->done < entry.done) --at;
    running_.insert(at, entry);
  }

  std::vector<Launching> launching_;  ///< the next to run is first
  std::vector<Running> running_;      ///< the next to finish is last
  double as_of_s_ = 0;
  double service_s_ = 0;  ///< service received by a kernel that ran since the start
};

}  // namespace fleet
