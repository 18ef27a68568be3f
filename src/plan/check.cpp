// SPDX-License-Identifier: BSD-3-Clause
// check.cpp: the proof that a plan is right in every legal order. It shares no code with the
// planner, so that one's mistake is not the other's; it reads what a program means from its ops.
#include <algorithm>
#include <optional>

#include "base/sizes.hpp"
#include "plan/happens_before.hpp"
#include "plan/plan.hpp"

namespace fleet {
namespace {

// The contents of a place: the result of the ops [first, last) that write it, numbered in the
// order of the program, with the contents that it had before them or without (`with_old`). The
// caller's tile is {0, 0, with_old}; a tile that is complete so far is {0, n, with_old}.
struct Content {
  TileId tile = kNoTile;
  int first = 0;
  int last = 0;
  bool with_old = true;
  Form form = Form::stored;
  friend bool operator==(const Content&, const Content&) = default;
};

/// Instead of a number of ops: an older version than the program begins with.
constexpr int kOld = -1;

struct State {
  Content content;
  TaskId writer = kNoTask;
  std::vector<TaskId> readers;
};

/// The program as a sequence of versions: which ones each op reads and makes.
class Versions {
 public:
  struct Op {
    int target = 0;      ///< how often its target was written before it
    int inputs[2] = {};  ///< the same of its inputs
    int chain = 0;
    bool ignores_old = false;  ///< the first op of a chain that overwrites
  };

  explicit Versions(const TileProgram& program) : program_(program), ops_(program.ops.size()) {
    int tiles = 0;
    for (const Matrix& matrix : program.matrices) {
      bases_.push_back(tiles);
      tiles += matrix.tile_rows() * matrix.items * matrix.tile_cols();
    }
    writes_.assign(index(tiles), 0);
    for (int c = 0; c < std::ssize(program.chains); ++c) {
      const OpChain& chain = program.chains[index(c)];
      for (OpId id = chain.first; id < chain.first + chain.ops; ++id) {
        Op& op = ops_[index(id)];
        op.chain = c;
        for (const std::size_t x : {0, 1})
          if (const TileId& tile = program.op(id).inputs[x].tile; tile.exists())
            op.inputs[x] = writes_[place(tile)];
        op.ignores_old = program.op(id).accumulate == Accumulate::overwrite;
        op.target = writes_[place(chain.target)]++;
      }
    }
  }

  std::size_t place(const TileId& tile) const {
    const Matrix& matrix = program_.matrix_of(tile);
    return index(bases_[index(tile.matrix)] + tile.row * matrix.tile_cols() + tile.col);
  }
  std::size_t places() const { return writes_.size(); }
  /// How often the program writes a tile.
  int last(const TileId& tile) const { return writes_[place(tile)]; }
  const Op& of(OpId id) const { return ops_[index(id)]; }

 private:
  const TileProgram& program_;
  std::vector<Op> ops_;
  std::vector<int> bases_;   ///< per matrix
  std::vector<int> writes_;  ///< per tile
};

class Checker {
 public:
  explicit Checker(const Plan& plan)
      : plan_(plan),
        program_(*plan.program),
        versions_(program_),
        order_(plan),
        homes_(versions_.places()),
        used_by_(versions_.places()) {
    for (const auto& slots : plan.slots) slots_.emplace_back(slots.size());
  }

  std::string run() {
    if (std::string fault = check_slots(); !fault.empty()) return fault;
    if (std::string fault = begin(); !fault.empty()) return fault;
    for (TaskId t = 0; t < static_cast<TaskId>(plan_.tasks.size()); ++t) {
      std::string fault = order_.enter(t);
      if (fault.empty()) fault = replay(t);
      if (!fault.empty()) return "task " + std::to_string(t) + " " + fault;
    }
    return check_end();
  }

 private:
  const Task& task(TaskId t) const { return plan_.tasks[static_cast<std::size_t>(t)]; }

  std::string check_slots() const {
    for (std::size_t d = 0; d < plan_.slots.size(); ++d) {
      std::int64_t end = 0;
      for (const Slot& slot : plan_.slots[d]) {
        if (slot.outlives_plan()) continue;
        if (slot.offset_bytes < end || slot.bytes < 0) return "slots overlap";
        end = slot.offset_bytes + slot.bytes;
      }
      if (end > plan_.arena_bytes[d]) return "a slot lies outside its arena";
    }
    return {};
  }

  /// What the plan finds on devices, and which homes are old.
  std::string begin() {
    for (const auto& [tile, where] : plan_.found) {
      if (std::string fault = fits_outside(where, tile); !fault.empty()) return fault;
      if (state(where, tile).content.tile.exists()) return "two tiles are found in one slot";
      state(where, tile).content = whole(tile, 0);
    }
    for (const TileId& tile : plan_.away_before) {
      if (!is_in(plan_.found, tile)) return "a tile is found nowhere";
      state({program_.matrix_of(tile).home, -1}, tile).content.last = kOld;
    }
    return {};
  }

  /// `residents` are sorted by tile.
  static bool is_in(const std::vector<Resident>& residents, const TileId& tile) {
    const auto at = std::ranges::lower_bound(residents, tile, {}, &Resident::tile);
    return at != residents.end() && at->tile == tile;
  }

  std::string fits_outside(const Where& where, const TileId& tile) const {
    if (where.in_place()) return "a tile that outlives the plan has no slot";
    if (std::string fault = fits(where, tile); !fault.empty()) return "a tile " + fault;
    if (!plan_.slot(where).outlives_plan()) return "a tile outlives the plan in its arena";
    return {};
  }

  State& state(const Where& where, const TileId& tile) {
    if (!where.in_place())
      return slots_[static_cast<std::size_t>(where.device)][static_cast<std::size_t>(where.slot)];
    State& home = homes_[versions_.place(tile)];
    if (!home.content.tile.exists()) home.content = {.tile = tile};
    return home;
  }

  std::string fits(const Where& where, const TileId& tile, std::int64_t bytes) const {
    if (!tile.exists() || tile.matrix >= std::ssize(program_.matrices)) return "has no tile";
    const DeviceId home = program_.matrix_of(tile).home;
    if (where.in_place())
      return where.device == home || (on_host(where.device) && on_host(home)) ||
                     program_.in_place(tile.matrix, where.device, plan_.tuning)
                 ? ""
                 : "uses a tile in place where it is not at home";
    const auto device = static_cast<std::size_t>(where.device);
    if (device >= plan_.slots.size() || where.slot >= std::ssize(plan_.slots[device]))
      return "uses a slot that does not exist";
    if (plan_.slots[device][static_cast<std::size_t>(where.slot)].bytes < bytes)
      return "uses a slot that is too small";
    return {};
  }
  std::string fits(const Where& where, const TileId& tile) const {
    return fits(where, tile, tile.exists() ? program_.bytes_of(tile) : 0);
  }

  // A read by t; `expected` is what must be there.
  std::string read(TaskId t, const Where& where, const Content& expected) {
    if (std::string fault = fits(where, expected.tile, 0); !fault.empty()) return fault;
    State& s = state(where, expected.tile);
    const bool in_pieces = s.writer != kNoTask && task(t).upstream == s.writer;
    if (s.writer != kNoTask && !in_pieces && !order_.before(s.writer, t))
      return "may read before task " + std::to_string(s.writer) + " has written";
    if (!(s.content == expected)) return "reads a place that holds something else than it needs";
    s.readers.push_back(t);
    return {};
  }

  std::string write(TaskId t, const Where& where, const Content& content) {
    State& s = state(where, content.tile);
    if (s.writer != kNoTask && s.writer != t && !order_.before(s.writer, t))
      return "may overwrite before task " + std::to_string(s.writer) + " has written";
    for (const TaskId reader : s.readers)
      if (reader != t && !order_.before(reader, t))
        return "may overwrite what task " + std::to_string(reader) + " still reads";
    if (where.in_place())
      if (std::string fault = check_replaced(t, content); !fault.empty()) return fault;
    s.content = content;
    s.writer = t;
    s.readers.clear();
    return {};
  }

  // If a device fails, results that were computed from a tile at home and are not yet at home are
  // computed once more, so the tile must not be replaced before they are. Those that were computed
  // from the very version that replaces it will find that at home.
  std::string check_replaced(TaskId t, const Content& by) {
    const TileId& tile = by.tile;
    auto& users = used_by_[versions_.place(tile)];
    std::vector<OpId> later;
    for (const OpId user : users) {
      if (!uses_older(user, by)) {
        later.push_back(user);
        continue;
      }
      const TileId& target =
          program_.chains[static_cast<std::size_t>(versions_.of(user).chain)].target;
      // What does not return is lost with its device, as the status says.
      if (target == tile || !program_.matrix_of(target).returns) continue;
      const State& s = state({program_.matrix_of(target).home, -1}, target);
      const Content& at_home = s.content;
      if (at_home.first != 0 || !at_home.with_old || at_home.last <= versions_.of(user).target ||
          !order_.before(s.writer, t))
        return "replaces what may be needed once more";
    }
    users.swap(later);
    return {};
  }

  /// Does the op read the tile in a version before this one?
  bool uses_older(OpId user, const Content& version) const {
    const TileOp& op = program_.op(user);
    for (const std::size_t x : {0, 1})
      if (op.inputs[x].tile == version.tile && versions_.of(user).inputs[x] < version.last)
        return true;
    return false;
  }

  std::string replay(TaskId t) {
    const Task& now = task(t);
    const bool prepares = now.kind == TaskKind::compute && now.kernel == Kernel::prepare;
    if ((now.form != Form::stored) != prepares) return "makes a form that its kernel does not make";
    if (now.kind != TaskKind::compute) {
      if (std::string fault = fits(now.to, now.tile); !fault.empty()) return fault;
      return replay_copy(t);
    }
    switch (now.kernel) {
      case Kernel::add:
        return now.accumulate == Accumulate::sum ? replay_collect(t) : replay_add(t);
      case Kernel::prepare:
        return replay_prepare(t);
      default:
        return replay_op(t);
    }
  }

  std::string replay_copy(TaskId t) {
    const Task& now = task(t);
    if (std::string fault = fits(now.from, now.tile); !fault.empty()) return fault;
    if (now.from == now.to) return "copies a place onto itself";
    const Content moved = state(now.from, now.tile).content;
    if (moved.tile != now.tile || moved.form != now.form)
      return "copies a place that holds something else";
    if (std::string fault = read(t, now.from, moved); !fault.empty()) return fault;
    return write(t, now.to, moved);
  }

  /// The op that a compute task names, if it is one of its tile's.
  std::optional<OpId> op_of(const Task& now) const {
    if (now.op < 0 || now.op >= std::ssize(program_.ops)) return std::nullopt;
    const int chain = versions_.of(now.op).chain;
    if (program_.chains[static_cast<std::size_t>(chain)].target != now.tile) return std::nullopt;
    return now.op;
  }

  static Content whole(const TileId& tile, int version) { return {.tile = tile, .last = version}; }

  std::string replay_op(TaskId t) {
    const Task& now = task(t);
    const auto id = op_of(now);
    if (!id) return "computes an op that its tile does not have";
    if (std::string fault = fits(now.to, now.tile); !fault.empty()) return fault;
    const TileOp& op = program_.op(*id);
    const Versions::Op& version = versions_.of(*id);
    if (now.kernel != op.kernel) return "runs another kernel than its op has";
    if (std::string fault = read_inputs(t, op, version); !fault.empty()) return fault;

    const int at = version.target;
    Content next{.tile = now.tile, .last = at + 1};
    if (now.accumulate == Accumulate::overwrite) {
      // Either the op begins the tile anew, or its sums are kept apart for now.
      const bool anew = version.ignores_old && op.accumulate == Accumulate::overwrite;
      if (!anew && !is_product(op.kernel)) return "leaves out what is needed of its target";
      if (!anew) next.first = at, next.with_old = false;
    } else {
      const Content old = state(now.to, now.tile).content;
      const bool first = op.accumulate == Accumulate::beta;
      if ((now.accumulate == Accumulate::beta) != first)
        return first ? "adds to what beta was not applied to" : "applies beta where it must not";
      if (op.accumulate == Accumulate::overwrite) return "adds to what has to be overwritten";
      if (old.tile != now.tile || old.form != Form::stored || old.last != at ||
          (first && !old.with_old))
        return "adds to a place that holds something else";
      if (first && old.first != 0) return "applies beta where it must not";
      if (std::string fault = read(t, now.to, old); !fault.empty()) return fault;
      next.first = old.first;
      next.with_old = old.with_old;
    }
    return write(t, now.to, next);
  }

  std::string read_inputs(TaskId t, const TileOp& op, const Versions::Op& version) {
    const Task& now = task(t);
    for (const std::size_t x : {0, 1}) {
      const TileId& tile = op.inputs[x].tile;
      Content needed = whole(tile, version.inputs[x]);
      needed.form = op.inputs[x].form;
      // A device may do without a form that it does not prepare.
      if (!tile.exists() || (needed.form != Form::stored && now.inputs[x].in_place())) continue;
      if (std::string fault = read(t, now.inputs[x], needed); !fault.empty()) return fault;
      if (!program_.matrix_of(tile).is_written) continue;
      if (program_.matrix_of(now.tile).returns &&
          state({program_.matrix_of(tile).home, -1}, tile).content.last > needed.last)
        return "reads what its home has no more, but may be needed once more";
      used_by_[versions_.place(tile)].push_back(now.op);
    }
    return {};
  }

  std::string replay_prepare(TaskId t) {
    const Task& now = task(t);
    if (!now.tile.exists() || !program_.has_form(now.tile, now.form))
      return "prepares a form that its tile does not have";
    if (now.to.in_place()) return "prepares a tile in place";
    if (std::string fault = fits(now.to, now.tile, program_.bytes_of(now.tile, now.form));
        !fault.empty())
      return fault;
    Content made = state(now.inputs[0], now.tile).content;
    if (made.tile != now.tile || made.form != Form::stored || !made.with_old)
      return "prepares a place that holds something else";
    if (std::string fault = read(t, now.inputs[0], made); !fault.empty()) return fault;
    made.form = now.form;
    return write(t, now.to, made);
  }

  // The caller's tile, added to sums without it.
  std::string replay_add(TaskId t) {
    const Task& now = task(t);
    const auto id = op_of(now);
    if (!id || program_.op(*id).accumulate != Accumulate::beta)
      return "adds a tile that its op does not scale";
    const int at = versions_.of(*id).target;
    if (std::string fault = read(t, now.inputs[0], whole(now.tile, at)); !fault.empty())
      return fault;
    Content sum = state(now.to, now.tile).content;
    if (sum.tile != now.tile || sum.with_old || sum.first != at || sum.last == at)
      return "adds the caller's tile twice, or to something else";
    if (std::string fault = read(t, now.to, sum); !fault.empty()) return fault;
    sum.with_old = true;
    sum.first = 0;
    return write(t, now.to, sum);
  }

  // The sums of later ops, added to those of all before them.
  std::string replay_collect(TaskId t) {
    const Task& now = task(t);
    const auto id = op_of(now);
    if (!id) return "adds sums of another tile";
    const Content part = state(now.inputs[0], now.tile).content;
    Content sum = state(now.to, now.tile).content;
    if (part.tile != now.tile || part.with_old || part.first != versions_.of(*id).target ||
        part.last <= part.first)
      return "adds what is no sum over a part of the ops";
    if (sum.tile != now.tile || sum.last != part.first || sum.last == sum.first)
      return "adds a sum out of its turn";
    if (std::string fault = read(t, now.inputs[0], part); !fault.empty()) return fault;
    if (std::string fault = read(t, now.to, sum); !fault.empty()) return fault;
    sum.last = part.last;
    return write(t, now.to, sum);
  }

  std::string check_end() {
    for (const auto& [tile, where] : plan_.kept) {
      if (std::string fault = fits_outside(where, tile); !fault.empty()) return fault;
      if (!is_newest(where, tile)) return name(tile) + " is not what its slot has at the end";
    }
    for (const TileId& tile : plan_.away_before)
      if (std::string fault = check_home(tile); !fault.empty()) return fault;
    for (const OpChain& chain : program_.chains)
      if (std::string fault = check_home(chain.target); !fault.empty()) return fault;
    return {};
  }

  bool is_newest(const Where& where, const TileId& tile) {
    return state(where, tile).content == whole(tile, versions_.last(tile));
  }

  std::string check_home(const TileId& tile) {
    const Matrix& matrix = program_.matrix_of(tile);
    if (is_newest({matrix.home, -1}, tile)) return {};
    if (matrix.is_scratch) return {};
    const bool may_be_away = !matrix.returns || program_.calls.empty();
    if (may_be_away && std::ranges::binary_search(plan_.away_after, tile) &&
        is_in(plan_.kept, tile))
      return {};
    return name(tile) + " is not complete at home";
  }

  static std::string name(const TileId& tile) {
    return "tile (" + std::to_string(tile.row) + ", " + std::to_string(tile.col) + ") of matrix " +
           std::to_string(tile.matrix);
  }

  const Plan& plan_;
  const TileProgram& program_;
  const Versions versions_;
  HappensBefore order_;
  std::vector<std::vector<State>> slots_;  ///< per device and slot
  std::vector<State> homes_;               ///< per tile
  /// Per tile: ops that have read a version not older than the one at home.
  std::vector<std::vector<OpId>> used_by_;
};

}  // namespace

std::string check(const Plan& plan) { return Checker(plan).run(); }

}  // namespace fleet
