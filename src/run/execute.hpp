// SPDX-License-Identifier: BSD-3-Clause
// execute.hpp: replays a plan on a backend. It decides nothing.
#pragma once
#include "run/backend.hpp"

namespace fleet {

/// Does all of `plan` in the run that a backend has begun with it, and returns when C is home. From
/// here on C may be changed: a task that fails, or at which the backend throws, is reported in the
/// Trace, and recover() goes on from there. Throws nothing but Error(device_failed), with C
/// undefined, for a backend that cannot finish.
Trace complete(const Plan& plan, const Binding& binding, Execution& run);

/// begin() and complete() in one. Throws as they do.
Trace execute(const Plan& plan, const Binding& binding, Backend& backend, std::uint64_t serial = 0);

/// The same for a plan of one call.
Trace execute(const Plan& plan, const Arguments& arguments, Backend& backend,
              std::uint64_t serial = 0);

/// The address of a slot, be it in the arena of the run or bound.
void* address_of(const Plan& plan, const Binding& binding, const Where& where, Execution& run);

/// The view of `tile` in the matrix's own storage, or in a slot at `slot_address`.
View view_of(const Plan& plan, const Binding& binding, const TileId& tile, const Where& where,
             void* slot_address);

/// The launch for `op` on `target`, still without its operands and the factor of its target.
Launch launch_of(const TileProgram& program, const TileOp& op, const TileId& target,
                 const Binding& binding);

}  // namespace fleet
