// SPDX-License-Identifier: BSD-3-Clause
// probe_links.hpp: latency and rate of each link by itself. It knows no kind of backend.
#pragma once
#include "exec/probe_plan.hpp"
#include "exec/probe_session.hpp"

namespace fleet {

/// Gives each link of `machine` what its copies take, from tiny tiles to large ones. Links that are
/// alike are measured as one, and
/// each kind is a part of the session. A link whose tiles do not fit into memory keeps what it has.
void measure_links(Machine& machine, ProbeMemory& memory, ProbeSession& session);

/// Tells the session how many values that will be.
void expect_links(const Machine& machine, ProbeSession& session);

}  // namespace fleet
