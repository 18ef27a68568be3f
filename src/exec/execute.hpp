// SPDX-License-Identifier: BSD-3-Clause
// execute.hpp: replays a plan on a backend. It decides nothing.
#pragma once
#include "exec/backend.hpp"

namespace fleet {

/// Runs `plan` with `arguments` and returns when C is home. Throws Error(no_memory) before anything
/// is touched; a task that fails is reported in the Trace. `serial`: see Backend::replay.
Trace execute(const Plan& plan, const Arguments& arguments, Backend& backend,
              std::uint64_t serial = 0);

/// The view of `tile` in the operand's own storage, or in a slot at `slot_address`.
View view_of(const Plan& plan, const Arguments& arguments, const TileId& tile, const Where& where,
             void* slot_address);

}  // namespace fleet
