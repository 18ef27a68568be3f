// SPDX-License-Identifier: BSD-3-Clause
// sends.hpp: the latency of copies that a device sends to others in turn. It must not know what
// kind of backend it measures.
#pragma once
#include "probe/session.hpp"
#include "probe/small_plans.hpp"

namespace fleet {

/// Measures Link::sent_latency_s where devices can send in turn, on one of them for all. `machine`
/// has the measured rates of its links and ports.
void measure_sends(Machine& machine, ProbeMemory& memory, ProbeSession& session);

/// The values that measure_sends may measure.
void expect_sends(const Machine& machine, ProbeSession& session);

}  // namespace fleet
