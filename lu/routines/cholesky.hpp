// SPDX-License-Identifier: BSD-3-Clause
// cholesky.hpp: A = L*L^T or U^T*U over a grid.
#pragma once
#include "dist/grid.hpp"
#include "routines/local.hpp"
#include "schedule/tasks.hpp"

namespace fleet::lu {

/// By all ranks of the grid, numbered along its rows: in the place of one triangle of A, the other
/// one is neither read nor written. Blocks are squares. Returns the order of the first leading
/// minor that is not positive definite, where it ends, or 0. Throws Failure.
std::int64_t cholesky(const Grid& grid, fleet_uplo uplo, const Dealt& a, const Rank& rank,
                      Overlap overlap);

/// No message of this rank's has more numbers.
std::int64_t most_numbers_of_cholesky(const Grid& grid, const Dealt& a);

}  // namespace fleet::lu
