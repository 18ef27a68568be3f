// SPDX-License-Identifier: BSD-3-Clause
// observe.hpp: which rates of a machine a run contradicts, and by how much. Pure; it knows no clock
// and keeps nothing.
#pragma once
#include <span>
#include <vector>

#include "machine/corrections.hpp"
#include "sim/trace.hpp"

namespace fleet {

/// Whether the spans are those of the tasks. Without Backend::keep_times they may all be that of
/// the run.
bool has_task_times(const Plan& plan, const Trace& trace);

/// What the spans of a run say about the rates of `machine`, for which `predicted` is the simulated
/// trace of the same plan. A rate is named only where the run can tell it from others:
///
/// - products of a type, and streams, by the seconds in which the device was busy, if that kind is
///   most of what it did. Where kernels and copies share a thread (virtual devices), both count;
/// - a link with the host, by the seconds of its copies that take no longer in the prediction than
///   alone, and did not wait for copies that feed them;
/// - a port, by the seconds of such links' copies that wait for it there: the fullest one on their
///   way. Not if kernels use a port of the way too.
///
/// Copies between devices teach nothing: what they take depends on what else is copied then, so it
/// holds for one plan.
///
/// Latencies and launches are taken off first, as they do not depend on the rates. In the order of
/// devices, links, ports.
std::vector<Correction> observe(const Plan& plan, const Machine& machine, const Trace& predicted,
                                const Trace& measured);

/// The corrections that two observations in a row agree on: the one nearer to 1 where both point
/// the same way by more than kNoise, nothing otherwise. So that one disturbed run changes nothing.
std::vector<Correction> agreed(std::span<const Correction> before, std::span<const Correction> now);

}  // namespace fleet
