// SPDX-License-Identifier: BSD-3-Clause
// local.hpp: what a rank does with its own part, by FleetBLAS. It knows no messages.
#pragma once
#include <cstdint>

#include "dist/dealt.hpp"
#include "fleetblas/fleetblas.h"
#include "work/rank.hpp"

namespace fleet::lu {

/// Which elements of C there are.
enum class Elements { all, lower, upper };

/// Indices [begin, end).
struct Range {
  std::int64_t begin, end;
  std::int64_t size() const { return end - begin; }
  bool is_empty() const { return end <= begin; }
};

/// A few rows or columns of a factor, for the rows or columns of C that a rank has: so many numbers
/// for each of these. They lie as in the factor's own memory, so products transpose, nobody else.
struct StripView {
  const double* data;
  std::int64_t first;  ///< C's local index that `data` begins with
  std::int64_t ld;
  bool along;  ///< C's indices follow each other in memory; else the others do

  const double* at(std::int64_t local) const { return data + (local - first) * (along ? 1 : ld); }
  fleet_op as_left() const { return along ? FLEET_NO_TRANS : FLEET_TRANS; }
  fleet_op as_right() const { return along ? FLEET_TRANS : FLEET_NO_TRANS; }
};

/// C := alpha*left*right + beta*C, for what a rank has of it.
struct Update {
  const Dealt& c;
  int row, col;  ///< of the rank, in the grid
  Elements which;
  double alpha;
  StripView left, right;
  std::int64_t depth;  ///< what is summed over; 0: C is scaled only
  double beta;

  /// The first local row from the one on whose index is that of a local column, or `further` on.
  std::int64_t row_of(std::int64_t local_col, std::int64_t further = 0) const {
    return c.rows.local_begin(c.cols.global(local_col, col) + further, row);
  }
};

/// Of these local rows and columns, by all cores of the rank; `between` as Crew::share says.
void update(const Rank& rank, const Update& with, Range rows, Range cols,
            const std::function<void()>& between = {});

/// The same by the thread that calls it, with a BLAS that may use all cores.
void update_at_once(const Rank& rank, const Update& with, Range rows, Range cols);

/// A = L*L^T or U^T*U. Returns the order of the first leading minor that is not positive definite,
/// or 0.
std::int64_t cholesky_at_once(const Rank& rank, fleet_uplo uplo, std::int64_t n, double* a,
                              std::int64_t lda);

}  // namespace fleet::lu
