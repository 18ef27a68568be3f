// SPDX-License-Identifier: BSD-3-Clause
// trace.hpp: the record of a measured or simulated run of a plan: start and stop of each task, the
// cost, and the timeline as JSON.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "machine/machine.hpp"
#include "plan/plan.hpp"

namespace fleet {

/// Seconds from the start of the run. stop_s < 0: the task did not complete.
struct Span {
  double start_s = -1;
  double stop_s = -1;
  bool done() const { return stop_s >= 0; }
};

enum class CostSource { predicted, simulated, measured };
const char* to_string(CostSource source);

/// The cost of a run; the same type for predicted, simulated and measured costs.
struct Cost {
  CostSource source = CostSource::predicted;
  double seconds = 0;
  int devices = 0;  ///< that take part: with a kernel, or at an end of a copy
  /// Of these devices, with what products take of the CPU beyond waiting; and of all devices and
  /// the host (as far as its watts are known). 0: the watts of some device are not known, so that
  /// costs of all plans are alike in this.
  double joules = 0, joules_node = 0;
  std::vector<std::int64_t> bytes_by_link;
};

/// The record of a run. If status is not ok, the spans still tell which tasks completed; no task is
/// running any more when a Trace is returned.
struct Trace {
  CostSource source = CostSource::measured;
  Status status = Status::ok;
  std::string message;  ///< one line if status is not ok
  TaskId failed = kNoTask;
  DeviceId lost = -1;  ///< a device that must not be used again in this process, or -1
  double seconds = 0;
  double issued_s = 0;      ///< until devices had been given all tasks; 0: at once
  int issuers = 0;          ///< threads of devices that gave them tasks; 0: the caller's did
  std::vector<Span> spans;  ///< per task of the plan

  /// Whether devices are taken to have waited for the threads that give them tasks: these were at
  /// it nearly until the end.
  bool waits_for_issuing() const { return issued_s > 0.8 * seconds; }
};

/// Of tasks that completed, makes those incomplete that needed one which did not: by after(),
/// upstream, or a place in the same queue before them. After a failure a device may go on with what
/// was there before. `spans` has one per task.
void leave_out_dependents(const Plan& plan, std::vector<Span>& spans);

/// "A(0,1)" for copies, "C(2,3) k=4" for products, "C(2,3) add" for other kernels; "A[3](0,1)" for
/// item 3 of a batch.
std::string task_name(const Plan& plan, const Task& task);
/// "0->1", "0 lane 3", or "0" if one queue does all the work of a device.
std::string queue_name(const Machine& machine, const Queue& queue);

/// Bytes of the completed copies over each link (index LinkId).
std::vector<std::int64_t> moved_bytes(const Plan& plan, const Machine& machine, const Trace& trace);

/// Joules are watts times the spans of the tasks (see Watts): a device that takes part draws `wait`
/// all the time and more for what it does, one that does not draws `idle`.
Cost cost_of(const Plan& plan, const Machine& machine, const Trace& trace);

/// Chrome trace event JSON (chrome://tracing, Perfetto): one lane per used queue, one event per
/// task with its tile, bytes and link, and under "fleetblas" the problem, machine name, bound,
/// bytes by link, busy seconds per device and whether the run was measured or simulated.
std::string chrome_trace_json(const Plan& plan, const Machine& machine, const Trace& trace);

}  // namespace fleet
