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

/// The units that a byte on its way into the ring takes.
double staging_units(const Machine& machine);

/// Times a run in which tiles go through the ring to devices, and one result for each three of them
/// home, and charges the units with which the simulated run takes as long: those that were `said`
/// before, if they do, or if memory is too small for the run. `machine` has its ports by then, and
/// staging is not charged. Nothing happens where staging and devices share no port.
void fit_staging(Machine& machine, double said, ProbeMemory& memory, ProbeSession& session);

/// The number of values that fit_staging() measures.
std::size_t loads_of_staging(const Machine& machine);

}  // namespace fleet
