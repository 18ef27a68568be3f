// SPDX-License-Identifier: BSD-3-Clause
// cpu_beside.hpp: runs of plans in which the CPU computes a part beside the devices, whatever
// backend these have. It must not know how plans are made.
#pragma once
#include <memory>

#include "cpu/lane.hpp"
#include "run/backend.hpp"

namespace fleet {

/// The run that `devices` has begun, but with the tasks of the CPU (Tuning::has_cpu) on `lane`, by
/// `threads` threads of its BLAS. `devices` is told of each such task by a kernel on nothing: none
/// of its tasks waits for one of the CPU's, nor the other way round, since all that the CPU reads
/// and writes is at home on the host and nobody else's. `lane` and `plan` must outlive the run.
/// Throws as CpuLane::begin, and Error(internal) for a plan whose tasks are not like that.
std::unique_ptr<Execution> beside_cpu(const Plan& plan, std::unique_ptr<Execution> devices,
                                      CpuLane& lane, int threads);

}  // namespace fleet
