// SPDX-License-Identifier: BSD-3-Clause
// solution.hpp: op(A)*X = alpha*B or X*op(A) = alpha*B over a grid, with A a triangle.
#pragma once
#include "dist/grid.hpp"
#include "routines/local.hpp"
#include "schedule/tasks.hpp"

namespace fleet::lu {

struct Solution {
  fleet_side side;
  fleet_uplo uplo;
  fleet_op op;
  fleet_diag diag;
  double alpha;
  ConstDealt a;
  Dealt b;  ///< X takes its place
};

/// By all ranks of the grid, numbered along its rows. Blocks are squares. Throws Failure.
void solve(const Grid& grid, const Solution& solution, const Rank& rank, Overlap overlap);

/// No message of this rank's has more numbers.
std::int64_t most_numbers(const Grid& grid, const Solution& solution);

}  // namespace fleet::lu
