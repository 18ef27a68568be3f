// SPDX-License-Identifier: BSD-3-Clause
// device_turn.hpp: who may use the devices of a context now: one thread all of them, or calls at
// the same time, each with devices of its own. It knows no plans.
#pragma once
#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>

#include "problem/problem.hpp"
#include "run/places.hpp"

namespace fleet {

/// A lock on the state of a context, and a list of the calls that compute without it. Those who
/// want all devices wait until that list is empty, and new calls wait for them.
class DeviceTurn {
 public:
  /// A call that has devices, or waits for some.
  struct Caller {
    Problem problem;
    double seconds = 0;  ///< predicted, with the plan that it would have by itself
  };

  /// Sole use of the state and of all devices.
  std::unique_lock<std::mutex> take();

 private:
  friend class DeviceUse;
  struct Visit {
    Places places;
    double end_s = 0;  ///< predicted
    Caller caller;
  };
  void wait_until_empty(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;  ///< of all below, and of what the owner guards by it
  std::condition_variable changed_;
  std::list<Visit> visits_;
  std::list<Caller> waiting_;
  int waiting_for_all_ = 0;
  /// The call that ended last, and how many calls in a row have met another, that one included.
  std::optional<Caller> last_;
  int met_others_ = 0;
};

/// What one call has of a DeviceTurn: the lock, or devices, or both. For one thread.
class DeviceUse {
 public:
  /// Nothing.
  DeviceUse() = default;
  /// The lock, while others may be on devices.
  explicit DeviceUse(DeviceTurn& turn);
  ~DeviceUse() { leave(); }
  DeviceUse(const DeviceUse&) = delete;
  DeviceUse& operator=(const DeviceUse&) = delete;

  bool has_lock() const { return lock_.owns_lock(); }
  /// With the lock, which is kept: waits until nobody else is on a device. Devices that were taken
  /// are given back before.
  void become_sole();
  bool is_sole() const { return has_lock() && !is_visiting() && turn_->visits_.empty(); }

  // With the lock:
  /// What others have.
  Places taken() const;
  /// Expected seconds until these are all free. A call that is late is expected to take as long
  /// again as it is late.
  double seconds_until_free(const Places& places) const;
  /// Somebody else who wants devices too: one who waits, or who will most probably come again
  /// since calls have met each other for a while. nullptr: nobody.
  const DeviceTurn::Caller* rival() const;
  /// Waits until others have come or gone, or for this time. Until take() the caller counts as
  /// waiting.
  void wait(const DeviceTurn::Caller& caller, double seconds);
  /// Devices that nobody has.
  void take(const Places& places, const DeviceTurn::Caller& caller, double seconds);

  /// Gives up all that it has.
  void leave() noexcept;

  /// While it lives, others may have the lock; nothing where no devices were taken.
  class Pause {
   public:
    explicit Pause(DeviceUse* use);
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    std::unique_lock<std::mutex>* lock_ = nullptr;
  };

 private:
  bool is_visiting() const { return visit_.has_value(); }
  void give_back() noexcept;
  void stop_waiting() noexcept;

  DeviceTurn* turn_ = nullptr;
  std::unique_lock<std::mutex> lock_;
  std::optional<std::list<DeviceTurn::Visit>::iterator> visit_;
  std::optional<std::list<DeviceTurn::Caller>::iterator> waiting_;
};

}  // namespace fleet
