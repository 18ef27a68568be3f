// SPDX-License-Identifier: BSD-3-Clause
// links.hpp: latency and rate of each link by itself. It knows no kind of backend.
#pragma once
#include "probe/session.hpp"
#include "probe/small_plans.hpp"

namespace fleet {

/// Gives each link of `machine` what its copies take, from tiny tiles to large ones. A few links
/// are measured for all of a class: copies by CPU threads between the same kinds of places, and in
/// a quick probe of many devices all links between such. In a quick probe every link has at least a
/// short copy of its own, and one that takes other than the rest is measured by itself; where there
/// is no time for that, the report says so. Each class is a part of the session. A link whose tiles
/// do not fit into memory keeps what it has.
void measure_links(Machine& machine, ProbeMemory& memory, ProbeSession& session);

/// Tells the session how many values that will be.
void expect_links(const Machine& machine, ProbeSession& session);

}  // namespace fleet
