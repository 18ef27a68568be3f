// SPDX-License-Identifier: BSD-3-Clause
// backend.hpp: the only door to a device.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/phases.hpp"
#include "machine/machine.hpp"
#include "plan/plan.hpp"
#include "run/binding.hpp"
#include "run/launch.hpp"
#include "sim/trace.hpp"

namespace fleet {

/// One thing that an examination looked at. `broken`: it fails, and is not used or should not be;
/// `slow`: it works, and could be faster.
struct Finding {
  enum class Verdict { ok, slow, broken };
  std::string subject;  ///< "CPU BLAS", "device 0", "link 0->1"
  Verdict verdict = Verdict::ok;
  std::string text;    ///< what was found, one line
  std::string advice;  ///< what would make it better, one line; may be empty
};

/// Where a piece of memory lies, by the places of its first and last byte. Throws
/// Error(bad_argument) if it reaches beyond a device: the CPU could not read it either.
inline DeviceId location_of_piece(DeviceId first, DeviceId last) {
  if (first == last) return first;
  if (on_host(first) && on_host(last)) return kPageable;
  throw Error(Status::bad_argument, "a matrix reaches beyond its memory on a device");
}

/// One run of a plan, from Backend::begin() to finish(). Its destructor waits where nobody has. The
/// plan must outlive it. For one thread.
class Execution {
 public:
  virtual ~Execution() = default;

  /// Whether the backend does the plan as a whole, in a form that it has kept from earlier runs:
  /// only finish() is left to be called, which starts it and waits.
  virtual bool is_whole() const { return false; }
  /// Address of a staging slot of the plan. After a run that failed, slots keep their contents
  /// until the backend's next begin() or trim(), for a recovery.
  virtual void* slot(const Where& where) = 0;
  /// Copies and kernels are only enqueued: none is promised to have run before finish(). Where
  /// these throw, the task counts as done in part, and nothing follows it.
  virtual void copy(TaskId id, const View& from, const View& to) = 0;
  virtual void launch(TaskId id, const Launch& launch) = 0;
  /// Waits for what was enqueued: the whole plan, or the part before a copy or launch that threw.
  /// Never throws for a failed task: the Trace says so, and which tasks were done.
  virtual Trace finish() = 0;
};

/// One of several copies, from a device's memory to the same.
struct CopyWithin {
  DeviceId device = kHost;
  View to, from;
};

/// A kernel outside of runs, with its operands in the memory of the device.
struct DeviceLaunch {
  DeviceId device = kHost;
  Launch launch = {};
};

/// What the CPU has for kernels of its own beside the devices of a run.
struct CpuBeside {
  int cores = 0;  ///< that the run leaves it; 0: it computes nothing
  double margin =
      1;  ///< the model gives it what it computes even if it takes this many times as long
  double least_s = 0;  ///< and nothing where the devices alone take less than this
};

/// The devices of one context. Runs that share no places (places_of) may be under way at the same
/// time, each for its own thread; begin() is for one thread at a time, and trim() for a time
/// without runs (the Context sees to it). allocate and release, pin_piece and unpin may be called
/// at any time from any thread, transfer for places that no run has; and by a recovery, for the
/// places of its run.
class Backend {
 public:
  virtual ~Backend() = default;

  /// The devices, links and ports that plans for this backend are made for.
  virtual const Machine& machine() const = 0;

  /// Gets ready whatever a run of `plan` needs. `serial` is a number that its owner gives to one
  /// plan only; 0: the plan is not expected again. Throws Error(no_memory, device_failed), or
  /// Error(internal) while another run has one of its places, or std::bad_alloc, with nothing
  /// touched.
  virtual std::unique_ptr<Execution> begin(const Plan& plan, const Binding& binding,
                                           std::uint64_t serial) = 0;
  /// Whether a kernel is launched while the one before it in its queue still runs. The time of a
  /// launch is then no part of the time of kernels that follow each other.
  virtual bool overlaps_launches() const { return false; }
  /// Whether a kernel is loaded by its first launch, which streams of the program must not wait
  /// for.
  virtual bool loads_kernels() const { return false; }
  /// Whether kernels of every device can use pageable memory of the host in place.
  virtual bool reaches_pageable() const { return false; }
  /// The clock that a probe keeps its budget by, in seconds from some start. Tests that
  /// simulate devices count simulated seconds, so that what a probe finds does not depend on how
  /// fast they run.
  virtual double clock_s() const { return now_s(); }
  /// Whether runs measure the span of each task from now on, where that has a price. Without it,
  /// tasks may share the span of their run.
  virtual void keep_times(bool /*wanted*/) {}

  /// Where memory lies that allocate() did not give: kPageable if nothing is known about it; none
  /// if no device answers any more. Throws Error(bad_argument) for memory of a device that is not
  /// one of machine(), and for a piece that reaches beyond a device's memory.
  virtual std::optional<DeviceId> locate(const void* /*data*/, std::int64_t /*bytes*/) {
    return kPageable;
  }
  /// Lets devices reach the caller's memory, which is then kHost. False, with nothing changed,
  /// where that is refused.
  virtual bool pin(void* /*data*/, std::int64_t /*bytes*/) { return true; }
  /// The same for a piece of a block of the pool (pool/pool.hpp), whose neighbours are pinned by
  /// themselves: copies may go from one to the next.
  virtual bool pin_piece(void* data, std::int64_t bytes) { return pin(data, bytes); }
  /// False, with nothing done, while a stream of the program is held: the driver would wait for it,
  /// and calls for the driver.
  virtual bool unpin(void* /*data*/) { return true; }
  /// Whether unpin() would do it now.
  virtual bool may_unpin() const { return true; }

  /// Memory at a location (kHost: pinned). Throws Error(no_memory).
  virtual void* allocate(DeviceId location, std::int64_t bytes) = 0;
  virtual void release(DeviceId location, void* data) = 0;
  /// Copies between any two locations, at once. Used for recovery and by fleet_copy.
  virtual void transfer(DeviceId to_location, const View& to, DeviceId from_location,
                        const View& from, std::int64_t element_bytes) = 0;
  /// Copies within devices, which may be done at the same time; waits for all.
  virtual void transfer_within(std::span<const CopyWithin> copies, std::int64_t element_bytes) {
    for (const auto& [device, to, from] : copies) transfer(device, to, device, from, element_bytes);
  }
  /// Kernels on what allocate() gave, for devices that no run has: those of one device one after
  /// another, of several side by side. None are of factorizations. Waits for all. Throws
  /// Error(no_memory, device_failed), with any of them done, and Error(unsupported) where nothing
  /// computes.
  virtual void compute(std::span<const DeviceLaunch> /*launches*/) {
    throw Error(Status::unsupported, "this backend computes nothing outside of plans");
  }
  /// Waits for the work that is in this stream of the device now (a cudaStream_t, see
  /// fleet_wait_stream). This and the next two: at any time, from any thread.
  virtual void wait_for_stream(DeviceId /*device*/, void* /*stream*/) {}
  /// Calls `then` once that work is done, with what went wrong or nullptr: in any thread, and at
  /// once where there are no streams. `then` must neither throw nor wait.
  virtual void when_stream_done(DeviceId /*device*/, void* /*stream*/,
                                const std::function<void(const char*)>& then) {
    then(nullptr);
  }
  /// What is put into this stream from now on waits for one call of the result, from any thread.
  /// Empty where there are no streams. Until that call, the backend waits for nothing on a device
  /// but its own work: the caller may need a run for it.
  virtual std::function<void()> hold_stream(DeviceId /*device*/, void* /*stream*/) { return {}; }
  /// Gives pooled arenas back.
  virtual void trim() = 0;
  /// Free bytes at a location now (a default memory cap is 80 % of it).
  virtual std::int64_t available_bytes(DeviceId location) = 0;
  /// For runs of plans of this problem. Their begin() and launch() then take the tasks of the CPU
  /// as kernels on nothing: see beside_cpu.
  virtual CpuBeside cpu_beside(const Problem& /*problem*/) const { return {}; }
  /// Joules that a device has drawn since some time that does not change, by a counter of its own
  /// (which may advance only every 100 ms); nothing where it has none. From any thread.
  virtual std::optional<double> joules(DeviceId /*device*/) { return {}; }
  /// Findings about its devices that only this kind of backend can have, beyond those of
  /// examine_links. Between runs only.
  virtual std::vector<Finding> examine() { return {}; }

  /// Where the time of what is done once goes: for devices, for libraries, for the first run.
  Phases& phases() { return phases_; }

 private:
  Phases phases_;
};

}  // namespace fleet
