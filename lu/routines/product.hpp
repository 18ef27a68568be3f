// SPDX-License-Identifier: BSD-3-Clause
// product.hpp: C := alpha*op(A)*op(B) + beta*C over a grid, for all of C or a triangle of it.
#pragma once
#include "dist/grid.hpp"
#include "on_device/own_device.hpp"
#include "routines/local.hpp"
#include "schedule/tasks.hpp"

namespace fleet::lu {

/// Blocks of all matrices are nb x nb.
struct Product {
  Elements which = Elements::all;
  fleet_op op_a, op_b;
  double alpha;
  ConstDealt a, b;
  double beta;
  Dealt c;
  std::int64_t depth;  ///< columns of op(A), rows of op(B)
};

/// By all ranks of the grid, numbered along its rows; on the rank's own device where that is worth
/// it; returns whether it was. C shares no memory with A and B. Throws Failure.
bool multiply(const Grid& grid, const Product& product, const Rank& rank, Overlap overlap,
              OwnDevice* own = nullptr);

/// No message of this rank's has more numbers.
std::int64_t most_numbers(const Grid& grid, const Product& product);

}  // namespace fleet::lu
