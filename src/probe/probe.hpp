// SPDX-License-Identifier: BSD-3-Clause
// probe.hpp: measures a Machine by running small plans on a backend.
#pragma once
#include <string>

#include "base/options.hpp"
#include "cpu/blas.hpp"
#include "probe/session.hpp"
#include "run/backend.hpp"

namespace fleet {

/// Fills in the rates of `backend.machine()` by running plans of a few copies or kernels on it:
/// every kernel type at several edges, every link alone, and what shared ports allow. Probing a sim
/// backend gives back the machine it simulates. `budget_s` bounds the wall time.
Machine probe(Backend& backend, double budget_s);

/// The same as carefully as `request` says, part by part: each link (alone, at several tiles),
/// launches, ports (links under load), kernels of each type, the host's own products (unless `blas`
/// is null) and pinning. Stopped early, it gives the machine as after the last part that is whole;
/// what a part has not measured is as in `request.start`. Throws Error when a run fails; what was
/// saved before stays right.
Machine probe(Backend& backend, CpuBlas* blas, const ProbeRequest& request, ProbeReport& report);

/// Whether two machines have the same devices, links and ports, whatever their numbers.
bool same_shape(const Machine& a, const Machine& b);

/// The measured machine of this host backend: from the cache if it is there (same devices, cores,
/// CPU BLAS and schema), else probed in under 2 s and cached. A cache that is damaged, unwritable,
/// a symlink or absent is no error: it is probed then, and the cache quietly left.
Machine cached_host_machine(const Options& options, int devices, CpuBlas& blas, Backend& backend);

/// The same for GPUs: `identity` says which, and which driver.
Machine cached_gpu_machine(const Options& options, const std::string& identity, CpuBlas& blas,
                           Backend& backend);

}  // namespace fleet
