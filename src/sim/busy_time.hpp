// SPDX-License-Identifier: BSD-3-Clause
// busy_time.hpp: how long devices and links were busy in a run. It knows spans, not clocks.
#pragma once
#include <vector>

#include "sim/trace.hpp"

namespace fleet {

/// Seconds covered by at least one of the spans; unfinished spans do not count.
double busy_s(std::vector<Span> spans);

/// Spans of the completed kernels per device, and of the completed copies per link.
std::vector<std::vector<Span>> kernel_spans(const Plan& plan, const Machine& machine,
                                            const Trace& trace);
std::vector<std::vector<Span>> copy_spans(const Plan& plan, const Machine& machine,
                                          const Trace& trace);

}  // namespace fleet
