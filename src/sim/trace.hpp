// SPDX-License-Identifier: BSD-3-Clause
// trace.hpp: what happened (or was simulated) when a plan ran: start and stop of each task, its
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

/// One type for predicted, simulated and measured costs.
struct Cost {
  CostSource source = CostSource::predicted;
  double seconds = 0;
  double joules = 0;  ///< 0: not known
  std::vector<std::int64_t> bytes_by_link;
};

/// A run's record. When status is not ok the spans say which tasks completed all the same; no task
/// is still running when a Trace is handed out.
struct Trace {
  CostSource source = CostSource::measured;
  Status status = Status::ok;
  std::string message;  ///< one line when status is not ok
  TaskId failed = kNoTask;
  DeviceId lost = -1;  ///< a device that must not be used again in this process, or -1
  double seconds = 0;
  std::vector<Span> spans;  ///< per task of the plan
};

/// "A(0,1)" for copies, "C(2,3) k=4" for products, "C(2,3) add" for the other kernels; items of a
/// batch are "A[3](0,1)".
std::string task_name(const Plan& plan, const Task& task);
/// "0->1", "0 lane 3", or "0" for a queue that does all the work of a device.
std::string queue_name(const Machine& machine, const Queue& queue);

Cost cost_of(const Plan& plan, const Machine& machine, const Trace& trace);

/// Chrome trace event JSON (chrome://tracing, Perfetto): one lane per queue that was used, an event
/// per task with its tile, bytes and link, and under "fleetblas" the problem, machine name, bound,
/// bytes by link, busy seconds per device and whether it was measured or simulated.
std::string chrome_trace_json(const Plan& plan, const Machine& machine, const Trace& trace);

}  // namespace fleet
