// SPDX-License-Identifier: BSD-3-Clause
// simulate.hpp: event-driven simulation of a plan on a Machine. It moves no data.
#pragma once
#include "sim/trace.hpp"

namespace fleet {

/// Times `plan` on `machine`: tasks start when their queue, their `after` and (for chained copies)
/// the first chunk of their upstream hop allow it; running copies and kernels share their ports
/// max-min fairly (fair_share.hpp). Queues that one device sends in turn (senders()) are one. A
/// kernel first takes its delay (its launch, and the steps of a solve), then shares its device with
/// the other kernels on it. The latency of a copy lowers its rate: alone it takes chunks *
/// latency_s + bytes / bytes_per_s, but at a full port its latency is hidden. `rates_given`, if not
/// null, receives how often a copy or kernel got another rate: the cost of a simulation grows with
/// it and with the tasks.
Trace simulate(const Plan& plan, const Machine& machine, std::int64_t* rates_given = nullptr);

/// What the simulated run costs, as a prediction.
Cost predicted(const Plan& plan, const Machine& machine);

}  // namespace fleet
