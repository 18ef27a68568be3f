// SPDX-License-Identifier: BSD-3-Clause
// fill.hpp: Linpack's random systems.
#pragma once
#include "dist/matrix.hpp"

namespace fleet::lu {

/// Element (i, j) of [A b] is number i + j*n of the sequence.
void fill(const Grid& grid, System& system);

}  // namespace fleet::lu
