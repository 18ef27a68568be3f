// SPDX-License-Identifier: BSD-3-Clause
// equations.hpp: PA = LU over a grid, and A*X = B by it.
#pragma once
#include <memory>

#include "dist/grid.hpp"
#include "factor/factor.hpp"
#include "on_device/own_device.hpp"
#include "routines/local.hpp"

namespace fleet::lu {

/// A factorization of A, a square of square blocks, by all ranks of the grid, numbered along its
/// rows.
class Equations {
 public:
  /// All ranks make it together. Takes the memory: of each rank as much again as its part of A has,
  /// and that of messages. That is memory of devices where A is worth it and all ranks have one
  /// with room. Nothing is done to A. All outlive it, until factor() has returned. Throws Failure.
  Equations(const Grid& grid, const Dealt& a, const Rank& rank, Overlap overlap,
            OwnDevice* own = nullptr);
  ~Equations();
  bool is_on_devices() const;
  /// Once, in the place of A. Pivots and info are LAPACK's, on all ranks. Throws Failure.
  Factored factor();

 private:
  struct Copy;
  const Grid& grid_;
  const Dealt a_;
  const Rank& rank_;
  OwnDevice* const own_;
  std::unique_ptr<Copy> copy_;
};

/// X in the place of B, by what that left in A. Throws Failure.
void solve_equations(const Grid& grid, const ConstDealt& a, std::span<const std::int64_t> pivots,
                     const Dealt& b, const Rank& rank, Overlap overlap);

/// No message of this rank's has more numbers, but for those of solve_equations().
std::int64_t most_numbers_of_equations(const Grid& grid, const Dealt& a);

}  // namespace fleet::lu
