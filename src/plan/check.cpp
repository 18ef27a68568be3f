// SPDX-License-Identifier: BSD-3-Clause
// check.cpp: the proof that a plan is right in every legal order. It shares no code with the
// planner, so that one's mistake is not the other's.
#include <map>

#include "plan/plan.hpp"

namespace fleet {
namespace {

// What a place holds. A tile of A or B is always whole; a tile of C is the caller's (k_done == 0,
// with_c false) or the sum over the first k_done steps, with the caller's C in it or not.
struct Content {
  TileId tile{-1, 0, 0};
  int k_done = 0;
  bool with_c = false;
  int k_first = 0;  ///< with vectors: a sum over a part of k, from this step on
  friend bool operator==(const Content&, const Content&) = default;
};

// A place: a slot of a device, or an operand's own tile wherever that is at home.
struct Place {
  DeviceId device = -1;
  int slot = -1;
  TileId tile{-1, 0, 0};
  friend auto operator<=>(const Place&, const Place&) = default;
};

Place place_of(const Where& where, const TileId& tile) {
  return where.in_place() ? Place{-1, -1, tile} : Place{where.device, where.slot, {-1, 0, 0}};
}

struct State {
  Content content;
  TaskId writer = kNoTask;
  std::vector<TaskId> readers;
};

class Checker {
 public:
  explicit Checker(const Plan& plan) : plan_(plan) {}

  std::string run() {
    if (std::string fault = check_slots(); !fault.empty()) return fault;
    started_after_.assign(plan_.tasks.size(), {});
    position_.assign(plan_.tasks.size(), 0);
    last_in_queue_.assign(plan_.queues.size(), kNoTask);
    for (TaskId t = 0; t < static_cast<TaskId>(plan_.tasks.size()); ++t) {
      if (std::string fault = order(t); !fault.empty()) return name(t) + " " + fault;
      if (std::string fault = replay(t); !fault.empty()) return name(t) + " " + fault;
    }
    return check_end();
  }

 private:
  using Clock = std::vector<std::int32_t>;  ///< per queue: how many of its tasks are done

  const Task& task(TaskId t) const { return plan_.tasks[static_cast<std::size_t>(t)]; }
  static std::string name(TaskId t) { return "task " + std::to_string(t); }

  static void join(Clock& into, const Clock& other) {
    for (std::size_t q = 0; q < into.size(); ++q) into[q] = std::max(into[q], other[q]);
  }

  std::string check_slots() const {
    for (std::size_t d = 0; d < plan_.slots.size(); ++d) {
      std::int64_t end = 0;
      for (const Slot& slot : plan_.slots[d]) {
        if (slot.offset_bytes < end || slot.bytes < 0) return "slots overlap";
        end = slot.offset_bytes + slot.bytes;
      }
      if (end > plan_.arena_bytes[d]) return "a slot lies outside its arena";
    }
    return {};
  }

  // What is surely done when t starts, and when t is done (kept in clocks_).
  std::string order(TaskId t) {
    const Task& now = task(t);
    if (now.queue < 0 || now.queue >= static_cast<QueueId>(plan_.queues.size()))
      return "is in no queue";
    Clock start(plan_.queues.size(), 0);
    TaskId& previous = last_in_queue_[static_cast<std::size_t>(now.queue)];
    if (previous != kNoTask) join(start, done_[static_cast<std::size_t>(previous)]);
    for (TaskId earlier : plan_.after(now)) {
      if (earlier < 0 || earlier >= t) return "waits for a later task";
      join(start, done_[static_cast<std::size_t>(earlier)]);
    }
    Clock done = start;
    if (now.upstream != kNoTask) {
      if (now.upstream < 0 || now.upstream >= t) return "has a later task upstream";
      if (task(now.upstream).chunks != now.chunks) return "has other chunks than its upstream";
      // Its first chunk is behind the upstream's first, so behind all that the upstream waited for.
      join(start, started_after_[static_cast<std::size_t>(now.upstream)]);
      join(done, done_[static_cast<std::size_t>(now.upstream)]);
      join(done, start);
    }
    const std::size_t queue = static_cast<std::size_t>(now.queue);
    const std::int32_t position =
        previous == kNoTask ? 1 : position_[static_cast<std::size_t>(previous)] + 1;
    position_[static_cast<std::size_t>(t)] = position;
    done[queue] = position;
    started_after_[static_cast<std::size_t>(t)] = std::move(start);
    done_.push_back(std::move(done));
    previous = t;
    return {};
  }

  bool before(TaskId earlier, TaskId t) const {
    const Task& e = task(earlier);
    return started_after_[static_cast<std::size_t>(t)][static_cast<std::size_t>(e.queue)] >=
           position_[static_cast<std::size_t>(earlier)];
  }

  State& state(const Where& where, const TileId& tile) {
    const auto [it, fresh] = states_.try_emplace(place_of(where, tile));
    if (fresh && where.in_place()) it->second.content = {tile, 0, false};
    return it->second;
  }

  // A read by t of `tile`; `expected` is what must be there.
  std::string read(TaskId t, const Where& where, const Content& expected) {
    State& s = state(where, expected.tile);
    if (s.content.tile != expected.tile) return "reads a place that holds something else";
    if (!(s.content == expected)) return "reads another version of its tile";
    if (s.writer != kNoTask && s.writer != task(t).upstream && !before(s.writer, t))
      return "may read before task " + std::to_string(s.writer) + " has written";
    s.readers.push_back(t);
    return {};
  }

  std::string write(TaskId t, const Where& where, const Content& content) {
    State& s = state(where, content.tile);
    if (s.writer != kNoTask && s.writer != t && !before(s.writer, t))
      return "may overwrite before task " + std::to_string(s.writer) + " has written";
    for (TaskId reader : s.readers)
      if (reader != t && !before(reader, t))
        return "may overwrite what task " + std::to_string(reader) + " still reads";
    s = {content, t, {}};
    return where.in_place() ? check_former(t, content.tile) : "";
  }

  // What trmm replaces at home is needed until those before it are complete there: should a device
  // fail, they are computed from it.
  std::string check_former(TaskId t, const TileId& tile) {
    const Problem& p = plan_.problem;
    if (tile.operand != kC || p.routine != Routine::trmm || p.k == 0 || turn(tile) == 0) return {};
    TileId former = tile;
    (p.side == Side::left ? former.row : former.col) = in_turn(turn(tile) - 1);
    const State& s = state({p.operands[kC].home, -1}, former);
    return s.content == complete(former) && before(s.writer, t)
               ? ""
               : "replaces what may be needed once more";
  }

  std::string fits(const Where& where, const TileId& tile) const {
    const DeviceId home = plan_.problem.operands[static_cast<std::size_t>(tile.operand)].home;
    if (where.in_place())
      return where.device == home || (on_host(where.device) && on_host(home))
                 ? ""
                 : "uses a tile in place where it is not at home";
    const auto& slots = plan_.slots[static_cast<std::size_t>(where.device)];
    if (where.slot >= static_cast<int>(slots.size())) return "uses a slot that does not exist";
    if (slots[static_cast<std::size_t>(where.slot)].bytes < plan_.bytes_of(tile))
      return "uses a slot that is too small";
    return {};
  }

  std::string replay(TaskId t) {
    const Task& now = task(t);
    if (std::string fault = fits(now.to, now.tile); !fault.empty()) return fault;
    if (now.kind != TaskKind::compute) return replay_copy(t);
    switch (now.kernel) {
      case Kernel::multiply:
        return replay_multiply(t);
      case Kernel::add:
        return replay_add(t);
      case Kernel::scale:
        return replay_scale(t);
      case Kernel::solve:
        return replay_solve(t);
    }
    return "has no kernel";
  }

  std::string replay_copy(TaskId t) {
    const Task& now = task(t);
    if (std::string fault = fits(now.from, now.tile); !fault.empty()) return fault;
    if (now.from == now.to) return "copies a place onto itself";
    const Content moved = state(now.from, now.tile).content;
    if (moved.tile != now.tile) return "copies a place that holds something else";
    if (std::string fault = read(t, now.from, moved); !fault.empty()) return fault;
    return write(t, now.to, moved);
  }

  bool updates() const { return plan_.problem.operands[kC].access == Access::update; }

  std::string replay_multiply(TaskId t) {
    const Task& now = task(t);
    const int item = now.tile.row / std::max(1, tile_count(plan_.m_cuts));
    if (std::string fault = check_inputs(now, item); !fault.empty()) return fault;
    for (const std::size_t x : {0, 1}) {
      const TileId& tile = now.input_tiles[x];
      const bool solved = tile.operand == kC && plan_.problem.routine == Routine::trsm;
      const Content whole = solved ? complete(tile) : Content{tile, 0, false};
      if (std::string fault = read(t, now.inputs[x], whole); !fault.empty()) return fault;
    }
    const bool replaces = plan_.problem.routine == Routine::trmm;
    Content next{now.tile, now.k_index + 1, false};
    if (now.accumulate == Accumulate::overwrite) {
      if (now.k_index != (replaces ? turn(now.tile) : 0) && !plan_.problem.traits().vectors)
        return "overwrites a sum";
      next.k_first = plan_.problem.traits().vectors ? now.k_index : 0;
      next.with_c = replaces || (!updates() && next.k_first == 0);
    } else {
      if (replaces && now.accumulate == Accumulate::beta) return "applies beta where it must not";
      const Content old = state(now.to, now.tile).content;
      const bool fresh = now.accumulate == Accumulate::beta;
      const Content expected{now.tile, now.k_index, fresh ? false : old.with_c,
                             fresh ? 0 : old.k_first};
      if (fresh && (now.k_index != 0 || !updates())) return "applies beta where it must not";
      if (!fresh && now.k_index == 0) return "adds to what beta was not applied to";
      if (std::string fault = read(t, now.to, expected); !fault.empty()) return fault;
      next.with_c = fresh ? true : old.with_c;
      next.k_first = expected.k_first;
    }
    return write(t, now.to, next);
  }

  // Tile (i, j) of what `operand` stands for after `op`, and how it has to be read.
  static Factor stored(int operand, int i, int j, Op op) {
    return op == Op::none ? Factor{{operand, i, j}, op} : Factor{{operand, j, i}, op};
  }

  // Of trmm and trsm: does tile `x` along the side of A take part of tile `l` of the other factor?
  bool looks_back() const {
    const Problem& p = plan_.problem;
    const bool lower = (p.uplo == Uplo::lower) == (p.op_a == Op::none);
    return lower == (p.side == Side::left);
  }
  bool takes(int x, int l) const { return looks_back() ? l <= x : l >= x; }
  // The l-th tile in the order in which they are solved for (trsm), or replaced (trmm): the first
  // takes part of itself only, or of all.
  int in_turn(int l) const {
    const bool ascending = looks_back() == (plan_.problem.routine == Routine::trsm);
    return ascending ? l : tile_count(plan_.k_cuts) - 1 - l;
  }
  int turn(const TileId& c) const {
    return in_turn(plan_.problem.side == Side::left ? c.row : c.col);
  }

  // The caller's tile of C when all is done.
  Content complete(const TileId& tile) const {
    const Problem& p = plan_.problem;
    int steps = tile_count(plan_.k_cuts) * (p.traits().twice ? 2 : 1);
    if (p.routine == Routine::trsm && steps > 0) steps = turn(tile) + 1;
    return {tile, steps, true};
  }

  // Of a routine but gemm: the k-th tile along row i of the left factor, and along column j of the
  // right one.
  std::string check_factors(const Task& now) const {
    const Problem& p = plan_.problem;
    const int i = now.tile.row, j = now.tile.col, k = now.k_index;
    const Op turned =
        p.type == DataType::f32 || p.type == DataType::f64 ? Op::transpose : Op::conjugate;
    const auto full = [&](int row, int col, Op mirror) {
      const bool below = row > col;
      return row == col || below == (p.uplo == Uplo::lower) ? stored(kA, row, col, Op::none)
                                                            : stored(kA, row, col, mirror);
    };
    // X along the rows times Y^T along the columns.
    const auto times_turned = [&](int x, int y, int step, Op turn) {
      if (p.op_a == Op::none)
        return std::pair(stored(x, i, step, Op::none), Factor{{y, j, step}, turn});
      return std::pair(stored(x, i, step, turn), Factor{{y, step, j}, Op::none});
    };
    std::pair<Factor, Factor> want;
    switch (p.routine) {
      case Routine::gemm:
      case Routine::gemmt:
        want = {stored(kA, i, k, p.op_a), stored(kB, k, j, p.op_b)};
        break;
      case Routine::symm:
      case Routine::hemm: {
        const Op mirror = p.routine == Routine::hemm ? Op::conjugate : Op::transpose;
        want = p.side == Side::left ? std::pair(full(i, k, mirror), stored(kB, k, j, Op::none))
                                    : std::pair(stored(kB, i, k, Op::none), full(k, j, mirror));
        break;
      }
      case Routine::syrk:
        want = times_turned(kA, kA, k, Op::transpose);
        break;
      case Routine::herk:
        want = times_turned(kA, kA, k, turned);
        break;
      case Routine::syr2k:
        want = k % 2 == 0 ? times_turned(kA, kB, k / 2, Op::transpose)
                          : times_turned(kB, kA, k / 2, Op::transpose);
        break;
      case Routine::her2k:
        want =
            k % 2 == 0 ? times_turned(kA, kB, k / 2, turned) : times_turned(kB, kA, k / 2, turned);
        break;
      case Routine::trmm:
      case Routine::trsm: {
        const int l = in_turn(k);
        const bool left = p.side == Side::left;
        if (!takes(left ? i : j, l)) return "multiplies by what is zero";
        const bool solves = now.kernel == Kernel::solve;
        if (solves != (p.routine == Routine::trsm && l == (left ? i : j)))
          return solves ? "solves by a tile off the diagonal"
                        : "multiplies by what it has to solve";
        want = left ? std::pair(stored(kA, i, l, p.op_a), Factor{{kC, l, j}, Op::none})
                    : std::pair(Factor{{kC, i, l}, Op::none}, stored(kA, l, j, p.op_a));
        break;
      }
      default:
        return "is of a routine with vectors";
    }
    if (p.traits().triangle && i != j && (i > j) != (p.uplo == Uplo::lower))
      return "computes a tile of the other triangle";
    const bool right = Factor{now.input_tiles[0], now.ops[0]} == want.first &&
                       Factor{now.input_tiles[1], now.ops[1]} == want.second;
    return right ? "" : "multiplies the wrong tiles";
  }

  // The tile of A where k meets j, and that of the vector that it is multiplied with.
  std::string check_vectors(const Task& now) const {
    const Problem& p = plan_.problem;
    const int j = now.tile.col, k = now.k_index;
    if (now.ops[0] != p.op_a) return "reads its factors wrongly";
    TileId a{kA, 0, k}, b{kB, 0, k};
    if (p.routine == Routine::gemv) a = p.op_a == Op::none ? TileId{kA, j, k} : TileId{kA, k, j};
    if (p.routine == Routine::axpy) a = b = {kA, 0, j};
    return now.input_tiles[0] == a && now.input_tiles[1] == b ? "" : "multiplies the wrong tiles";
  }

  // The input tiles are those of op(A)(i, k) and op(B)(k, j) of the same item.
  std::string check_inputs(const Task& now, int item) const {
    if (plan_.problem.traits().vectors) return check_vectors(now);
    if (plan_.problem.routine != Routine::gemm) return check_factors(now);
    if (now.ops[0] != plan_.problem.op_a || now.ops[1] != plan_.problem.op_b)
      return "reads its factors wrongly";
    const Problem& p = plan_.problem;
    const int rows = tile_count(plan_.m_cuts), steps = tile_count(plan_.k_cuts);
    const int cols = tile_count(plan_.n_cuts);
    const int i = now.tile.row % rows, j = now.tile.col, k = now.k_index;
    const int item_a = p.operands[kA].shared ? 0 : item, item_b = p.operands[kB].shared ? 0 : item;
    const TileId a =
        p.op_a == Op::none ? TileId{kA, item_a * rows + i, k} : TileId{kA, item_a * steps + k, i};
    const TileId b =
        p.op_b == Op::none ? TileId{kB, item_b * steps + k, j} : TileId{kB, item_b * cols + j, k};
    return now.input_tiles[0] == a && now.input_tiles[1] == b ? "" : "multiplies the wrong tiles";
  }

  std::string replay_solve(TaskId t) {
    const Task& now = task(t);
    if (plan_.problem.routine != Routine::trsm) return "solves nothing";
    // As a product with itself in the place of the other factor.
    Task product = now;
    const int left = plan_.problem.side == Side::left ? 0 : 1;
    product.input_tiles[static_cast<std::size_t>(left)] = now.input_tiles[0];
    product.ops[static_cast<std::size_t>(left)] = now.ops[0];
    product.input_tiles[static_cast<std::size_t>(1 - left)] = now.tile;
    product.ops[static_cast<std::size_t>(1 - left)] = Op::none;
    if (std::string fault = check_factors(product); !fault.empty()) return fault;
    if (std::string fault = read(t, now.inputs[0], {now.input_tiles[0], 0, false}); !fault.empty())
      return fault;
    const bool first = now.accumulate == Accumulate::beta;
    if (now.accumulate == Accumulate::overwrite || first != (now.k_index == 0))
      return "applies alpha where it must not, or not where it must";
    if (std::string fault = read(t, now.to, {now.tile, now.k_index, !first}); !fault.empty())
      return fault;
    return write(t, now.to, complete(now.tile));
  }

  std::string replay_add(TaskId t) {
    const Task& now = task(t);
    if (now.input_tiles[0] != now.tile) return "adds another tile";
    if (plan_.problem.traits().vectors) return replay_collect(t);
    if (std::string fault = read(t, now.inputs[0], {now.tile, 0, false}); !fault.empty())
      return fault;
    Content sum = state(now.to, now.tile).content;
    if (sum.with_c || sum.k_done == 0) return "adds the caller's C twice";
    if (std::string fault = read(t, now.to, sum); !fault.empty()) return fault;
    sum.with_c = true;
    return write(t, now.to, sum);
  }

  // The sum over the steps from k_index on, added to that over all before them.
  std::string replay_collect(TaskId t) {
    const Task& now = task(t);
    const Content part = state(now.inputs[0], now.tile).content;
    Content sum = state(now.to, now.tile).content;
    if (part.k_first != now.k_index || part.k_done <= part.k_first || part.with_c)
      return "adds what is no sum over a part of k";
    if (sum.k_done != part.k_first || sum.k_done == 0) return "adds a sum out of its turn";
    if (std::string fault = read(t, now.inputs[0], part); !fault.empty()) return fault;
    if (std::string fault = read(t, now.to, sum); !fault.empty()) return fault;
    sum.k_done = part.k_done;
    return write(t, now.to, sum);
  }

  std::string replay_scale(TaskId t) {
    const Task& now = task(t);
    if (plan_.problem.k != 0) return "scales in a product";
    if (std::string fault = read(t, now.to, {now.tile, 0, false}); !fault.empty()) return fault;
    return write(t, now.to, {now.tile, 0, true});
  }

  std::string check_end() {
    const int rows = tile_count(plan_.m_cuts) * static_cast<int>(plan_.problem.batch);
    const bool triangle = plan_.problem.traits().triangle,
               lower = plan_.problem.uplo == Uplo::lower;
    if (triangle && plan_.m_cuts != plan_.n_cuts) return "the triangle of C is not cut alike";
    const bool left = plan_.problem.side == Side::left;
    if (plan_.problem.traits().has_side() && plan_.problem.k > 0 &&
        plan_.k_cuts != (left ? plan_.m_cuts : plan_.n_cuts))
      return "A is not cut alike";
    for (int row = 0; row < rows; ++row)
      for (int col = 0; col < tile_count(plan_.n_cuts); ++col) {
        if (triangle && row != col && (row > col) != lower) continue;
        const TileId tile{kC, row, col};
        const Where home{plan_.problem.operands[kC].home, -1};
        if (!(state(home, tile).content == complete(tile)))
          return "tile (" + std::to_string(row) + ", " + std::to_string(col) +
                 ") of C is not complete at home";
      }
    return {};
  }

  const Plan& plan_;
  std::vector<Clock> started_after_, done_;
  std::vector<std::int32_t> position_;  ///< in its queue, from 1
  std::vector<TaskId> last_in_queue_;
  std::map<Place, State> states_;
};

}  // namespace

std::string check(const Plan& plan) { return Checker(plan).run(); }

}  // namespace fleet
