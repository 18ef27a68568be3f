// SPDX-License-Identifier: BSD-3-Clause
// mover.hpp: which device holds which tile, and the copies that bring tiles to workers and results
// home. It does not choose what is computed next.
#pragma once
#include <span>
#include <vector>

#include "plan/decompose.hpp"
#include "plan/router.hpp"
#include "plan/slots.hpp"
#include "plan/task_list.hpp"

namespace fleet {

/// A step of a worker: one k index of one group of C (and of one item of a batch).
struct Step {
  int row_group = 0;
  int col_group = 0;
  int item = 0;
  int k = 0;
};

class Mover {
 public:
  Mover(Plan& plan, const Machine& machine, const Decomposition& decomposition, TaskList& tasks);

  // Input tiles by number: any, the factor along the rows of C and the one along its columns.
  int key_of(const TileId& tile) const {
    return tile.operand == kA ? tile.row * a_cols_ + tile.col
                              : b_base_ + tile.row * b_cols_ + tile.col;
  }
  int key_a(int row, int step) const { return key_of(plan_.row_factor(row, step).tile); }
  int key_b(int item, int step, int col) const {
    return key_of(plan_.col_factor(item, step, col).tile);
  }
  TileId tile_of(int key) const { return tiles_[static_cast<std::size_t>(key)]; }

  /// When the tile is (or will be) at the worker, or a negative number if it was never asked for.
  double held_s(int key, int worker) const;
  /// When it could be there if it were asked for now.
  double estimate_s(int key, int worker) const;
  /// Brings the tile to the worker unless it is there, and says where. With the rule `batching`,
  /// other workers at the same group that will need it get it by the same chain: those of the same
  /// row of the grid where it is the `left` factor, of the same column where it is the right one.
  /// `pinned` is a key that must not be evicted meanwhile (or -1).
  Where acquire(int key, int worker, int pinned, Side side);
  /// The worker is done with the tile for good (rule caching off).
  void drop(int key, int worker);
  /// The worker has solved for this tile of C, which is a factor of others from now on.
  void note_solved(const TileId& tile, int worker, const Where& where, double ready_s);
  /// Nobody needs the solved tile any more.
  void forget_solved(const TileId& tile);

  /// A slot of the output pool. Throws Error(no_memory).
  Where take_output(int worker, std::int64_t bytes);
  void give_back_output(const Where& where);
  /// Copies a C tile from home into `to`. `after_writer`: the last writeback of it, or kNoTask.
  /// Returns when it arrives.
  double fetch_output(const TileId& tile, const Where& to, TaskId after_writer);
  /// Copies a C tile from a slot home, not before `ready_s`. Sets `last` to the final hop.
  double write_back(const TileId& tile, const Where& from, double ready_s, TaskId& last);

  /// Copies a sum over a part of k from one worker's slot into another's. Returns when it arrives.
  double bring_sum(const TileId& tile, const Where& from, const Where& to, double ready_s);

  /// Orders `after` behind whatever used the slot before (only matters where slots are recycled),
  /// and what wrote the contents of a place that is about to be read.
  void before_write(const Where& where, const TileId& tile);
  void before_read(const Where& where, const TileId& tile);
  void note_read(const Where& where, const TileId& tile, TaskId task);
  void note_write(const Where& where, const TileId& tile, TaskId task);
  std::vector<TaskId>& after() { return after_; }

  void set_position(int worker, const Step& step) {
    positions_[static_cast<std::size_t>(worker)] = step;
  }
  /// Forgets every input tile on every device (between cubes, where the paper's buffers start
  /// anew).
  void forget_inputs(int worker);

  bool in_place(int operand, int worker) const;
  DeviceId device_of(int worker) const {
    return plan_.tuning.workers[static_cast<std::size_t>(worker)];
  }
  void finish();

 private:
  struct Held {
    int slot = -1;
    double arrival_s = -1;
  };
  /// Who used a tile of C at home, where tiles of C are factors too.
  struct AtHome {
    TaskId writer = kNoTask;
    std::vector<TaskId> readers;
  };
  /// A step that a tile is a factor in, for a row of tiles of C or a column of them.
  struct Use {
    Side side;
    int at;
    int step;
  };

  void limit_pools();
  void limit_stream(std::int64_t input_bytes, std::int64_t output_bytes);
  void limit_worker(int worker, std::int64_t input_bytes, std::int64_t output_bytes);
  void number_tiles();
  void note_uses();
  int operand_of(int key) const { return key < b_base_ ? kA : other_; }
  AtHome* at_home(const Where& where, const TileId& tile);
  /// The tile lies where the worker may use it.
  bool lies_in_place(int key, int worker) const;
  int owner_of(const TileId& tile) const;
  std::int64_t next_use_by_triangle(const TileId& tile, int worker) const;
  std::span<const Holder> holders_of(int key);
  void find_users(int key, int worker, Side side);
  bool may_take(int key, int worker, int pinned);
  int take_input(int key, int worker, int pinned);
  int furthest(int worker, int pinned, std::int64_t& next_use) const;
  std::int64_t next_use(int key, int worker) const;
  TaskId emit_leg(TaskKind kind, const TileId& tile, const Leg& leg, const Where& from,
                  const Where& to, int chunks, TaskId upstream);
  TaskId emit_hop(TaskKind kind, const TileId& tile, LinkId link, const Where& from,
                  const Where& to, int chunks, TaskId upstream);
  QueueId queue_of(TaskKind kind, LinkId link) const;
  Held& held(int key, int worker) {
    return held_[static_cast<std::size_t>(worker) * tiles_.size() + static_cast<std::size_t>(key)];
  }
  const Held& held(int key, int worker) const {
    return held_[static_cast<std::size_t>(worker) * tiles_.size() + static_cast<std::size_t>(key)];
  }
  SlotStore& store(DeviceId d) { return stores_[static_cast<std::size_t>(d)]; }

  Plan& plan_;
  const Problem& problem_;
  const Machine& machine_;
  const Tuning& tuning_;
  const Decomposition& cut_;
  TaskList& tasks_;
  mutable Router router_;
  std::vector<SlotStore> stores_;  ///< per device
  std::vector<TileId> tiles_;      ///< per key: A's, then B's
  std::vector<Cargo> cargos_;
  std::vector<Held> held_;                                    ///< [worker][key]
  std::vector<Step> positions_;                               ///< per worker
  std::vector<std::vector<char>> row_present_, col_present_;  ///< [group][grid row or column]
  int other_ = kB;                                            ///< the operand beside A: trmm's is C
  int b_base_ = 0;                                            ///< key of its first tile
  int a_cols_ = 0, b_cols_ = 0;                               ///< tiles
  std::vector<AtHome> at_home_;         ///< per key from b_base_ on, if C is it
  std::vector<std::vector<Use>> uses_;  ///< per key, if not gemm's
  mutable std::vector<Holder> holders_;
  std::vector<int> users_;  ///< workers that a chain goes to, the asking one first
  std::vector<DeviceId> user_devices_;
  std::vector<int> chain_slots_;
  std::vector<TaskId> after_;
};

}  // namespace fleet
