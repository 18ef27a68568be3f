// SPDX-License-Identifier: BSD-3-Clause
// faults.hpp: the faults and disturbances that FLEETBLAS_INJECT asks for, and the devices that are
// lost. It must not know who runs tasks.
#pragma once
#include <atomic>
#include <cstdint>
#include <vector>

#include "base/options.hpp"
#include "machine/machine.hpp"
#include "plan/plan.hpp"

namespace fleet {

/// `machine` without the links that `nopeer` takes away.
Machine without_peers(Machine machine, const Inject& inject);

/// Counts from its creation on. From any thread; next_copy_fails and next_launch_fails in the order
/// of a run's plan.
class Faults {
 public:
  /// `machine` as plans see it, `whole` before without_peers. Throws Error(bad_option) for a link
  /// or device that is not in `whole`: a fault that never comes would pass for one that was
  /// survived.
  Faults(const Inject& inject, const Machine& machine, const Machine& whole);

  /// Whether the copy (kernel) that is enqueued now is the one to fail.
  bool next_copy_fails() { return ++copies_ == copy_; }
  bool next_launch_fails() { return ++launches_ == launch_; }

  double delay_s(LinkId link) const { return delay_s_[static_cast<std::size_t>(link)]; }
  double slow_factor(LinkId link) const { return slow_factor_[static_cast<std::size_t>(link)]; }

  /// A kernel has finished on `device`, which is lost after the last one that it is meant to do.
  void note_kernel(DeviceId device);
  /// The device that was lost on purpose, or -1.
  DeviceId lost() const { return lost_.load(); }

  /// A run has reported that `device` is lost, for whatever reason; -1: no device is.
  void note_reported(DeviceId device);
  bool is_reported(DeviceId device) const {
    return device >= 0 && reported_[static_cast<std::size_t>(device)];
  }

  bool is_lost(DeviceId device) const {
    return device >= 0 && (device == lost() || is_reported(device));
  }
  /// Throws Error(device_failed) for a device that is lost.
  void require_alive(DeviceId location) const;
  /// The same for every device of a plan. The run in which a device is lost reports it; later runs
  /// do not begin.
  void require_devices(const Plan& plan) const;

 private:
  std::int64_t copy_, launch_;
  std::atomic<std::int64_t> copies_{0};
  std::atomic<std::int64_t> launches_{0};
  std::vector<double> delay_s_, slow_factor_;
  DeviceId dying_ = -1;
  std::atomic<std::int64_t> kernels_left_{0};
  std::atomic<DeviceId> lost_{-1};
  std::vector<std::atomic<bool>> reported_;
  std::atomic<bool> any_reported_{false};
};

}  // namespace fleet
