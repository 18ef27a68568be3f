// SPDX-License-Identifier: BSD-3-Clause
// recover.cpp: replays the completed tasks of a run on a ledger, then computes the missing results
// of the tiles that the program writes. It knows no kind of fault and no kind of device.
#include "recover/recover.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <vector>

#include "base/error.hpp"
#include "cpu/kernels.hpp"
#include "run/execute.hpp"

namespace fleet {
namespace {

constexpr int kAll = std::numeric_limits<int>::max();  ///< as many ops as there are

/// The content of a copy of a tile: the results of ops [first, last) among those that write the
/// tile, counted in program order, with or without the tile's old value. The content of a
/// half-written or foreign slot is unknown; `last` then keeps its previous value.
struct Content {
  int first = 0;
  int last = 0;
  bool with_old = true;
  bool known = true;
};

/// For each op, how often its tile is written before it, and its inputs are.
class Versions {
 public:
  explicit Versions(const TileProgram& program)
      : of_(program.ops.size()), of_inputs_(program.ops.size()) {
    std::map<TileId, int> written;
    for (const OpChain& chain : program.chains)
      for (OpId id = chain.first; id < chain.first + chain.ops; ++id) {
        const auto op = static_cast<std::size_t>(id);
        for (const std::size_t x : {0, 1})
          if (const auto known = written.find(program.op(id).inputs[x].tile);
              known != written.end())
            of_inputs_[op][x] = known->second;
        of_[op] = written[chain.target]++;
      }
  }
  int before(OpId op) const { return of_[static_cast<std::size_t>(op)]; }
  int of_input(OpId op, std::size_t x) const { return of_inputs_[static_cast<std::size_t>(op)][x]; }

 private:
  std::vector<int> of_;
  std::vector<std::array<int, 2>> of_inputs_;
};

/// The content of every copy of written tiles after the completed tasks. Conflicting tasks are
/// ordered, and no completed task depends on an incomplete one, so vector order is valid.
class Ledger {
 public:
  Ledger(const Plan& plan, const Trace& trace, const Versions& versions)
      : plan_(plan), versions_(versions) {
    for (const auto& [tile, where] : plan.found) slots_[where] = {tile, {}};
    for (const TileId& tile : plan.away_before) homes_[tile].known = false;
    for (std::size_t id = 0; id < std::min(plan.tasks.size(), trace.spans.size()); ++id) {
      const Span& span = trace.spans[id];
      if (span.done())
        note(plan.tasks[id]);
      else if (span.start_s >= 0)
        spoil(plan.tasks[id]);
    }
  }

  /// The content of the tile at its home.
  Content& home(const TileId& tile) { return homes_[tile]; }

  using Slot = std::pair<const Where, std::pair<TileId, Content>>;
  /// A slot on a live device (`alive(device)`) with a copy of `tile` that can be completed and has
  /// the results of as many ops as any, of at least the first `least` and at most the first `most`;
  /// null if there is none.
  template <typename Alive>
  const Slot* find_copy(const TileId& tile, int least, int most, Alive alive) const {
    const Slot* best = nullptr;
    for (const auto& slot : slots_) {
      const auto& [held, content] = slot.second;
      if (held == tile && usable(content) && content.last >= least && content.last <= most &&
          alive(slot.first.device) && (best == nullptr || content.last > best->second.second.last))
        best = &slot;
    }
    return best;
  }

  static bool usable(const Content& content) {
    return content.known && content.first == 0 && content.with_old;
  }

 private:
  Content& at(const TileId& tile, const Where& where) {
    if (where.in_place()) return homes_[tile];
    auto& [held, content] = slots_[where];
    if (held != tile) content = Content{.known = false};
    held = tile;
    return content;
  }

  bool is_written(const TileId& tile) const { return plan_.program->matrix_of(tile).is_written; }

  /// To be called when the slot receives a tile that no op writes, or a prepared form.
  void forget(const Where& where) {
    if (!where.in_place()) slots_.erase(where);
  }

  void note(const Task& task) {
    if (task.form != Form::stored) return forget(task.to);
    if (!is_written(task.tile) && plan_.away_before.empty()) return forget(task.to);
    if (task.kind != TaskKind::compute) {
      const Content copied = at(task.tile, task.from);
      at(task.tile, task.to) = copied;
      return;
    }
    const Content other = task.kernel == Kernel::add ? at(task.tile, task.inputs[0]) : Content{};
    Content& content = at(task.tile, task.to);
    if (task.kernel == Kernel::add) {
      if (adds_sums(task))
        content.last = other.last;
      else
        content.first = 0, content.with_old = true;
      return;
    }
    const int before = versions_.before(task.op);
    if (task.accumulate == Accumulate::overwrite) {
      const bool anew = plan_.program->op(task.op).accumulate == Accumulate::overwrite;
      content = {.first = anew ? 0 : before, .with_old = anew};
    }
    content.last = before + 1;
  }

  void spoil(const Task& task) {
    if (!is_written(task.tile) || task.form != Form::stored) return forget(task.to);
    at(task.tile, task.to).known = false;
  }

  const Plan& plan_;
  const Versions& versions_;
  std::map<TileId, Content> homes_;
  std::map<Where, std::pair<TileId, Content>> slots_;
};

class Finisher {
 public:
  Finisher(const FailedRun& run, std::span<const DeviceId> lost, Backend& backend, CpuBlas& blas)
      : plan_(run.plan),
        program_(*run.plan.program),
        binding_(run.binding),
        execution_(run.execution),
        backend_(backend),
        blas_(blas),
        lost_(lost.begin(), lost.end()),
        versions_(program_),
        ledger_(run.plan, run.trace, versions_) {
    if (run.trace.lost >= 0) lost_.push_back(run.trace.lost);
  }

  /// In program order every chain finds its inputs at home, or in slots: `check` guarantees that a
  /// tile at home is replaced only after every result that returns and was computed from it is at
  /// home.
  Recovery run() {
    for (const OpChain& chain : program_.chains) require_home(chain.target);
    for (const OpChain& chain : program_.chains) finish(chain);
    for (const OpChain& chain : program_.chains)
      if (!returns(chain.target)) bring_home(chain.target);
    return recovery_;
  }

 private:
  bool alive(DeviceId device) const { return std::ranges::count(lost_, device) == 0; }

  bool returns(const TileId& tile) const { return program_.matrix_of(tile).returns; }
  DeviceId home_of(const TileId& tile) const { return program_.matrix_of(tile).home; }

  void require_home(const TileId& tile) const {
    if (alive(home_of(tile))) return;
    throw Error(Status::device_failed, std::string("device ") + place_word(home_of(tile)) +
                                           ", which holds " + static_cast<char>('A' + tile.matrix) +
                                           ", was lost: C is undefined");
  }

  View home_view(const TileId& tile) const {
    return view_of(plan_, binding_, tile, {.device = home_of(tile)}, nullptr);
  }

  void finish(const OpChain& chain) {
    const int begin = versions_.before(chain.first), end = begin + chain.ops;
    Content& content = ledger_.home(chain.target);
    // The chain is complete; a later chain may have replaced the tile since.
    if (content.last >= end) return;
    // What does not return is complete in a slot.
    if (!returns(chain.target) && find_copy(chain.target, end, kAll) != nullptr) return;
    if (!Ledger::usable(content) || content.last < begin) restore(chain, content);
    const int done = std::max(content.last, begin);
    if (done >= end) return;
    ++recovery_.tiles;
    const TileOp& next = program_.op(chain.first + (done - begin));
    const View home = home_view(chain.target);
    if (on_host(home_of(chain.target))) {
      compute(chain, done - begin, home);
    } else {
      std::vector<char> bytes;
      const View staged = staged_like(chain.target, bytes);
      if (next.accumulate != Accumulate::overwrite || reads_itself(next, chain.target))
        move(chain.target, kPageable, staged, home_of(chain.target), home);
      compute(chain, done - begin, staged);
      move(chain.target, home_of(chain.target), home, kPageable, staged);
    }
    content = {.last = end};
  }

  static bool reads_itself(const TileOp& op, const TileId& target) {
    return op.inputs[0].tile == target || op.inputs[1].tile == target;
  }

  /// Restores a half-written tile from a copy that has the results of all earlier chains, because
  /// the inputs of those chains may have been replaced by now.
  void restore(const OpChain& chain, Content& content) {
    const auto* copy = find_copy(chain.target, versions_.before(chain.first), kAll);
    const TileOp& first = program_.op(chain.first);
    if (copy != nullptr) {
      move(chain.target, home_of(chain.target), home_view(chain.target), copy->first.device,
           slot_view(chain.target, copy->first));
      content = copy->second.second;
    } else if (first.accumulate == Accumulate::overwrite && !reads_itself(first, chain.target)) {
      content = {.last = versions_.before(chain.first)};
    } else {
      throw Error(Status::device_failed,
                  "a tile of C was half written, or lies nowhere else, when a device failed: C is "
                  "undefined");
    }
  }

  /// Applies the ops of the chain from `at` on to `c`.
  void compute(const OpChain& chain, int at, const View& c) {
    for (; at < chain.ops; ++at) {
      const TileOp& op = program_.op(chain.first + at);
      Launch launch = launch_of(program_, op, chain.target, binding_);
      launch.beta = op.accumulate == Accumulate::overwrite ? 0.0
                    : op.accumulate == Accumulate::sum     ? 1.0
                                                           : binding_.scalars[op.beta];
      launch.c = c;
      std::vector<char> bytes[2];
      for (const std::size_t x : {0, 1}) {
        const TileId& input = op.inputs[x].tile;
        if (!op.inputs[x].is_stored_tile()) continue;
        const bool is_left = x == 0 || op.kernel == Kernel::solve;
        (is_left ? launch.a : launch.b) =
            input == chain.target
                ? c
                : on_host_now(input, versions_.of_input(chain.first + at, x), bytes[x]);
      }
      run_kernel(launch, blas_);
      if (op.kernel != Kernel::scale)
        recovery_.flops += (is_complex(launch.type.storage) ? 8.0 : 2.0) *
                           program_.multiply_adds_of(op, chain.target);
    }
  }

  /// The tile with the results of its first `version` ops.
  View on_host_now(const TileId& tile, int version, std::vector<char>& bytes) {
    const Content& home = ledger_.home(tile);
    const bool is_home = Ledger::usable(home) && home.last == version;
    if (is_home) require_home(tile);
    const View view = home_view(tile);
    if (is_home && on_host(home_of(tile))) return view;
    const View staged = staged_like(tile, bytes);
    if (is_home) {
      move(tile, kPageable, staged, home_of(tile), view);
      return staged;
    }
    const auto* copy = find_copy(tile, version, version);
    if (copy == nullptr)
      throw Error(Status::device_failed,
                  "a tile that is needed once more was replaced, or was lost with its device");
    move(tile, kPageable, staged, copy->first.device, slot_view(tile, copy->first));
    return staged;
  }

  const Ledger::Slot* find_copy(const TileId& tile, int least, int most) const {
    return ledger_.find_copy(tile, least, most, [this](DeviceId d) { return alive(d); });
  }

  View slot_view(const TileId& tile, const Where& where) {
    return view_of(plan_, binding_, tile, where, address_of(plan_, binding_, where, execution_));
  }

  /// A result that the plan has left on a device.
  void bring_home(const TileId& tile) {
    Content& content = ledger_.home(tile);
    const auto* copy = find_copy(tile, 0, kAll);
    if (copy == nullptr || (content.known && content.last >= copy->second.second.last)) return;
    move(tile, home_of(tile), home_view(tile), copy->first.device, slot_view(tile, copy->first));
    content = copy->second.second;
  }

  View staged_like(const TileId& tile, std::vector<char>& bytes) const {
    bytes.resize(static_cast<std::size_t>(program_.bytes_of(tile)));
    View staged = home_view(tile);
    staged.data = bytes.data();
    staged.ld = staged.rows;
    return staged;
  }

  void move(const TileId& tile, DeviceId to_location, const View& to, DeviceId from_location,
            const View& from) {
    backend_.transfer(to_location, to, from_location, from, program_.element_bytes_of(tile));
  }

  const Plan& plan_;
  const TileProgram& program_;
  const Binding& binding_;
  Execution& execution_;
  Backend& backend_;
  CpuBlas& blas_;
  std::vector<DeviceId> lost_;
  const Versions versions_;
  Ledger ledger_;
  Recovery recovery_;
};

}  // namespace

Recovery recover(const FailedRun& run, std::span<const DeviceId> lost, Backend& backend,
                 CpuBlas& blas) {
  return past_first_write([&] { return Finisher(run, lost, backend, blas).run(); });
}

}  // namespace fleet
