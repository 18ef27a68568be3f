// SPDX-License-Identifier: BSD-3-Clause
// described.hpp: parts of matrices as ScaLAPACK's descriptors say them. It knows no messages.
#pragma once
#include <stdexcept>
#include <string>

#include "dist/dealt.hpp"
#include "dist/grid.hpp"
#include "fleetblas/fleetblas.h"

namespace fleet::lu {

/// A call that is refused before anything is touched.
class Refusal : public std::runtime_error {
 public:
  Refusal(fleet_status why, const std::string& text) : std::runtime_error(text), status(why) {}
  const fleet_status status;
};

/// An operand of a call: `rows` x `cols` from row `i` and column `j` on, which count from 1.
struct Operand {
  std::string name;
  std::int64_t rows, cols;
  const double* elements;
  std::int64_t i, j;
  const int* descriptor;
};

/// What this rank has of it. Throws Refusal.
ConstDealt described(const Grid& grid, const Operand& operand);
/// The same of one that is written.
Dealt described(const Grid& grid, const Operand& operand, double* elements);

/// Throws Refusal unless blocks of all those that have elements are of one size.
void check_blocks(std::initializer_list<ConstDealt> operands);

}  // namespace fleet::lu
