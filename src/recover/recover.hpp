// SPDX-License-Identifier: BSD-3-Clause
// recover.hpp: completes an interrupted run with the CPU BLAS. It knows plans and traces, no
// faults.
#pragma once
#include <span>

#include "cpu/blas.hpp"
#include "run/backend.hpp"

namespace fleet {

/// The work that recovery did.
struct Recovery {
  std::int64_t tiles = 0;  ///< results that were complete nowhere
  double flops = 0;        ///< arithmetic done again or for the first time
};

/// A run of a plan whose status is not ok.
struct FailedRun {
  const Plan& plan;
  const Binding& binding;
  const Trace& trace;
  Execution& execution;  ///< has the slots of the plan
};

/// Completes C after `run`: derives from the completed tasks what the home of each tile of C holds,
/// and computes the rest, so that beta is applied once and no product is added twice. The memory of
/// `trace.lost` and of the devices in `lost` is gone.
///
/// Afterwards all that the program writes is complete at home, whether it returns or not. What it
/// only reads is not touched: it is where the plan found it.
///
/// Throws only Error(device_failed), with C undefined: if the home of an operand that is still
/// needed is lost, if a tile was half overwritten, or was on a lost device only, and no copy of it
/// is left, or if the host has no memory for the ledger and for a tile of each operand that lies on
/// a device.
Recovery recover(const FailedRun& run, std::span<const DeviceId> lost, Backend& backend,
                 CpuBlas& blas);

}  // namespace fleet
