// SPDX-License-Identifier: BSD-3-Clause
// tune_program.hpp: finds the best plan for calls that follow each other. Pure.
#pragma once
#include "program/composition.hpp"
#include "tune/tune.hpp"

namespace fleet {

/// The tiles of programs on a machine: the least edge is one with which its products are fast.
/// `tile`: the caller's edge, or 0. Corrections of rates change nothing.
RegularTiles regular_tiles(const Machine& machine, Storage storage, std::int64_t tile);

/// Plans the program of several calls as one. Its tiles are given (regular_cuts), so that results
/// do not depend on what is planned together; workers, their grid and groups are chosen by
/// simulation, like the plan of a call, by the request's goal for the whole program. Rules, caps
/// and workers of the request hold; presets, shares and the CPU's part are for single calls. Throws
/// as schedule. `before`: where tiles are as the program begins.
Tuned tune_program(std::shared_ptr<const TileProgram> program, const Machine& machine,
                   const TuneRequest& request, const Residency& before = {});
/// The same of calls, with the request's tile.
Tuned tune_program(const Composition& composition, const Machine& machine,
                   const TuneRequest& request);

}  // namespace fleet
