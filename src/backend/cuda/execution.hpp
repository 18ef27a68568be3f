// SPDX-License-Identifier: BSD-3-Clause
// execution.hpp: runs of plans on GPUs: in streams, as they are captured into a graph, or as a
// graph. It must not know how plans are made.
#pragma once
#include <cstdint>
#include <memory>

#include "backend/cuda/devices.hpp"
#include "run/backend.hpp"

namespace fleet::cuda {

/// See Backend::begin. By one thread at a time, while other threads may be at runs that have begun.
/// Throws Error(no_memory, device_failed).
std::unique_ptr<Execution> begin_run(Devices& devices, const Plan& plan, const Binding& binding,
                                     std::uint64_t serial);

}  // namespace fleet::cuda
