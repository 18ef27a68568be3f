// SPDX-License-Identifier: BSD-3-Clause
// equations.hpp: PA = LU over a grid, and A*X = B by it.
#pragma once
#include "dist/grid.hpp"
#include "factor/factor.hpp"
#include "routines/local.hpp"

namespace fleet::lu {

/// In the place of A, a square of square blocks, by all ranks of the grid, numbered along its rows.
/// Each rank takes as much memory again as its part has. Pivots and info are LAPACK's, on all
/// ranks. Throws Failure.
Factored factor_equations(const Grid& grid, const Dealt& a, const Rank& rank, Overlap overlap);

/// X in the place of B, by what that left in A. Throws Failure.
void solve_equations(const Grid& grid, const ConstDealt& a, std::span<const std::int64_t> pivots,
                     const Dealt& b, const Rank& rank, Overlap overlap);

}  // namespace fleet::lu
