// SPDX-License-Identifier: BSD-3-Clause
// plan.hpp: the static schedule of a tile program. A value: comparable, printable, replayable. It
// knows tiles and queues; it does not know routines, pointers, scalars or clocks.
#pragma once
#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "machine/machine.hpp"
#include "plan/residency.hpp"
#include "program/decompose.hpp"
#include "program/expand.hpp"
#include "program/tile_program.hpp"
#include "program/tuning.hpp"

namespace fleet {

/// Where a tile lies, in some form: a staging slot of a device, or in place (the operand's own
/// storage).
struct Where {
  DeviceId device = kHost;
  int slot = -1;
  bool in_place() const { return slot < 0; }
  friend auto operator<=>(const Where&, const Where&) = default;
};

/// A piece of a device's arena. Slots never overlap. One that outlives the plan is not in the
/// arena: a run binds its address.
struct Slot {
  static constexpr std::int64_t kOutside = -1;
  std::int64_t offset_bytes = 0;
  std::int64_t bytes = 0;
  bool outlives_plan() const { return offset_bytes == kOutside; }
  friend bool operator==(const Slot&, const Slot&) = default;
};

using TaskId = std::int32_t;
using QueueId = std::int32_t;
inline constexpr TaskId kNoTask = -1;

enum class TaskKind : std::uint8_t { fetch, compute, writeback };

/// One action of one queue. Queues are first in, first out, in the order of the vector; across
/// queues only `after` and `upstream` order tasks.
///
/// A fetch or writeback moves `tile` one hop, `from` -> `to`, over `link`. With chunks > 1 it is
/// moved in that many pieces of consecutive columns; `upstream` is then the hop that fills `from`,
/// and piece c waits for piece c of the upstream hop only (both have the same number of chunks).
///
/// A compute runs `kernel` on `device()`. `tile` is the output tile, `to` where it is accumulated.
/// Most are an op of the program, whose inputs lie at `inputs`. The planner adds
///   prepare  tile `tile`, stored at inputs[0], in the form `form` into the slot `to`, where the
///            ops on the device that ask for the form then have that input
///   add      the caller's tile at inputs[0] to sums without it, by the beta of `op`, the chain's
///            first (Accumulate::beta); or to += the sums of the chain's ops from `op` on, which
///            another worker has made (Accumulate::sum)
struct Task {
  TaskKind kind = TaskKind::compute;
  Kernel kernel = Kernel::multiply;
  Accumulate accumulate = Accumulate::sum;
  std::uint8_t chunks = 1;
  Form form = Form::stored;  ///< in which the tile is at `to`
  QueueId queue = 0;
  LinkId link = -1;           ///< copies only
  TaskId upstream = kNoTask;  ///< copies only
  TileId tile;
  Where from;                     ///< copies only
  Where to;                       ///< where the tile is after the task
  std::array<Where, 2> inputs{};  ///< computes only: where the inputs of the op are
  OpId op = kNoOp;                ///< computes only
  std::int32_t after_begin = 0;   ///< into Plan::after_pool
  std::int32_t after_count = 0;
  DeviceId device() const { return to.device; }
  friend bool operator==(const Task&, const Task&) = default;
};

/// What goes through a queue of a link whose source sends (Queue::in_turn).
enum class Sent : std::uint8_t {
  /// Tiles that are at home there as the plan begins; where all data lie on one device, whatever
  /// others need for products.
  inputs,
  passed,   ///< what may have to be waited for: copies and sums in slots, results at home again
  results,  ///< what goes home
};

/// The unit that runs a queue's tasks, for the backends and for the names in a timeline.
struct Queue {
  enum class Kind : std::uint8_t { link, lane, device };  ///< device: overlap off, everything of it
  Kind kind = Kind::lane;
  DeviceId device = kHost;  ///< lane, device: where it computes; link: the target of the copies
  DeviceId source = kHost;  ///< link only
  int lane = 0;             ///< lane only
  bool is_ahead = false;    ///< lane only: its kernels go before those of other lanes
  /// Link only, between devices: the source sends what the target would fetch otherwise, in
  /// simulations and on backends that can. Inputs go in turn: in the order of the plan, with those
  /// of the source's other such queues (senders()).
  bool in_turn = false;
  Sent sent = Sent::inputs;  ///< in_turn only
  friend bool operator==(const Queue&, const Queue&) = default;
};

/// A tile in a slot that outlives the plan.
struct Resident {
  TileId tile;
  Where where;
  friend auto operator<=>(const Resident&, const Resident&) = default;
};

/// The schedule. Invariant: `after` and `upstream` name earlier tasks only, so the vector order is
/// a legal order and cycles cannot exist.
struct Plan {
  std::shared_ptr<const TileProgram> program = no_program();
  Tuning tuning;
  std::vector<Queue> queues;
  std::vector<std::vector<Slot>> slots;   ///< per device
  std::vector<std::int64_t> arena_bytes;  ///< per device: what its slots need in all
  std::vector<Task> tasks;
  std::vector<TaskId> after_pool;
  std::vector<Resident> found;  ///< sorted; as the plan begins they are as they are now
  std::vector<Resident> kept;   ///< sorted; the same of its end
  /// Sorted; the homes of these tiles have an older version as the plan begins, and at its end.
  std::vector<TileId> away_before, away_after;
  double planned_s = 0;  ///< the makespan by the planner's own clock: a rough prediction

  std::span<const TaskId> after(const Task& task) const {
    return {after_pool.data() + task.after_begin, static_cast<std::size_t>(task.after_count)};
  }
  const Slot& slot(const Where& where) const {
    return slots.at(static_cast<std::size_t>(where.device))
        .at(static_cast<std::size_t>(where.slot));
  }
  /// The problem of a plan of a single call.
  const Problem& problem() const { return program->calls.front().problem; }
  const CallCuts& cuts() const { return program->calls.front().cuts; }
  friend bool operator==(const Plan& a, const Plan& b);

 private:
  static std::shared_ptr<const TileProgram> no_program();
};

/// Do devices send in turn what others need for products?
inline bool sends_in_turn(const Plan& plan) {
  return std::ranges::any_of(plan.queues, &Queue::in_turn);
}

/// By queue, the device that sends its copies in turn with those of other such queues, or -1: those
/// of a queue of inputs that goes in turn and has a fetch. Results go by themselves, so that what
/// others need does not wait for these, and so does what is passed on, which may not be there yet.
std::vector<DeviceId> senders(const Plan& plan);

/// Is an input of an op read where it lies? A form that the device does not prepare is in no slot.
inline bool is_read(const Factor& input, const Where& where) {
  return input.is_stored_tile() || (input.tile.exists() && !where.in_place());
}

/// Does the task add two sums over some ops of a tile?
inline bool adds_sums(const Task& task) {
  return task.kernel == Kernel::add && task.accumulate == Accumulate::sum;
}

/// Schedules a program whose calls are dealt as `deals` says, one for each, on `machine` (paper 1,
/// Algorithm 1). Pure: the same inputs give the same plan on every machine; no clock, no device, no
/// randomness. All deals are of tuning.grid. `before`: where tiles are as it begins.
///
/// Throws Error(no_memory) when the caps cannot hold the working set of one tile product (or, with
/// the rule `outofcore` off, of the whole program; or, where tiles stay, all that are nowhere else
/// beside it),
/// Error(unreachable) when a worker cannot be reached from a matrix's home.
Plan schedule(std::shared_ptr<const TileProgram> program, std::span<const Dealing> deals,
              const Machine& machine, const Tuning& tuning, const Residency& before = {});

/// Brings tiles home that are away: all of `tiles`, each once. The copies on devices stay.
/// `matrices`: a program without calls. Throws as schedule does.
Plan plan_return(std::shared_ptr<const TileProgram> matrices, const Residency& before,
                 std::span<const TileId> tiles, const Machine& machine,
                 std::span<const std::int64_t> memory_cap);

/// Brings copies of tiles to devices, where they stay: those of `wanted` that are neither
/// there nor at home there.
/// `matrices`: a program without calls, whose matrices stay. Throws as schedule does.
Plan plan_spread(std::shared_ptr<const TileProgram> matrices, const Residency& before,
                 std::span<const Residency::Copy> wanted, const Machine& machine,
                 std::span<const std::int64_t> memory_cap);

/// Tiles of matrices that are distributed, each on the device that it belongs to and nowhere else.
Residency at_owners(const TileProgram& program);

/// The residency that a plan leaves behind.
Residency residency_after(const Plan& plan);

/// Decomposes, expands and schedules one call. Throws as schedule does, and Error(bad_argument) for
/// a tuning that the machine or the problem does not allow.
Plan make_plan(const Problem& problem, const Machine& machine, const Tuning& tuning);

/// make_plan, with the programs of the same problem that are known already.
Plan make_plan(const Problem& problem, const Machine& machine, const Tuning& tuning,
               Expansions& expansions);

/// Proves the plan right in every legal order: the result is as if the ops of the program ran one
/// after another. Each op reads the versions of its tiles that it would have read then, any two
/// conflicting accesses are ordered by queues, `after` and `upstream`, each slot is inside its
/// arena, and at the end every tile that the program writes is complete: at home, or in a slot that
/// outlives the plan where its matrix need not return. Nothing at home is overwritten while a
/// result that was computed from it and returns is not yet at home, so that after a fault the rest
/// can be computed from what is there. Returns a sentence naming the first violated invariant, or
/// an empty string.
std::string check(const Plan& plan);

/// The part of the multiply-adds that the CPU computes beside the devices: R in paper 3.
double cpu_share(const Plan& plan);

/// Bytes that each link of the machine carries under this plan, per hop (index LinkId).
std::vector<std::int64_t> bytes_by_link(const Plan& plan, std::size_t links);

/// {"host->0": n, "0->1": n, ...} as in INTERFACE: the JSON name of a link.
std::string link_name(const Machine& machine, LinkId link);

}  // namespace fleet
