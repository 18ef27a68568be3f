// SPDX-License-Identifier: BSD-3-Clause
// plan.cpp: the shapes of tiles and the traffic of a finished plan.
#include "plan/plan.hpp"

namespace fleet {

const Cuts& Plan::row_cuts(int operand) const {
  switch (operand) {
    case kA:
      return problem.op_a == Op::none ? m_cuts : k_cuts;
    case kB:
      return problem.op_b == Op::none ? k_cuts : n_cuts;
    default:
      return m_cuts;
  }
}

const Cuts& Plan::col_cuts(int operand) const {
  switch (operand) {
    case kA:
      return problem.op_a == Op::none ? k_cuts : m_cuts;
    case kB:
      return problem.op_b == Op::none ? n_cuts : k_cuts;
    default:
      return n_cuts;
  }
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

Cargo Plan::cargo_of(const TileId& tile) const {
  const bool whole = rows_of(tile) == row_cuts(tile.operand).back();
  return {.bytes = bytes_of(tile),
          .columns = cols_of(tile),
          .column_bytes = whole ? 0 : rows_of(tile) * fleet::bytes_of(problem.type),
          .home = problem.operands[static_cast<std::size_t>(tile.operand)].home};
}

std::vector<std::int64_t> bytes_by_link(const Plan& plan, std::size_t links) {
  std::vector<std::int64_t> bytes(links, 0);
  for (const Task& task : plan.tasks)
    if (task.kind != TaskKind::compute)
      bytes.at(static_cast<std::size_t>(task.link)) += plan.bytes_of(task.tile);
  return bytes;
}

std::string link_name(const Machine& machine, LinkId link) {
  const Link& l = machine.links.at(static_cast<std::size_t>(link));
  return machine.devices.at(static_cast<std::size_t>(l.source)).name + "->" +
         machine.devices.at(static_cast<std::size_t>(l.target)).name;
}

}  // namespace fleet
