// SPDX-License-Identifier: BSD-3-Clause
// backend.hpp: virtual devices on the CPU: real data, real concurrency, any number of devices.
#pragma once
#include <memory>

#include "base/options.hpp"
#include "cpu/blas.hpp"
#include "run/backend.hpp"

namespace fleet {

/// `machine` gives the devices and links (see host_machine); Options the faults to inject, poison
/// and random orders. Each device has its own arena and one thread that runs its kernels and the
/// copies into it; copies to the host are done by the source's thread.
///
/// begin() throws Error(device_failed) in a forked child, where there are no threads; while the
/// process exits; for a plan on a device that an earlier Trace reported lost. Throws
/// Error(bad_option) when a fault names a link or device that the machine does not have.
std::unique_ptr<Backend> make_host_backend(const Machine& machine, std::shared_ptr<CpuBlas> blas,
                                           const Options& options);

}  // namespace fleet
