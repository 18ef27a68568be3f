// SPDX-License-Identifier: BSD-3-Clause
// execute.hpp: replays a plan on a backend. It decides nothing.
#pragma once
#include "exec/backend.hpp"

namespace fleet {

/// How a backend takes a plan: all of it at once, or prepared for one task after another.
enum class Start { whole, prepared };

/// Lets `backend` begin with `plan`. Throws what its replay() and prepare() throw:
/// Error(no_memory), Error(device_failed), with nothing touched. `serial`: see Backend::replay.
Start start(const Plan& plan, const Arguments& arguments, Backend& backend,
            std::uint64_t serial = 0);

/// Does the rest of `plan`, which `backend` began with, and returns when C is home. From here on C
/// may be changed: a task that fails, or at which the backend throws, is reported in the Trace, and
/// recover() goes on from there. Throws nothing but Error(device_failed), with C undefined, for a
/// backend that cannot finish.
Trace complete(const Plan& plan, const Arguments& arguments, Backend& backend, Start started);

/// Both in one.
Trace execute(const Plan& plan, const Arguments& arguments, Backend& backend,
              std::uint64_t serial = 0);

/// What a multiply of this problem's plans is: Launch::routine.
Routine kernel_of(const Problem& problem);

/// What a step's product is multiplied by: alpha, which her2k conjugates for every second one; trsm
/// takes products away.
std::complex<double> factor_of_step(const Plan& plan, int step, std::complex<double> alpha);

/// The view of `tile` in the operand's own storage, or in a slot at `slot_address`.
View view_of(const Plan& plan, const Arguments& arguments, const TileId& tile, const Where& where,
             void* slot_address);

}  // namespace fleet
