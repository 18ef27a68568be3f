// SPDX-License-Identifier: BSD-3-Clause
// factor.hpp: a system of equations, factored and solved by all ranks of a grid.
#pragma once
#include <array>
#include <functional>
#include <vector>

#include "factor/section.hpp"
#include "schedule/tasks.hpp"

namespace fleet::lu {

struct Factored {
  /// 1-based rows, as LAPACK's: of all columns, on all ranks.
  std::vector<std::int64_t> pivots;
  /// The first column from 1 on whose pivot is zero: there is no solution. Else 0.
  std::int64_t info = 0;
};

struct Schedule {
  Overlap overlap = Overlap::full;
  Pivoting pivoting = Pivoting::partial;
};

/// The memory of a factorization beside the matrix.
struct Workspace {
  std::array<Buffer, 2> panels;            ///< of a step and the next one
  std::array<SectionBuffers, 3> sections;  ///< by Part
  /// Takes all of it now, and throws Failure where there is too little.
  void touch(const Grid& grid, const System& system, Overlap overlap);
  /// Pinned for the devices of the rank, together with the matrix, as far as it is taken.
  Pinned pin(System& system, const Devices& devices);
};

/// Columns of the longest section of each Part.
std::array<std::int64_t, 3> longest_sections(const Shape& shape, int col, Overlap overlap);

/// PA = LU in the place of A; b becomes L^-1 P b. `after_step` hears how many of all steps are
/// done. Throws Failure.
Factored factor(const Grid& grid, System& system, Workspace& workspace, const Rank& rank,
                const Schedule& schedule,
                const std::function<void(std::int64_t, std::int64_t)>& after_step = {});

/// The solution of the factored system: element j on the ranks that have column j, by local column.
/// Throws Failure.
std::vector<double> solve(const Grid& grid, System& system, const Rank& rank);

}  // namespace fleet::lu
