// SPDX-License-Identifier: BSD-3-Clause
// plan.cpp: the shapes of tiles and the traffic of a finished plan.
#include "plan/plan.hpp"

namespace fleet {

namespace {

// Does the stored operand stand along the rows of C (m x k before op) or along its columns?
bool along_rows(const Problem& problem, int operand) {
  const RoutineTraits& traits = problem.traits();
  if (traits.vectors) return operand == kB;
  if (traits.by_itself) return true;  // its transpose is the other factor
  if (traits.has_side()) return (operand == kA) == (problem.side == Side::left);
  return operand == kA;
}

Op op_of(const Problem& problem, int operand) {
  if (problem.traits().has_side()) return Op::none;  // what has its own transpose is square
  if (problem.traits().vectors)
    return operand == kA && !is_stored_k_by_n(problem.routine, problem.op_a) ? Op::transpose
                                                                             : Op::none;
  return along_rows(problem, operand) ? problem.op_a : problem.op_b;
}

// Tile (i, j) of a symmetric matrix of which one triangle is stored.
Factor mirrored(const Problem& problem, int i, int j) {
  const bool stored = problem.uplo == Uplo::lower ? i >= j : i <= j;
  if (stored) return {{kA, i, j}, Op::none};
  return {{kA, j, i}, problem.traits().hermitian ? Op::conjugate : Op::transpose};
}

// Tile (i, j) of op(A).
Factor triangular(const Problem& problem, int i, int j) {
  return problem.op_a == Op::none ? Factor{{kA, i, j}, Op::none} : Factor{{kA, j, i}, problem.op_a};
}

}  // namespace

const Cuts& Plan::row_cuts(int operand) const {
  if (operand == kC) return m_cuts;
  const bool as_is = op_of(problem, operand) == Op::none;
  if (along_rows(problem, operand)) return as_is ? m_cuts : k_cuts;
  return as_is ? k_cuts : n_cuts;
}

const Cuts& Plan::col_cuts(int operand) const {
  if (operand == kC) return n_cuts;
  const bool as_is = op_of(problem, operand) == Op::none;
  if (along_rows(problem, operand)) return as_is ? k_cuts : m_cuts;
  return as_is ? n_cuts : k_cuts;
}

int rank(const Problem& problem, int tiles, int tile) {
  const bool lower = (problem.uplo == Uplo::lower) == (problem.op_a == Op::none);
  // Solved from the first one on: a lower triangle before, an upper one behind what it is solved
  // for. Multiplied the other way round.
  const bool ascending = (lower == (problem.side == Side::left)) == problem.traits().solves;
  return ascending ? tile : tiles - 1 - tile;
}

int Plan::k_tile(int step) const {
  if (problem.traits().triangular) return rank(step);
  return problem.traits().twice ? step / 2 : step;
}

int Plan::first_step(int row, int col) const {
  const RoutineTraits& traits = problem.traits();
  return traits.triangular && !traits.solves ? rank_of(row, col) : 0;
}

int Plan::last_step(int row, int col) const {
  return problem.traits().solves ? rank_of(row, col) : steps() - 1;
}

Factor Plan::row_factor(int row, int step) const {
  const RoutineTraits& traits = problem.traits();
  const int k = k_tile(step);
  if (traits.triangular)
    return problem.side == Side::left ? triangular(problem, row, k)
                                      : Factor{{kC, row, k}, Op::none};
  if (traits.vectors) return {{kB, 0, k}, Op::none};
  if (traits.symmetric)
    return problem.side == Side::left ? mirrored(problem, row, k) : Factor{{kB, row, k}, Op::none};
  const int rows = tile_count(m_cuts);
  const int item = problem.operands[kA].shared ? 0 : row / rows, at = row % rows;
  const int operand = traits.twice && step % 2 == 1 ? kB : kA;
  if (problem.op_a == Op::none) return {{operand, item * rows + at, k}, Op::none};
  return {{operand, item * tile_count(k_cuts) + k, at}, problem.op_a};
}

Factor Plan::col_factor(int item, int step, int col) const {
  const RoutineTraits& traits = problem.traits();
  if (traits.triangular)
    return problem.side == Side::left ? Factor{{kC, k_tile(step), col}, Op::none}
                                      : triangular(problem, k_tile(step), col);
  const int k = k_tile(step);
  if (traits.vectors)
    return {
        is_stored_k_by_n(problem.routine, problem.op_a) ? TileId{kA, k, col} : TileId{kA, col, k},
        problem.op_a};
  if (traits.symmetric)
    return problem.side == Side::left ? Factor{{kB, k, col}, Op::none} : mirrored(problem, k, col);
  if (traits.by_itself) {
    const int operand = traits.twice && step % 2 == 0 ? kB : kA;
    if (problem.op_a == Op::none) return {{operand, col, k}, problem.op_b};
    return {{operand, k, col}, Op::none};
  }
  if (problem.operands[kB].shared) item = 0;
  if (problem.op_b == Op::none) return {{kB, item * tile_count(k_cuts) + k, col}, Op::none};
  return {{kB, item * tile_count(n_cuts) + col, k}, problem.op_b};
}

Fill Plan::fill_of(const TileId& tile) const {
  const RoutineTraits& traits = problem.traits();
  const bool of_triangle =
      tile.operand == kC ? traits.triangle : tile.operand == kA && traits.has_side();
  if (!of_triangle || tile.row != tile.col) return Fill::full;
  return problem.uplo == Uplo::lower ? Fill::lower : Fill::upper;
}

std::int64_t Plan::rows_of(const TileId& tile) const {
  const Cuts& cuts = row_cuts(tile.operand);
  const std::size_t row = static_cast<std::size_t>(tile.row % tile_count(cuts));
  return cuts[row + 1] - cuts[row];
}

std::int64_t Plan::cols_of(const TileId& tile) const {
  const Cuts& cuts = col_cuts(tile.operand);
  const std::size_t col = static_cast<std::size_t>(tile.col);
  return cuts[col + 1] - cuts[col];
}

std::int64_t Plan::bytes_of(const TileId& tile) const {
  return rows_of(tile) * cols_of(tile) * fleet::bytes_of(problem.type);
}

std::int64_t Plan::moved_bytes_of(const TileId& tile) const {
  if (fill_of(tile) == Fill::full) return bytes_of(tile);
  const std::int64_t edge = rows_of(tile);
  return edge * (edge + 1) / 2 * fleet::bytes_of(problem.type);
}

double Plan::share_of(const TileId& tile) const {
  if (fill_of(tile) == Fill::full) return 1;
  return static_cast<double>(moved_bytes_of(tile)) / static_cast<double>(bytes_of(tile));
}

double Plan::work_of(const TileId& tile, int step) const {
  if (!is_diagonal(tile.row, tile.col, step)) return share_of(tile);
  return share_of({kA, k_tile(step), k_tile(step)});
}

Cargo Plan::cargo_of(const TileId& tile) const {
  const bool whole = rows_of(tile) == row_cuts(tile.operand).back();
  return {.bytes = moved_bytes_of(tile),
          .columns = cols_of(tile),
          .column_bytes = whole ? 0 : rows_of(tile) * fleet::bytes_of(problem.type),
          .home = problem.operands[static_cast<std::size_t>(tile.operand)].home};
}

bool adds_sums(const Plan& plan, const Task& task) {
  return plan.problem.traits().vectors && task.kernel == Kernel::add;
}

std::vector<std::int64_t> bytes_by_link(const Plan& plan, std::size_t links) {
  std::vector<std::int64_t> bytes(links, 0);
  for (const Task& task : plan.tasks)
    if (task.kind != TaskKind::compute)
      bytes.at(static_cast<std::size_t>(task.link)) += plan.moved_bytes_of(task.tile);
  return bytes;
}

std::string link_name(const Machine& machine, LinkId link) {
  const Link& l = machine.links.at(static_cast<std::size_t>(link));
  return machine.devices.at(static_cast<std::size_t>(l.source)).name + "->" +
         machine.devices.at(static_cast<std::size_t>(l.target)).name;
}

}  // namespace fleet
