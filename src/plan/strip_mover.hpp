// SPDX-License-Identifier: BSD-3-Clause
// strip_mover.hpp: the places and copies of strips and panels while a factorization is planned. It
// does not choose what is computed next.
#pragma once
#include <span>
#include <vector>

#include "plan/router.hpp"
#include "plan/strip_places.hpp"
#include "plan/task_list.hpp"

namespace fleet {

/// Where a tile is on a device, or at home, and from when on.
struct TileCopy {
  Where where;
  double ready_s = 0;
};

class StripMover {
 public:
  /// All must outlive it.
  StripMover(Plan& plan, const Machine& machine, TaskList& tasks);

  StripSlots& slots(DeviceId device) { return slots_[index(device)]; }
  const StripSlots& slots(DeviceId device) const { return slots_[index(device)]; }
  /// Pinned slots for what passes the host, if anything does between these places.
  void make_ring(DeviceId home, std::int64_t bytes);

  /// Adds a compute task that reads and writes these places, after all that used them before.
  TaskId add(const Task& task, const std::array<TileId, 2>& inputs);
  /// Copies a tile to a place. Returns when it is there.
  double fetch(const TileId& tile, const TileCopy& from, const Where& to, TaskKind kind);
  /// One chain from a device to several. `take(device)` names the place there, and `note` is told
  /// when the tile has come.
  template <typename Take, typename Note>
  void send(const TileId& tile, const TileCopy& from, std::span<const DeviceId> to, Take take,
            Note note) {
    const Holder holder{from.where.device, from.ready_s};
    const Cargo cargo = program_.cargo_of(tile);
    const Chain chain = router_.route({&holder, 1}, to, cargo);
    Where at = from.where;
    TaskId upstream = kNoTask;
    used(at, tile).before_read(after_);
    for (std::size_t u = 0; u < chain.users.size(); ++u) {
      const Where next = take(chain.users[u]);
      upstream = emit_leg(TaskKind::fetch, tile, chain.legs[u], at, next, chain.chunks, upstream);
      router_.commit(chain.legs[u], cargo.bytes);
      note(chain.users[u], chain.legs[u].stop_s());
      at = next;
    }
  }
  /// Hands the slots over to the plan.
  void finish();

 private:
  bool passes_host(DeviceId home) const;
  TaskId emit_leg(TaskKind kind, const TileId& tile, const Leg& leg, const Where& from,
                  const Where& to, int chunks, TaskId upstream);
  Used& used(const Where& where, const TileId& tile) {
    if (!where.in_place()) return slots_[index(where.device)].used(where.slot);
    return homes_[index(tile.matrix)];
  }

  Plan& plan_;
  const TileProgram& program_;
  const Machine& machine_;
  TaskList& tasks_;
  Router router_;
  std::vector<StripSlots> slots_;  ///< per device
  std::vector<Used> homes_;        ///< per matrix
  SlotRing ring_;
  std::vector<TaskId> after_;
};

}  // namespace fleet
