// SPDX-License-Identifier: BSD-3-Clause
// factor_planner.hpp: plans of factorizations. It knows strips and panels, and no element of them.
#pragma once
#include "plan/plan.hpp"

namespace fleet {

/// Schedules the program of a factorization (program/strips.hpp) for tuning.workers, to which its
/// strips are dealt in turn. Panel by panel: the worker that has the strip factors it as soon as
/// the panels before have updated it, while the others update their strips by the panels before
/// (look-ahead; a worker without others does both, on a lane of its own for panels); then the panel
/// goes to all of them. Pure, like schedule(). A strip stays with its
/// worker from its first op to its last.
///
/// Throws Error(no_memory) where the caps do not hold the strips of the stage and the panels under
/// way, Error(unreachable) where a worker cannot be reached.
Plan schedule_factorization(std::shared_ptr<const TileProgram> program, const Machine& machine,
                            const Tuning& tuning);

}  // namespace fleet
