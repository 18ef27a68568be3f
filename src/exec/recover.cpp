// SPDX-License-Identifier: BSD-3-Clause
// recover.cpp: replays the completed tasks of a run as bookkeeping only, then computes what is
// missing in C. It knows no kind of fault and no kind of device.
#include "exec/recover.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "base/error.hpp"
#include "exec/execute.hpp"
#include "exec/gemm_pieces.hpp"
#include "exec/triangles.hpp"
#include "exec/triangular.hpp"

namespace fleet {
namespace {

/// What a copy of a tile of C holds: a part from the caller's C, and the products summed into it.
struct Content {
  enum class Part { original, applied, absent, unknown };
  Part part = Part::unknown;  ///< C, beta*C, nothing of C, or half written
  std::vector<int> k_done;    ///< k_index of each product in it
};

/// Content of every copy of C's tiles after the tasks that completed. Conflicting tasks are ordered
/// and no completed task has an incomplete one before it, so the order of the vector will do.
class Ledger {
 public:
  Ledger(const Plan& plan, const Trace& trace, bool beta_is_zero)
      : plan_(plan), beta_is_zero_(beta_is_zero) {
    for (std::size_t id = 0; id < std::min(plan.tasks.size(), trace.spans.size()); ++id) {
      const Span& span = trace.spans[id];
      if (span.done())
        note(plan.tasks[id]);
      else if (span.start_s >= 0)
        spoil(plan.tasks[id]);
    }
  }

  /// What the home of `tile` holds.
  Content& home(const TileId& tile) {
    return homes_.try_emplace(tile, Content{Content::Part::original, {}}).first->second;
  }

  /// A slot with a copy of `tile` that work can go on from, on a device for which `alive` is true.
  template <typename Alive>
  const std::pair<const Where, std::pair<TileId, Content>>* find_copy(const TileId& tile,
                                                                      Alive alive) const {
    for (const auto& slot : slots_)
      if (slot.second.first == tile && usable(slot.second.second) && alive(slot.first.device))
        return &slot;
    return nullptr;
  }

  bool usable(const Content& content) const {
    if (content.part == Content::Part::absent) return beta_is_zero_;
    return content.part != Content::Part::unknown;
  }

 private:
  Content& at(const TileId& tile, const Where& where) {
    if (where.in_place()) return home(tile);
    auto& [held, content] = slots_[where];
    if (held != tile) content = Content{};
    held = tile;
    return content;
  }

  /// The slot now holds a tile of A or B.
  void forget(const Where& where) {
    if (!where.in_place()) slots_.erase(where);
  }

  void note(const Task& task) {
    if (task.tile.operand != kC) return forget(task.to);
    if (task.kind != TaskKind::compute) {
      const Content copied = at(task.tile, task.from);
      at(task.tile, task.to) = copied;
      return;
    }
    Content& content = at(task.tile, task.to);
    if (task.kernel == Kernel::multiply || task.kernel == Kernel::solve) {
      if (task.accumulate == Accumulate::overwrite) content = {Content::Part::absent, {}};
      // What takes the place of a factor has nothing else in it.
      if (plan_.problem.traits().triangular) content.part = Content::Part::applied;
      if (task.accumulate == Accumulate::beta) content.part = Content::Part::applied;
      content.k_done.push_back(task.k_index);
    } else if (task.kernel == Kernel::scale) {
      content = {Content::Part::applied, {}};
    } else if (adds_sums(plan_, task)) {
      const std::vector<int> other = at(task.tile, task.inputs[0]).k_done;
      content.k_done.insert(content.k_done.end(), other.begin(), other.end());
    } else if (content.part == Content::Part::absent) {
      content.part = Content::Part::applied;
    }
  }

  void spoil(const Task& task) {
    if (task.tile.operand != kC) return forget(task.to);
    at(task.tile, task.to) = Content{};
  }

  const Plan& plan_;
  bool beta_is_zero_;
  std::map<TileId, Content> homes_;
  std::map<Where, std::pair<TileId, Content>> slots_;
};

/// Steps [first, last) of k.
struct Steps {
  int first = 0;
  int last = 0;
};

/// The steps of k that are not in `done`, joined where they follow each other.
std::vector<Steps> missing_steps(const Plan& plan, const TileId& tile, std::vector<int> done) {
  std::ranges::sort(done);
  std::vector<Steps> missing;
  if (plan.problem.k == 0) return missing;
  for (int step = plan.first_step(tile.row, tile.col); step <= plan.last_step(tile.row, tile.col);
       ++step) {
    if (std::ranges::binary_search(done, step)) continue;
    if (!missing.empty() && missing.back().last == step)
      ++missing.back().last;
    else
      missing.push_back({step, step + 1});
  }
  return missing;
}

class Finisher {
 public:
  Finisher(const Plan& plan, const Arguments& arguments, const Trace& trace,
           std::span<const DeviceId> lost, Backend& backend, CpuBlas& blas)
      : plan_(plan),
        arguments_(arguments),
        backend_(backend),
        blas_(blas),
        lost_(lost.begin(), lost.end()),
        beta_is_zero_(plan.problem.operands[kC].access == Access::write),
        ledger_(plan, trace, beta_is_zero_) {
    if (trace.lost >= 0) lost_.push_back(trace.lost);
  }

  Recovery run() {
    require_home(kC);
    if (plan_.problem.traits().triangular && plan_.problem.k > 0) return run_in_turn();
    const std::int64_t items = plan_.problem.batch;
    const int rows = tile_count(plan_.m_cuts);
    for (int row = 0; row < static_cast<int>(items) * rows; ++row)
      for (int col = 0; col < tile_count(plan_.n_cuts); ++col)
        if (plan_.has_tile(row, col)) finish_tile({.operand = kC, .row = row, .col = col});
    return recovery_;
  }

 private:
  using Part = Content::Part;

  /// Tiles of C are factors too: in the order in which each has what it needs.
  Recovery run_in_turn() {
    const bool left = plan_.problem.side == Side::left;
    for (int turn = 0; turn < tile_count(plan_.k_cuts); ++turn)
      for (int other = 0; other < tile_count(left ? plan_.n_cuts : plan_.m_cuts); ++other) {
        const int at = plan_.rank(turn);
        finish_tile({.operand = kC, .row = left ? at : other, .col = left ? other : at});
      }
    return recovery_;
  }

  bool alive(DeviceId device) const { return std::ranges::count(lost_, device) == 0; }

  DeviceId home_of(int operand) const {
    return plan_.problem.operands[static_cast<std::size_t>(operand)].home;
  }

  void require_home(int operand) const {
    if (alive(home_of(operand))) return;
    throw Error(Status::device_failed, std::string("device ") + place_word(home_of(operand)) +
                                           ", which holds " + "ABC"[operand] +
                                           ", was lost: C is undefined");
  }

  View home_view(const TileId& tile) const {
    return view_of(plan_, arguments_, tile, {.device = home_of(tile.operand)}, nullptr);
  }

  void finish_tile(const TileId& tile) {
    Content& content = ledger_.home(tile);
    if (!ledger_.usable(content)) restore(tile, content);
    const std::vector<Steps> steps = missing_steps(plan_, tile, content.k_done);
    if (steps.empty() && content.part != Part::original) return;
    ++recovery_.tiles;
    std::complex<double> beta = 1.0;
    const RoutineTraits& traits = plan_.problem.traits();
    if (content.part == Part::original && !traits.triangular) beta = arguments_.beta;
    if (content.part == Part::original && traits.solves) beta = arguments_.alpha;
    if (content.part == Part::absent && content.k_done.empty()) beta = 0.0;

    const View home = home_view(tile);
    if (on_host(home_of(kC))) return compute(tile, home, beta, steps);
    std::vector<char> storage;
    const View staged = staged_like(home, storage);
    if (beta != 0.0) move(kPageable, staged, home_of(kC), home);
    compute(tile, staged, beta, steps);
    move(home_of(kC), home, kPageable, staged);
  }

  /// Makes a half-written tile one that work can go on from.
  void restore(const TileId& tile, Content& content) {
    const auto* copy = ledger_.find_copy(tile, [this](DeviceId d) { return alive(d); });
    if (copy != nullptr) {
      const View from = view_of(plan_, arguments_, tile, copy->first, backend_.slot(copy->first));
      move(home_of(kC), home_view(tile), copy->first.device, from);
      content = copy->second.second;
    } else if (beta_is_zero_) {
      content = {Part::absent, {}};
    } else {
      throw Error(Status::device_failed,
                  "a tile of C was half written when a device failed: C is undefined");
    }
  }

  void compute(const TileId& tile, const View& c, std::complex<double> beta,
               const std::vector<Steps>& steps) {
    Launch launch{.type = plan_.problem.type,
                  .op_a = plan_.problem.op_a,
                  .op_b = plan_.problem.op_b,
                  .alpha = arguments_.alpha,
                  .beta = beta,
                  .a = {},
                  .b = {},
                  .c = c,
                  .hermitian = plan_.problem.traits().hermitian,
                  .triangular = plan_.problem.traits().triangular,
                  .diag = plan_.problem.diag,
                  .side = plan_.problem.side,
                  .routine = kernel_of(plan_.problem)};
    if (steps.empty()) return scale(launch);
    require_home(kA);
    require_home(kB);
    if (plan_.problem.routine != Routine::gemm) return multiply_by_step(tile, launch, steps);
    for (const Steps& run : steps) {
      // Operands on devices come over one step at a time, so that the host needs little memory.
      const bool staged = !on_host(home_of(kA)) || !on_host(home_of(kB));
      for (int first = run.first; first < run.last;) {
        const int last = staged ? first + 1 : run.last;
        multiply(tile, launch, {first, last});
        launch.beta = 1.0;
        first = last;
      }
    }
  }

  void multiply(const TileId& tile, Launch& launch, Steps steps) {
    const std::int64_t item = tile.row / tile_count(plan_.m_cuts);
    const auto row = static_cast<std::size_t>(tile.row % tile_count(plan_.m_cuts));
    const auto col = static_cast<std::size_t>(tile.col);
    const std::int64_t m0 = plan_.m_cuts[row], m1 = plan_.m_cuts[row + 1];
    const std::int64_t n0 = plan_.n_cuts[col], n1 = plan_.n_cuts[col + 1];
    const std::int64_t k0 = plan_.k_cuts[static_cast<std::size_t>(steps.first)];
    const std::int64_t k1 = plan_.k_cuts[static_cast<std::size_t>(steps.last)];
    std::vector<char> a_storage, b_storage;
    launch.a = on_host_now(part(kA, item, m0, m1, k0, k1, plan_.problem.op_a), kA, a_storage);
    launch.b = on_host_now(part(kB, item, k0, k1, n0, n1, plan_.problem.op_b), kB, b_storage);
    blas_.gemm(launch);
    recovery_.flops += 2.0 * static_cast<double>(m1 - m0) * static_cast<double>(n1 - n0) *
                       static_cast<double>(k1 - k0) * (is_complex(launch.type) ? 4 : 1);
  }

  /// As the plan has it, tile by tile: steps of other routines do not follow each other in memory.
  void multiply_by_step(const TileId& tile, Launch& launch, const std::vector<Steps>& steps) {
    for (const Steps& run : steps)
      for (int step = run.first; step < run.last; ++step) {
        Factor left = plan_.row_factor(tile.row, step), right = plan_.col_factor(0, step, tile.col);
        if (plan_.problem.traits().vectors) std::swap(left, right);  // the matrix comes first
        if (plan_.problem.routine == Routine::axpy) right = left;
        std::vector<char> left_storage, right_storage;
        const auto now = [&](const TileId& factor, std::vector<char>& storage) {
          // trmm and trsm have the tile itself as a factor, or in its place.
          if (factor == tile) return launch.c;
          return on_host_now(home_view(factor), factor.operand, storage);
        };
        launch.a = now(left.tile, left_storage);
        launch.b = now(right.tile, right_storage);
        launch.op_a = left.op;
        launch.op_b = right.op;
        launch.alpha = factor_of_step(plan_, step, arguments_.alpha);
        recovery_.flops += 2.0 * static_cast<double>(launch.c.rows) *
                           static_cast<double>(launch.c.cols) *
                           static_cast<double>(depth_of_step(step)) * plan_.work_of(tile, step) *
                           (is_complex(launch.type) ? 4 : 1);
        if (plan_.problem.traits().solves && plan_.is_diagonal(tile.row, tile.col, step)) {
          if (launch.side == Side::right) launch.a = launch.b, launch.op_a = launch.op_b;
          solve(launch, blas_);
        } else {
          fleet::multiply(launch, blas_);
        }
        launch.beta = 1.0;
      }
  }

  std::int64_t depth_of_step(int step) const {
    const auto k = static_cast<std::size_t>(plan_.k_tile(step));
    return plan_.k_cuts[k + 1] - plan_.k_cuts[k];
  }

  /// Rows [r0, r1) and columns [c0, c1) of op(X), as stored.
  View part(int operand, std::int64_t item, std::int64_t r0, std::int64_t r1, std::int64_t c0,
            std::int64_t c1, Op op) const {
    if (op != Op::none) {
      std::swap(r0, c0);
      std::swap(r1, c1);
    }
    const auto at = static_cast<std::size_t>(operand);
    if (plan_.problem.operands[at].shared) item = 0;
    const std::int64_t ld = arguments_.ld[at];
    const std::int64_t elements = item * arguments_.stride[at] + r0 + c0 * ld;
    return {
        .data = static_cast<char*>(arguments_.data[at]) + elements * bytes_of(plan_.problem.type),
        .rows = r1 - r0,
        .cols = c1 - c0,
        .ld = ld};
  }

  View on_host_now(const View& view, int operand, std::vector<char>& storage) {
    if (on_host(home_of(operand))) return view;
    const View staged = staged_like(view, storage);
    move(kPageable, staged, home_of(operand), view);
    return staged;
  }

  View staged_like(const View& view, std::vector<char>& storage) const {
    const std::int64_t bytes = view.rows * view.cols * bytes_of(plan_.problem.type);
    storage.resize(static_cast<std::size_t>(bytes));
    return {.data = storage.data(),
            .rows = view.rows,
            .cols = view.cols,
            .ld = view.rows,
            .fill = view.fill,
            .reversed = view.reversed};
  }

  void move(DeviceId to_location, const View& to, DeviceId from_location, const View& from) {
    backend_.transfer(to_location, to, from_location, from, bytes_of(plan_.problem.type));
  }

  const Plan& plan_;
  const Arguments& arguments_;
  Backend& backend_;
  CpuBlas& blas_;
  std::vector<DeviceId> lost_;
  bool beta_is_zero_;
  Ledger ledger_;
  Recovery recovery_;
};

}  // namespace

Recovery recover(const Plan& plan, const Arguments& arguments, const Trace& trace,
                 std::span<const DeviceId> lost, Backend& backend, CpuBlas& blas) {
  return past_first_write(
      [&] { return Finisher(plan, arguments, trace, lost, backend, blas).run(); });
}

}  // namespace fleet
