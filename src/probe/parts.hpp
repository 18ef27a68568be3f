// SPDX-License-Identifier: BSD-3-Clause
// parts.hpp: the parts of a careful probe that run no plans. It knows no kind of backend.
#pragma once
#include "cpu/blas.hpp"
#include "probe/session.hpp"
#include "run/backend.hpp"

namespace fleet {

/// Products on all cores, as calls that are not offloaded are done: launch_s and kernels of `host`.
/// Types that the request leaves out keep their rates.
void measure_host(Device& host, CpuBlas& blas, ProbeSession& session);
std::size_t host_values();

/// Seconds to pin pages of the caller's and to let them go, as values of the report. Nothing where
/// the backend has nothing to do for it.
void measure_pinning(Backend& backend, ProbeSession& session);
std::size_t pinning_values();

}  // namespace fleet
