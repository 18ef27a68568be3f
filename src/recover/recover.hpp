// SPDX-License-Identifier: BSD-3-Clause
// recover.hpp: finishes by the CPU BLAS what a run left undone. It knows plans and traces, not why
// a task failed.
#pragma once
#include <span>

#include "cpu/blas.hpp"
#include "run/backend.hpp"

namespace fleet {

/// What had to be finished.
struct Recovery {
  std::int64_t tiles = 0;  ///< tiles of C that were not complete at home
  double flops = 0;        ///< arithmetic done again or for the first time
};

/// A run of a plan that ended with a status that is not ok.
struct FailedRun {
  const Plan& plan;
  const Binding& binding;
  const Trace& trace;
  Execution& execution;  ///< has the slots of the plan
};

/// Completes C after `run`: finds out from the completed tasks what the home of each tile of C
/// holds, and computes what is missing from it, so that beta is applied once and no product counts
/// twice. `trace.lost` and the devices in `lost` have no memory any more.
///
/// Throws nothing but Error(device_failed), with C undefined: when the home of an operand that is
/// still needed is lost, when a tile of C was half overwritten and no copy of it is left, and when
/// the host cannot hold the books of the run and a tile of each operand that lies on a device.
Recovery recover(const FailedRun& run, std::span<const DeviceId> lost, Backend& backend,
                 CpuBlas& blas);

}  // namespace fleet
