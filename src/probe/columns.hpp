// SPDX-License-Identifier: BSD-3-Clause
// columns.hpp: what links have left for columns that lie apart. It knows no kind of backend.
#pragma once
#include "probe/session.hpp"
#include "probe/small_plans.hpp"

namespace fleet {

/// Gives the links to, from and between real devices what they do with columns of several lengths
/// that lie apart at one end, while the devices at their ends multiply: how products and copies
/// share a device's memory depends on that length, not steadily, and up to a factor of two
/// (docs/performance/lessons.md). One link of each kind stands for all; together they are a part of
/// the session. Copies of virtual devices are the CPU's: their links get nothing.
void measure_columns(Machine& machine, ProbeMemory& memory, ProbeSession& session);

/// Tells the session how many values that will be.
void expect_columns(const Machine& machine, ProbeSession& session);

}  // namespace fleet
