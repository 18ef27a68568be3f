// SPDX-License-Identifier: BSD-3-Clause
// staging.hpp: what copies through the pinned ring take of the host's memory, beside the threads
// that make them. It knows no kind of backend.
#pragma once
#include "probe/session.hpp"
#include "probe/small_plans.hpp"

namespace fleet {

/// Copies through the pinned ring take `units` per byte of the port that all copies between devices
/// and the host's memory cross, or none; but never so many that the port slows down one by itself.
void charge_staging(Machine& machine, double units);

/// The units with which a run that stages tiles, has each go on to a device, and takes results home
/// as calls do takes as long as it was measured. `machine` has its ports, and staging is not
/// charged; it is afterwards. Nothing happens where staging and devices share no port to fit.
void fit_staging(Machine& machine, ProbeMemory& memory, ProbeSession& session);

/// The number of values that fit_staging() measures.
std::size_t loads_of_staging(const Machine& machine);

}  // namespace fleet
