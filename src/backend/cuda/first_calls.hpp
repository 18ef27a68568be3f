// SPDX-License-Identifier: BSD-3-Clause
// first_calls.hpp: what cuBLAS and cuSOLVER leave in the process with the first call of a kind. It
// must not know runs.
#pragma once
#include "program/tile_program.hpp"

namespace fleet::cuda {

/// The libraries set themselves up with the first call of each routine and type, exit handlers
/// included: ours is to be called before them. To be called after a run of the program.
void outlast_handlers_of(const TileProgram& program);

}  // namespace fleet::cuda
