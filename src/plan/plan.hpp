// SPDX-License-Identifier: BSD-3-Clause
// plan.hpp: the static schedule. A value: comparable, printable, replayable. It knows tiles and
// queues; it does not know pointers, scalars or clocks.
#pragma once
#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "machine/machine.hpp"
#include "plan/tuning.hpp"
#include "problem/problem.hpp"

namespace fleet {

/// Tile (row, col) of a stored operand, in the coordinates of the stored matrix. Item b of a batch
/// has rows b*tile_rows(operand) and up, where tile_rows is the number of tile rows of one item.
struct TileId {
  int operand = 0;
  int row = 0;
  int col = 0;
  friend auto operator<=>(const TileId&, const TileId&) = default;
};

/// Which elements of a square tile count. Of a triangle the others are neither read nor written.
enum class Fill : std::uint8_t { full, lower, upper };

/// One side of a tile product: a stored tile, and how it is read.
struct Factor {
  TileId tile;
  Op op = Op::none;
  friend bool operator==(const Factor&, const Factor&) = default;
};

/// Where a tile lies: a staging slot of a device, or in place (the operand's own storage).
struct Where {
  DeviceId device = kHost;
  int slot = -1;
  bool in_place() const { return slot < 0; }
  friend auto operator<=>(const Where&, const Where&) = default;
};

/// A piece of a device's arena. Slots never overlap.
struct Slot {
  std::int64_t offset_bytes = 0;
  std::int64_t bytes = 0;
  friend bool operator==(const Slot&, const Slot&) = default;
};

using TaskId = std::int32_t;
using QueueId = std::int32_t;
inline constexpr TaskId kNoTask = -1;

enum class TaskKind : std::uint8_t { fetch, compute, writeback };

enum class Kernel : std::uint8_t {
  multiply,  ///< to = alpha*op(inputs[0])*op(inputs[1]) + (by beta)*to
  add,       ///< to += beta * inputs[0]; inputs[0] is the caller's C, `to` the accumulator; or, see
             ///< adds_sums, to += inputs[0], the sum over the part of k that begins at k_index
  scale,     ///< to = beta * to; zero when beta == 0, whatever was there
  solve,     ///< to = op(inputs[0])^-1 * (by beta)*to, or from the right; inputs[0] is a triangle
};

/// What a multiply does with the old contents of its target.
enum class Accumulate : std::uint8_t {
  overwrite,  ///< not read at all, so it may be uninitialised
  beta,       ///< times the caller's beta: the first product of a tile that holds the caller's C
  sum,        ///< times one: any later product
};

/// One action of one queue. Queues are first in, first out, in the order of the vector; across
/// queues only `after` and `upstream` order tasks.
///
/// A fetch or writeback moves `tile` one hop, `from` -> `to`, over `link`. With chunks > 1 it is
/// moved in that many pieces of consecutive columns; `upstream` is then the hop that fills `from`,
/// and piece c waits for piece c of the upstream hop only (both have the same number of chunks).
/// A compute runs `kernel` on `device()`; `tile` is the output tile, `to` where it is accumulated.
struct Task {
  TaskKind kind = TaskKind::compute;
  Kernel kernel = Kernel::multiply;
  Accumulate accumulate = Accumulate::sum;
  std::uint8_t chunks = 1;
  QueueId queue = 0;
  LinkId link = -1;           ///< copies only
  TaskId upstream = kNoTask;  ///< copies only
  TileId tile;
  Where from;  ///< copies only
  Where to;
  std::array<TileId, 2> input_tiles{};  ///< computes only: factors (multiply, solve), C (add)
  std::array<Op, 2> ops{};              ///< multiply: how the factors are read
  std::array<Where, 2> inputs{};
  std::int32_t k_index = 0;      ///< multiply, solve: which of the steps this is
  std::int32_t after_begin = 0;  ///< into Plan::after_pool
  std::int32_t after_count = 0;
  DeviceId device() const { return to.device; }
  friend bool operator==(const Task&, const Task&) = default;
};

/// What runs a queue's tasks, for the backends and for the names in a timeline.
struct Queue {
  enum class Kind : std::uint8_t { link, lane, device };  ///< device: overlap off, everything of it
  Kind kind = Kind::lane;
  DeviceId device = kHost;  ///< lane, device: where it computes; link: the target of the copies
  DeviceId source = kHost;  ///< link only
  int lane = 0;             ///< lane only
  friend bool operator==(const Queue&, const Queue&) = default;
};

/// Where the tiles of one dimension begin: 0 = cuts[0] < cuts[1] < ... < cuts[count] = size.
/// An empty dimension has the single cut 0 and no tiles.
using Cuts = std::vector<std::int64_t>;
inline int tile_count(const Cuts& cuts) { return static_cast<int>(cuts.size()) - 1; }

/// Where A is triangular: of `tiles` tiles along its side, which comes so many-th. What trsm solves
/// for needs those before it; what trmm replaces is needed by those before it, so that at any time
/// what is not computed yet can be: from what is still as it was. Its own inverse.
int rank(const Problem& problem, int tiles, int tile);

/// The schedule. Invariant: `after` and `upstream` name earlier tasks only, so the vector order is
/// a legal order and cycles cannot exist.
struct Plan {
  Problem problem;
  Tuning tuning;
  Cuts m_cuts, n_cuts, k_cuts;
  std::vector<Queue> queues;
  std::vector<std::vector<Slot>> slots;   ///< per device
  std::vector<std::int64_t> arena_bytes;  ///< per device: what its slots need in all
  std::vector<Task> tasks;
  std::vector<TaskId> after_pool;
  double planned_s = 0;  ///< the makespan by the planner's own clock: a rough prediction

  std::span<const TaskId> after(const Task& task) const {
    return {after_pool.data() + task.after_begin, static_cast<std::size_t>(task.after_count)};
  }
  const Cuts& row_cuts(int operand) const;  ///< of the stored matrix
  const Cuts& col_cuts(int operand) const;
  /// Tile products that make up one tile of C: one for each tile of k, two where a routine adds the
  /// same with A and B exchanged. Where A is triangular, tile products that are zero are left out,
  /// and the steps are counted in the order of dependence (`rank`).
  int steps() const { return tile_count(k_cuts) * (problem.traits().twice ? 2 : 1); }
  int k_tile(int step) const;
  /// Is the tile computed? Of symmetric results one triangle is.
  bool has_tile(int row, int col) const {
    if (!problem.traits().triangle) return true;
    return problem.uplo == Uplo::lower ? row >= col : row <= col;
  }
  int rank(int tile) const { return fleet::rank(problem, tile_count(k_cuts), tile); }
  int rank_of(int row, int col) const { return rank(problem.side == Side::left ? row : col); }
  /// The steps that a tile of C takes. Where A is triangular, the one at the diagonal is trsm's
  /// last, which solves, and trmm's first.
  int first_step(int row, int col) const;
  int last_step(int row, int col) const;
  bool is_diagonal(int row, int col, int step) const {
    return problem.traits().triangular && rank_of(row, col) == step;
  }
  /// The tile along the rows of C, and the one along its columns, of a step. `row` counts over all
  /// items of a batch.
  Factor row_factor(int row, int step) const;
  Factor col_factor(int item, int step, int col) const;
  /// Tiles on the diagonal of what is symmetric, stored or computed, are triangles.
  Fill fill_of(const TileId& tile) const;
  int tile_rows(int operand) const { return tile_count(row_cuts(operand)); }  ///< of one item
  std::int64_t rows_of(const TileId& tile) const;  ///< shape of a stored tile, in elements
  std::int64_t cols_of(const TileId& tile) const;
  std::int64_t bytes_of(const TileId& tile) const;  ///< dense: rows * cols * element
  double share_of(
      const TileId& tile) const;  ///< of its elements that count: a triangle's are fewer
  /// Of the multiply-adds of a whole tile product, what a step does where triangles are left out.
  double work_of(const TileId& tile, int step) const;
  std::int64_t moved_bytes_of(const TileId& tile) const;  ///< by a copy: of what counts
  /// What a copy of the tile moves. Columns that a tile has whole are taken to follow each other
  /// at home: leading dimensions are the call's, not the plan's.
  Cargo cargo_of(const TileId& tile) const;
  friend bool operator==(const Plan&, const Plan&) = default;
};

/// Is the task an `add` of two sums over parts of k? So it is with vectors.
bool adds_sums(const Plan& plan, const Task& task);

/// Schedules `problem` on `machine` as `tuning` says (paper 1, Algorithm 1). Pure: the same inputs
/// give the same plan on every machine; no clock, no device, no randomness.
///
/// Throws Error(no_memory) when the caps cannot hold the working set of one tile product (or, with
/// the rule `outofcore` off, of the whole problem), Error(unreachable) when a worker cannot be
/// reached from an operand's home.
Plan make_plan(const Problem& problem, const Machine& machine, const Tuning& tuning);

/// Proves the plan right in every legal order: each read sees the right version of its tile, any
/// two conflicting accesses are ordered by queues, `after` and `upstream`, each slot is inside its
/// arena, and at the end every tile of C is complete and at home. Returns a sentence naming the
/// first violated invariant, or an empty string.
std::string check(const Plan& plan);

/// Bytes that each link of the machine carries under this plan, per hop (index LinkId).
std::vector<std::int64_t> bytes_by_link(const Plan& plan, std::size_t links);

/// {"host->0": n, "0->1": n, ...} as in INTERFACE: the JSON name of a link.
std::string link_name(const Machine& machine, LinkId link);

}  // namespace fleet
