// SPDX-License-Identifier: BSD-3-Clause
// planner_copies.cpp: plans of copies alone, which bring tiles home or to devices.
#include <algorithm>
#include <utility>

#include "plan/mover.hpp"
#include "plan/queues.hpp"
#include "plan/validate.hpp"

namespace fleet {
namespace {

/// `move(mover)` makes the copies and returns when they are done.
template <typename Move>
Plan plan_copies(std::shared_ptr<const TileProgram> matrices, const Residency& before,
                 const Machine& machine, std::span<const std::int64_t> memory_cap, Move move) {
  Plan plan;
  for (DeviceId d = kFirstDevice; d < std::ssize(machine.devices); ++d)
    plan.tuning.workers.push_back(d);
  plan.tuning.grid = {1, static_cast<int>(plan.tuning.workers.size())};
  plan.tuning.tile = 1;  // no more than a name: tiles are given
  plan.tuning.memory_cap.assign(memory_cap.begin(), memory_cap.end());
  require_valid(*matrices, {}, machine, plan.tuning);
  plan.program = std::move(matrices);
  add_queues(plan, machine);
  TaskList tasks(plan, plan.queues.size());
  Mover mover(plan, machine, {}, before, tasks, {});
  plan.planned_s = move(mover);
  mover.finish();
  return plan;
}

}  // namespace

Plan plan_return(std::shared_ptr<const TileProgram> matrices, const Residency& before,
                 std::span<const TileId> tiles, const Machine& machine,
                 std::span<const std::int64_t> memory_cap) {
  return plan_copies(std::move(matrices), before, machine, memory_cap, [&](Mover& mover) {
    double last_s = 0;
    for (const TileId& tile : tiles) last_s = std::max(last_s, mover.bring_home(tile));
    return last_s;
  });
}

Plan plan_spread(std::shared_ptr<const TileProgram> matrices, const Residency& before,
                 std::span<const Residency::Copy> wanted, const Machine& machine,
                 std::span<const std::int64_t> memory_cap) {
  return plan_copies(std::move(matrices), before, machine, memory_cap, [&](Mover& mover) {
    double last_s = 0;
    for (const auto& [tile, device] : wanted)
      last_s = std::max(last_s, mover.bring_to(tile, device));
    return last_s;
  });
}

Residency at_owners(const TileProgram& program) {
  Residency residency;
  for (MatrixId id = 0; id < std::ssize(program.matrices); ++id) {
    const Matrix& matrix = program.matrices[static_cast<std::size_t>(id)];
    if (!matrix.distribution) continue;
    for (int row = 0; row < matrix.tile_rows(); ++row)
      for (int col = 0; col < matrix.tile_cols(); ++col) {
        if (!matrix.has_tile(row, col)) continue;
        const TileId tile{id, row, col};
        residency.copies.push_back(
            {tile, matrix.distribution->owner_of(matrix.row_cuts[static_cast<std::size_t>(row)],
                                                 matrix.col_cuts[static_cast<std::size_t>(col)])});
        residency.away.push_back(tile);
      }
  }
  return residency;
}

}  // namespace fleet
