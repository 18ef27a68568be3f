// SPDX-License-Identifier: BSD-3-Clause
// cpu_path.hpp: a call by the CPU BLAS on all cores. It knows no plan and no reason.
#pragma once
#include <array>
#include <optional>

#include "core/call.hpp"
#include "cpu/blas.hpp"

namespace fleet {

/// Without memory for a lease the call still runs, on the BLAS's current number of threads.
void lease_if_possible(std::optional<CpuBlas::Lease>& lease, CpuBlas& blas, int threads);

/// For operands that the CPU can address. Needs no allocation to succeed, so it works where memory
/// has run out.
void multiply_in_place(const Call& call, CpuBlas& blas, int threads);

/// The same without a CPU BLAS and without any memory at all: slow, but right.
void multiply_plainly(const Call& call);

/// By the CPU BLAS with operands at `homes`: those on devices come to the host, and C goes back.
/// Throws Error(no_memory) with C untouched, and Error(device_failed).
void multiply_staged(const Call& call, const std::array<DeviceId, 3>& homes, CpuBlas& blas,
                     int threads, Backend& backend);

}  // namespace fleet
