// SPDX-License-Identifier: BSD-3-Clause
// device_turn.hpp: who may use the devices of a context now: one thread all of them, or calls at
// the same time, each with devices of its own. It knows no plans.
#pragma once
#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <optional>

#include "problem/problem.hpp"
#include "run/places.hpp"

namespace fleet {

/// A lock on the state of a context, and a list of the calls that compute, or copy, without it.
/// Those who want all devices wait until that list is empty, and new calls wait for them.
class DeviceTurn {
 public:
  struct Range {
    std::uintptr_t begin = 0;
    std::int64_t bytes = 0;
  };
  /// A call that has devices, or waits for some.
  struct Caller {
    Problem problem;
    double seconds = 0;                ///< predicted, with the plan that it would have by itself
    std::array<Range, 3> memory = {};  ///< that it uses
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
  struct Waiting {
    Caller caller;
    Places wanted;
    int overtaken = 0;  ///< how often others took some of these meanwhile
  };
  void wait_until_empty(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;  ///< of all below, and of what the owner guards by it
  std::condition_variable changed_;
  std::list<Visit> visits_;
  std::list<Waiting> waiting_;
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

  /// With the lock, which is kept: waits until nobody else is on a device. Devices that were taken
  /// are given back before.
  void become_sole();
  bool is_sole() const { return lock_.owns_lock() && !is_visiting() && turn_->visits_.empty(); }

  // With the lock:
  /// Waits until no call uses this memory.
  void wait_for(const DeviceTurn::Range& memory);
  /// Waits until these are free and no call uses this memory, and takes them. Who is overtaken too
  /// often waits for sole use.
  void take_when_free(const Places& places, const std::array<DeviceTurn::Range, 3>& memory);
  /// What others have.
  Places taken() const;
  /// Expected seconds until these are all free. A call that is late is expected to take as long
  /// again as it is late.
  double seconds_until_free(const Places& places) const;
  /// Have calls met each other for a while, so that they will again?
  bool is_steady() const;
  /// Somebody else who wants devices too: one who waits and for whom `may_be` is true, or the last
  /// one, where calls meet steadily and nobody has a device now. nullptr: nobody.
  const DeviceTurn::Caller* rival(const std::function<bool(const Problem&)>& may_be) const;
  /// Waits until others have come or gone, or for this time. Until take() the caller counts as
  /// waiting. Who is overtaken too often has sole use then: others that use its devices by turns
  /// would keep it waiting.
  void wait(const DeviceTurn::Caller& caller, const Places& wanted, double seconds);
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
  void begin_waiting(const DeviceTurn::Caller& caller, const Places& wanted);
  void stop_waiting() noexcept;
  bool is_overtaken() const;

  DeviceTurn* turn_ = nullptr;
  std::unique_lock<std::mutex> lock_;
  std::optional<std::list<DeviceTurn::Visit>::iterator> visit_;
  std::optional<std::list<DeviceTurn::Waiting>::iterator> waiting_;
};

}  // namespace fleet
