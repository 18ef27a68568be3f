// SPDX-License-Identifier: BSD-3-Clause
// parts.hpp: the parts of a careful probe that run no plans. It knows no kind of backend.
#pragma once
#include "cpu/blas.hpp"
#include "probe/session.hpp"
#include "run/backend.hpp"

namespace fleet {

/// Sets launch_s and kernels of `host` from products on all cores, which is how calls that are not
/// offloaded are computed. Types that the request leaves out keep their rates.
void measure_host(Device& host, CpuBlas& blas, ProbeSession& session);
std::size_t host_values();

/// Reports the seconds to pin and to unpin pages; nothing if the backend does not pin.
void measure_pinning(Backend& backend, ProbeSession& session);
std::size_t pinning_values();

}  // namespace fleet
