// SPDX-License-Identifier: BSD-3-Clause
// columns.hpp: measures the rates of links for strided columns. It knows no kind of backend.
#pragma once
#include "probe/session.hpp"
#include "probe/small_plans.hpp"

namespace fleet {

/// Sets the rates of the links to, from and between real devices for columns of several lengths
/// that are strided at one end, while the devices at their ends multiply. Products and copies share
/// a device's memory in a way that depends on that length irregularly and by up to a factor of two
/// (docs/performance/lessons.md). One link of each kind is measured for all of its kind; together
/// they are one part of the session. Links of virtual devices are left alone, since the CPU does
/// their copies.
void measure_columns(Machine& machine, ProbeMemory& memory, ProbeSession& session);

/// Tells the session how many values measure_columns will measure.
void expect_columns(const Machine& machine, ProbeSession& session);

}  // namespace fleet
