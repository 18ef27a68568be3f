// SPDX-License-Identifier: BSD-3-Clause
// probe.hpp: measures a Machine by running small plans on a backend.
#pragma once
#include <functional>
#include <string>

#include "base/options.hpp"
#include "cpu/blas.hpp"
#include "probe/session.hpp"
#include "run/backend.hpp"

namespace fleet {

/// Measures the rates of `backend.machine()` by running plans of a few copies or kernels: every
/// kernel type at several edges, every link alone, and the capacities of shared ports, those that
/// `backend.machine()` lacks included: they follow its own. Probing a sim backend returns the
/// machine that it simulates. `budget_s` is kept by the backend's clock.
Machine probe(Backend& backend, double budget_s);

/// The same with the care that `request` asks for, part by part: each link (alone, at several tile
/// edges), launches, ports (links under load), kernels of each type, the host's own products
/// (unless `blas` is null) and pinning. A probe that is stopped returns the machine as of its last
/// complete part; parts that are not measured have the values of `request.start`. Throws Error if a
/// run fails; machines saved before remain valid.
Machine probe(Backend& backend, CpuBlas* blas, const ProbeRequest& request, ProbeReport& report);

/// Measures the watts of the machine if the objective needs them, they are not known, and the
/// backend has counters; true: the machine has changed.
bool measure_missing_watts(const Options& options, CpuBlas& blas, Backend& backend,
                           Machine& machine);

/// Whether `machine` has the devices, links and ports of `shape`; rates may differ, and further
/// ports may follow, which a probe has found.
bool same_shape(const Machine& machine, const Machine& shape);

/// A measured machine, and its file.
struct KeptMachine {
  Machine machine;
  /// Replaces the file by one with this machine, which has the same shape: the measured one as runs
  /// have corrected it. A file that cannot be written is no error. Empty: there is no file.
  std::function<void(const Machine&)> keep;
};

/// The measured machine of this host backend: from the cache if it matches (devices, cores, CPU
/// BLAS, schema), else probed in under 2 s and cached. A damaged, unwritable, symlinked or missing
/// cache is no error: the machine is probed and the cache left alone.
///
/// A machine in doubt is probed again, twice at most in the life of its file: one with unsteady
/// values, of which the faster ones stay (other load only makes runs slower); and one whose rates
/// runs have corrected by more than kFarOff, which is replaced.
KeptMachine cached_host_machine(const Options& options, int devices, CpuBlas& blas,
                                Backend& backend);

/// The same for GPUs; `identity` names them and their driver.
KeptMachine cached_gpu_machine(const Options& options, const std::string& identity, CpuBlas& blas,
                               Backend& backend);

}  // namespace fleet
