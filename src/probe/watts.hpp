// SPDX-License-Identifier: BSD-3-Clause
// watts.hpp: measures the power of devices by what they do. It knows no kind of counter but that of
// the host.
#pragma once
#include "cpu/blas.hpp"
#include "probe/session.hpp"
#include "run/backend.hpp"

namespace fleet {

inline constexpr int kKindsOfWork = 6;
/// Seconds of a quick measurement: counters advance every 100 ms.
inline constexpr double kWattsBudgetS = 2.5, kCarefulWattsBudgetS = 9;

/// Whether every device of the backend has an energy counter.
bool counts_energy(Backend& backend);

/// Measures Watts of all devices at work side by side, in about `budget_s` (at least
/// kWattsBudgetS), and those of the host where its counters (RAPL) can be read and `blas` is given.
/// Devices whose watts differ by less than a tenth get their mean. False, with nothing changed,
/// where the backend has no counters, they stand still, or memory is short.
bool measure_watts(Backend& backend, CpuBlas* blas, Machine& machine, double budget_s);

/// The same within the session's budget; a value in its notes says if it failed.
void measure_watts_carefully(Backend& backend, CpuBlas* blas, Machine& machine,
                             ProbeSession& session);

}  // namespace fleet
