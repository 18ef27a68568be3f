// SPDX-License-Identifier: BSD-3-Clause
// factor.hpp: a system of equations, factored and solved by all ranks of a grid.
#pragma once
#include <vector>

#include "factor/panel.hpp"

namespace fleet::lu {

/// How far messages are hidden under products.
enum class Overlap {
  none,       ///< every message is waited for
  lookahead,  ///< the next panel is factored and under way before the rest of a step is updated
};

struct Factored {
  /// 1-based rows, as LAPACK's: of all columns, on all ranks.
  std::vector<std::int64_t> pivots;
  /// The first column from 1 on whose pivot is zero: there is no solution. Else 0.
  std::int64_t info = 0;
};

/// PA = LU in the place of A; b becomes L^-1 P b. Throws Failure.
Factored factor(const Grid& grid, System& system, const Blas& blas, Overlap overlap);

/// The solution of the factored system: element j on the ranks that have column j, by local column.
/// Throws Failure.
std::vector<double> solve(const Grid& grid, System& system, const Blas& blas);

/// ||Ax - b|| / (eps * (||A|| * ||x|| + ||b||) * n) in the largest norm, with eps = 2^-53, as HPL
/// says it; `system` is the one before factor(). The same on all ranks.
double residual(const Grid& grid, System& system, const std::vector<double>& x);

}  // namespace fleet::lu
