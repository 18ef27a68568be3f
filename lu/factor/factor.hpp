// SPDX-License-Identifier: BSD-3-Clause
// factor.hpp: a system of equations, factored and solved by all ranks of a grid.
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <span>
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

/// A panel that all ranks know or will know.
struct PanelStep {
  std::unique_ptr<Panel> panel;
  std::unique_ptr<RowMoves> moves;  ///< once it is there
  std::unique_ptr<Request> sent;

  /// From the ranks that have factored it. By the thread that factors, as arrive().
  void send(const Grid& grid, const Rank& rank);
  /// Waits for it, and notes its pivots.
  void arrive(const Rank& rank, Factored& factored);
};

/// Messages of panels: of a step and the next one.
using PanelBuffers = std::array<Buffer, 2>;
/// Takes the memory of the largest ones. Throws Failure where there is too little.
void touch(PanelBuffers& buffers, const Grid& grid, const Blocks& rows, const Blocks& cols);

/// The memory of a factorization beside the matrix.
struct Workspace {
  PanelBuffers panels;
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

/// What a rank does in back substitution with its part of the matrix and its rows' right sides.
/// Blocks are named by the local row and the local column where they begin.
class Substitution {
 public:
  virtual ~Substitution() = default;
  /// What this rank's columns leave of right sides, from a row on.
  virtual void read_left(std::int64_t row, std::span<double> part) = 0;
  /// part = U^-1 part, with the upper triangle of a block on the diagonal.
  virtual void solve(std::int64_t row, std::int64_t col, std::span<double> part) = 0;
  /// The columns that begin there leave the right sides before a row, multiplied by what has been
  /// solved for.
  virtual void subtract(std::int64_t row, std::int64_t col, std::span<const double> part) = 0;
};
/// As solve() of a System, which is one of these.
std::vector<double> solve(const Grid& grid, const Blocks& rows, const Blocks& cols,
                          Substitution& own);

/// The solution of the factored system: element j on the ranks that have column j, by local column.
/// Throws Failure.
std::vector<double> solve(const Grid& grid, System& system, const Rank& rank);

}  // namespace fleet::lu
