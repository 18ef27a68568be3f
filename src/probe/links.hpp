// SPDX-License-Identifier: BSD-3-Clause
// links.hpp: measures latency and rate of each link by itself. It knows no kind of backend.
#pragma once
#include "probe/session.hpp"
#include "probe/small_plans.hpp"

namespace fleet {

/// Sets latency and rate of each link of `machine` from copies of tiny to large tiles. A few links
/// are measured for a whole class: links served by CPU threads between the same kinds of places,
/// and in a quick probe of many devices all links between the same kinds of places. A quick probe
/// times at least one short copy over every link, and measures links that differ from the rest
/// separately; if there is no time for that, the report says so. Each class is a part of the
/// session. A link whose tiles do not fit into memory keeps its values.
void measure_links(Machine& machine, ProbeMemory& memory, ProbeSession& session);

/// Tells the session how many values measure_links will measure.
void expect_links(const Machine& machine, ProbeSession& session);

}  // namespace fleet
