// SPDX-License-Identifier: BSD-3-Clause
// validate.hpp: refuses what no plan can be made of. It makes none.
#pragma once
#include <span>

#include "machine/machine.hpp"
#include "program/decompose.hpp"
#include "program/tile_program.hpp"
#include "program/tuning.hpp"

namespace fleet {

/// Throws Error(bad_argument) naming what does not fit: a grid without its workers, a worker or an
/// operand that the machine does not have, missing memory caps, a part of the CPU that it cannot
/// have.
void require_valid(const TileProgram& program, std::span<const Dealing> deals,
                   const Machine& machine, const Tuning& tuning);

}  // namespace fleet
