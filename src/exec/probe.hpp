// SPDX-License-Identifier: BSD-3-Clause
// probe.hpp: measures a Machine by running small plans on a backend.
#pragma once
#include <string>

#include "base/options.hpp"
#include "exec/backend.hpp"
#include "exec/cpu_blas.hpp"

namespace fleet {

/// The devices, links and ports of `devices` virtual devices on `cores` cores, with placeholder
/// rates: the shape that probe fills in. Links: host <-> device, device <-> device, and
/// pageable <-> host; ports: the thread of each device, and the cores.
Machine host_machine(int devices, int cores, std::int64_t memory_bytes);

/// Fills in the rates of `backend.machine()` by running plans of a few copies or kernels on it:
/// every kernel type at several edges, every link alone, and what shared ports allow. Probing a sim
/// backend gives back the machine it simulates. `budget_s` bounds the wall time.
Machine probe(Backend& backend, double budget_s);

/// The measured machine of this host backend: from the cache if it is there (same devices, cores,
/// CPU BLAS and schema), else probed in under 2 s and cached. A cache that is damaged, unwritable,
/// a symlink or absent is no error: it is probed then, and the cache quietly left.
Machine cached_host_machine(const Options& options, int devices, CpuBlas& blas, Backend& backend);

/// The same for GPUs: `identity` says which, and which driver.
Machine cached_gpu_machine(const Options& options, const std::string& identity, CpuBlas& blas,
                           Backend& backend);

}  // namespace fleet
