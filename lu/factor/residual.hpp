// SPDX-License-Identifier: BSD-3-Clause
// residual.hpp: how well x solves a system. It knows no factors.
#pragma once
#include <functional>
#include <vector>

#include "dist/fill.hpp"
#include "work/rank.hpp"

namespace fleet::lu {

/// All rows that a rank has of some of its columns.
struct ColumnsOfA {
  const double* data;
  std::int64_t ld;
};
/// Local columns [begin, end) of [A b]; valid until the next call.
using SourceOfA = std::function<ColumnsOfA(std::int64_t begin, std::int64_t end)>;

/// ||Ax - b|| / (eps * (||A|| * ||x|| + ||b||) * n) in the largest norm, with eps = 2^-53, as HPL
/// says it, by all cores. `source` is asked for `at_a_time` columns or fewer; x is by local column.
/// The same on all ranks. Throws Failure.
double residual(const Grid& grid, const Share& share, const std::vector<double>& x,
                std::int64_t at_a_time, const SourceOfA& source, const Rank& rank);

/// Of a system before it was factored.
double residual(const Grid& grid, System& system, const std::vector<double>& x, const Rank& rank);

}  // namespace fleet::lu
