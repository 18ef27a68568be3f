// SPDX-License-Identifier: BSD-3-Clause
// mover.hpp: which device holds which tile, and the copies that bring tiles to workers and results
// home. It does not choose what is computed next.
#pragma once
#include <cstdlib>
#include <limits>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "plan/call_layout.hpp"
#include "plan/later_calls.hpp"
#include "plan/pools.hpp"
#include "plan/queues.hpp"
#include "plan/router.hpp"
#include "plan/task_list.hpp"

namespace fleet {

/// A step of a worker: one op of each chain of one group (and of one item of a batch).
struct Step {
  int row_group = 0;
  int col_group = 0;
  int item = 0;
  int at = 0;
};

/// A factor of the targets in a row (the left one) or a column of C.
struct FactorUse {
  Side side = Side::left;
  int line = 0;  ///< the row, or the column
};

/// No input tile.
inline constexpr int kNoKey = -1;

class Mover {
 public:
  /// `before`: where tiles are as the plan begins. `sent`: of the plan, from send_in_turn().
  Mover(Plan& plan, const Machine& machine, std::span<const Dealing> deals, const Residency& before,
        TaskList& tasks, SentQueues sent);

  /// From now on tiles are moved for this call. It must live until the next.
  void enter(const CallLayout& layout);

  /// Input tiles by number: those of all matrices that some op reads.
  int key_of(const TileId& tile) const {
    const Keys& keys = keys_[static_cast<std::size_t>(tile.matrix)];
    return keys.first + tile.row * keys.cols + tile.col;
  }
  TileId tile_of(int key) const { return tiles_[static_cast<std::size_t>(key)]; }

  /// When the tile is (or will be) at the worker, or a negative number if it was never asked for.
  double held_s(int key, int worker) const;
  /// When it could be there if it were asked for now.
  double estimate_s(int key, int worker);
  /// Brings the tile to the worker unless it is there, and says where. With the rule `batching`,
  /// other workers at the same group that will need it get it by the same chain: those of the same
  /// row of the grid where it is the left factor, of the same column where it is the right one, or
  /// of both (Tuning::both_sides).
  /// `pinned` is a key that must not be evicted meanwhile (or kNoKey).
  Where acquire(int key, int worker, int pinned, const FactorUse& use);
  /// The worker is done with the tile for good (rule caching off).
  void drop(int key, int worker);
  /// The worker's slot has the call's result for this tile, and others will read it from there.
  /// In plans of several calls it is the only copy from now on.
  void note_result(const TileId& tile, int worker, const Where& where, double ready_s);
  /// No op of this call needs the result there any more: where no later call does, the slot is
  /// given back.
  void forget_result(const TileId& tile);
  /// Do results of a call stay in their slots for later calls that use them?
  bool keeps_results() const { return keeps_results_; }
  /// Do ops of several calls, or of one that reads what it writes, use this written tile?
  bool is_tracked(const TileId& tile) const { return keys_of(tile).tracked; }
  /// The version that this call makes of the tile need not come home: a later call makes another
  /// one, or its matrix stays.
  bool may_wait(const TileId& tile) const;
  /// Does the home of the tile have an older version?
  bool is_away(const TileId& tile) const;
  /// Where the newest version is: a slot, or at home.
  Where newest(const TileId& tile) const;
  /// Gives the worker the slot that has the tile, to go on in; false if there is none.
  bool take_over(const TileId& tile, int worker, Where& where, double& arrival_s);
  /// A kernel has changed the tile where its newest version was.
  void note_changed(const TileId& tile, const Where& where, double ready_s);
  /// The tile is complete at home at `home_s`. Copies of its earlier version are dropped.
  void note_home(const TileId& tile, double home_s);

  /// An op on `target` reads the tile.
  void note_use(const TileId& tile, const TileId& target) {
    Changing* change = changing(tile);
    if (change == nullptr || tile == target) return;
    if (tile.matrix == target.matrix && !layout_->call().reads_results) {
      if (!change->nearest_user.exists() ||
          tiles_between(tile, target) < tiles_between(tile, change->nearest_user))
        change->nearest_user = target;
    } else if (change->users.empty() || change->users.back() != target) {
      change->users.push_back(target);
    }
  }

  /// The place of a prepared form of a tile on the worker's device. `made` says whether it was
  /// there already.
  Where take_prepared(const TileId& tile, Form form, int worker, bool& made);

  /// A slot of the output pool. Throws Error(no_memory).
  Where take_output(int worker, std::int64_t bytes);
  /// A slot for a target: one that outlives the plan where its matrix stays.
  Where take_target(int worker, const TileId& tile);
  void give_back_output(const Where& where);
  /// Is the tile at home on a device that sends to workers what it has from the start (Sent)?
  bool is_sent_from_home(const TileId& tile) const {
    return sent_queues_.sends(program_.matrix_of(tile).home);
  }
  /// Copies a target from home into `to`. `after_writer`: the last writeback of it, or kNoTask.
  /// Returns when it arrives.
  double fetch_output(const TileId& tile, const Where& to, TaskId after_writer);
  /// Copies a target from a slot home, not before `ready_s`. Sets `last` to the final hop.
  double write_back(const TileId& tile, const Where& from, double ready_s, TaskId& last);
  /// Copies sums of some ops from one worker's slot into another's. Returns when they arrive.
  double bring_sum(const TileId& tile, const Where& from, const Where& to, double ready_s);

  /// before_write adds to after() whatever used the place before (for slots it matters only where
  /// they are recycled), before_read whatever wrote what is about to be read.
  void before_write(const Where& where, const TileId& tile);
  void before_read(const Where& where, const TileId& tile);
  void note_read(const Where& where, const TileId& tile, TaskId task);
  void note_write(const Where& where, const TileId& tile, TaskId task);
  std::vector<TaskId>& after() { return after_; }

  /// What is added next comes after the last copy of an input from the host to the device.
  void after_inputs(DeviceId device) {
    after_.push_back(last_input_[static_cast<std::size_t>(device)]);
  }

  void set_position(int worker, const Step& step) {
    positions_[static_cast<std::size_t>(worker)] = step;
  }
  /// Forgets every input tile on the worker (between cubes, where the paper's buffers start anew).
  void forget_inputs(int worker);

  /// Does the worker use the matrix where it is at home?
  bool in_place(MatrixId matrix, int worker) const;
  DeviceId device_of(int worker) const { return devices_[static_cast<std::size_t>(worker)]; }
  /// Brings a tile home that is away. Returns when it is there.
  double bring_home(const TileId& tile);
  /// Copies a tile to a device, where it stays, unless it is there. Returns when it is.
  double bring_to(const TileId& tile, DeviceId device);
  /// Brings home what is still away of matrices that return, and says what the plan leaves behind.
  void finish();

 private:
  /// Of two tiles of one row or column.
  static int tiles_between(const TileId& a, const TileId& b) {
    return std::abs(a.row - b.row) + std::abs(a.col - b.col);
  }
  struct Keys {
    int first = kNoKey;  ///< of the matrix's first tile; kNoKey: no op reads it
    int cols = 0;
    bool tracked = false;  ///< its versions matter to readers
  };
  struct Held {
    int slot = -1;
    double arrival_s = -1;
  };
  /// A tile that ops write, in a program that also reads what it writes.
  struct Changing {
    TaskId writer = kNoTask;  ///< at home
    std::vector<TaskId> readers;
    int producer = -1;    ///< the worker that has the newest version, where home does not
    bool is_home = true;  ///< the newest version is at home, or on its way
    double home_s = 0;    ///< when it is at home
    /// The targets that were computed from the version at home. Where they replace each other's
    /// inputs, they come home one after another, the nearest last, and that one is enough.
    std::vector<TileId> users;
    TileId nearest_user = kNoTile;
  };
  /// A position at which a tile is used: one worker's, where groups are computed in turn and the
  /// tile goes to later users at once; else any worker's, which may get it from one that kept it.
  struct Use {
    int worker;
    std::int64_t at;
    friend auto operator<=>(const Use&, const Use&) = default;
  };
  static constexpr std::int64_t kNoUse = std::numeric_limits<std::int64_t>::max();
  /// A slot that is asked for. The tile `pinned` must not leave for it.
  struct Wanted {
    Pool pool;
    std::int64_t bytes;
    int pinned;
  };

  void number_tiles();
  void adopt(const Residency& before);
  void note_residency();
  void require_memory() const;
  void note_presence();
  void note_uses();
  const Keys& keys_of(const TileId& tile) const {
    return keys_[static_cast<std::size_t>(tile.matrix)];
  }
  Changing* changing(const TileId& tile) {
    return keys_of(tile).tracked ? &changing_[static_cast<std::size_t>(key_of(tile))] : nullptr;
  }
  const Changing* changing(const TileId& tile) const {
    return keys_of(tile).tracked ? &changing_[static_cast<std::size_t>(key_of(tile))] : nullptr;
  }
  bool stays(const TileId& tile) const { return program_.matrix_of(tile).stays; }
  /// Workers, and the other devices that have tiles as the plan begins.
  int holders() const { return static_cast<int>(devices_.size()); }
  Changing* at_home(const Where& where, const TileId& tile);
  bool lies_in_place(int key, int worker) const;
  std::int64_t position_of(const Step& step) const;
  void release(int key, int worker);
  void release_unused();
  Pool input_pool(int key, int worker) const;
  Where place_of(DeviceId source, int key) const;
  int user_of(int worker) const { return layout_->call().reads_target ? worker : 0; }
  Use use_now(int worker) const;
  std::span<const Holder> holders_of(int key);
  bool reads_alike(int worker, int other, const FactorUse& use) const;
  void find_users(int key, int worker, const FactorUse& use);
  void find_keepers(int key, int worker, int pinned, const FactorUse& use);
  bool multiplies(int worker, int line) const;
  Where passed_place(const TileId& tile, const LinkClock::Hop& hop);
  bool may_take(int key, int worker, int pinned);
  int take_input(int key, int worker, int pinned);
  int take_beside_inputs(int worker, Pool pool, std::int64_t bytes, const char* what);
  int take_slot(int worker, const Wanted& wanted, int content, std::int64_t soonest);
  int furthest(int worker, const Wanted& wanted, std::int64_t& next_use);
  std::int64_t use_of_slot(int slot, int worker);
  bool serves(int slot, int worker, const Wanted& wanted) const;
  bool may_leave(int slot, int worker, Pool wanted) const;
  bool is_copy(int slot, int worker) const;
  [[noreturn]] void refuse(int worker, const char* what) const;
  std::int64_t bytes_found(DeviceId device) const;
  std::int64_t next_use(int key, int worker);
  bool is_used_again(int key, int worker);
  TaskId emit_leg(Sent what, const TileId& tile, const Leg& leg, const Where& from, const Where& to,
                  int chunks, TaskId upstream);
  TaskId emit_hop(Sent what, const TileId& tile, LinkId link, const Where& from, const Where& to,
                  int chunks, TaskId upstream);
  QueueId queue_of(Sent what, LinkId link) const;
  bool is_changed(const TileId& tile) const;
  Held& held(int key, int worker) {
    return held_[static_cast<std::size_t>(worker) * tiles_.size() + static_cast<std::size_t>(key)];
  }
  const Held& held(int key, int worker) const {
    return held_[static_cast<std::size_t>(worker) * tiles_.size() + static_cast<std::size_t>(key)];
  }
  SlotStore& store(DeviceId d) { return stores_[static_cast<std::size_t>(d)]; }

  Plan& plan_;
  const TileProgram& program_;
  const Machine& machine_;
  const Tuning& tuning_;
  const CallLayout* layout_ = nullptr;
  int call_ = 0;            ///< of the layout
  const bool is_composed_;  ///< of several calls, or with tiles that stay or are found on devices
  const LaterCalls later_;
  bool keeps_results_ = false;
  TaskList& tasks_;
  const SentQueues sent_queues_;
  Router router_;
  std::vector<SlotStore> stores_;   ///< per device
  std::vector<TaskId> last_input_;  ///< per device: the last copy from the host
  std::vector<int> found_slots_;    ///< per device: the first slots have what the plan finds
  bool copies_left_ = false;        ///< some copy of an input has made room for another tile
  std::vector<Keys> keys_;          ///< per matrix
  std::vector<TileId> tiles_;       ///< per key
  std::vector<Cargo> cargos_;
  std::vector<DeviceId> devices_;                             ///< of workers and other holders
  std::vector<Held> held_;                                    ///< [holder][key]
  std::vector<char> away_;                                    ///< per key; empty: none
  std::map<std::tuple<int, TileId, Form>, int> prepared_;     ///< slots, by worker
  std::vector<Step> positions_;                               ///< per worker
  std::vector<std::vector<char>> row_present_, col_present_;  ///< [group][grid row or column]
  std::vector<Changing> changing_;      ///< per key; empty where nothing is both read and written
  std::vector<std::vector<Use>> uses_;  ///< per key, sorted; found when first needed
  std::vector<Holder> holders_;
  std::vector<int> users_;  ///< workers that a chain goes to, the asking one first
  std::vector<DeviceId> user_devices_;
  /// Workers that keep the tile of the current chain if it passes through them.
  struct Keeper {
    DeviceId device;
    int worker;
  };
  std::vector<Keeper> keepers_;
  int keepers_pin_ = kNoKey;
  std::vector<TaskId> after_;
};

}  // namespace fleet
