// SPDX-License-Identifier: BSD-3-Clause
// solution.cpp: block by block of the unknowns. The words are those of op(A)*X, whose blocks are
// rows of B; for X*op(A), rows and columns of B and of the grid have changed places.
#include "routines/solution.hpp"

#include <array>

#include "routines/strip.hpp"
#include "schedule/solve_tasks.hpp"

namespace fleet::lu {
namespace {

/// A block of unknowns on a rank: those of its columns.
struct Unknowns {
  MessageMemory message;
  std::span<double> words;
  StripView view{};
  std::unique_ptr<Request> sent;
};

class Solving {
 public:
  Solving(const Grid& grid, const Solution& s, const Rank& rank, Overlap overlap)
      : s_(s),
        rank_(rank),
        overlap_(overlap),
        is_left_(s.side == FLEET_LEFT),
        goes_down_(is_left_ == ((s.uplo == FLEET_LOWER) == (s.op == FLEET_NO_TRANS))),
        above_(is_left_ ? *grid.col_ranks : *grid.row_ranks),
        row_(is_left_ ? grid.row : grid.col),
        col_(is_left_ ? grid.col : grid.row),
        rows_(is_left_ ? s.b.rows : s.b.cols),
        cols_(is_left_ ? s.b.cols : s.b.rows),
        strips_{strip(grid), strip(grid), strip(grid)},
        update_{.c = s.b,
                .row = grid.row,
                .col = grid.col,
                .which = Elements::all,
                .alpha = -1,
                .left = {},
                .right = {},
                .depth = 0,
                .beta = 1} {}

  void run() {
    if (rows_.size() == 0 || cols_.size() == 0) return;
    if (s_.alpha != 1) scale();
    if (s_.alpha == 0) return;
    for (const auto& [act, step] : solve_tasks(steps(), overlap_)) run(act, step);
  }

 private:
  std::int64_t steps() const { return rows_.blocks.count(); }
  Strip strip(const Grid& grid) const {
    return Strip(grid, {is_left_ ? Role::left : Role::right, s_.a, s_.op, rows_});
  }
  Strip& strip_of(std::int64_t step) { return strips_[static_cast<std::size_t>(step % 3)]; }
  Unknowns& unknowns(std::int64_t step) { return unknowns_[static_cast<std::size_t>(step % 2)]; }
  /// The rows of a step's block.
  Range block(std::int64_t step) const {
    const std::int64_t nb = rows_.blocks.nb, at = goes_down_ ? step : steps() - 1 - step;
    return {at * nb, std::min(rows_.size(), (at + 1) * nb)};
  }
  /// The rows that become known after it.
  Range after(std::int64_t step) const {
    return goes_down_ ? Range{block(step).end, rows_.size()} : Range{0, block(step).begin};
  }
  Range local(Range global) const {
    return {rows_.local_begin(global.begin, row_), rows_.local_begin(global.end, row_)};
  }
  Range all_columns() const { return {0, cols_.local_size(col_)}; }

  void run(SolveAct act, std::int64_t step) {
    switch (act) {
      case SolveAct::fetch: {
        const Range with_square =
            goes_down_ ? Range{block(step).begin, rows_.size()} : Range{0, block(step).end};
        return strip_of(step).send(block(step), with_square, rank_, step);
      }
      case SolveAct::have:
        return strip_of(step).arrive(rank_);
      case SolveAct::solve:
        return solve(step);
      case SolveAct::send: {
        Unknowns& x = unknowns(step);
        x.sent = rank_.engine.drive(above_.broadcast(x.words, rows_.owner(block(step).begin)),
                                    {What::panel_way, step});
        return;
      }
      case SolveAct::arrive:
        rank_.recorder.time(What::wait, step, [&] { unknowns(step).sent->wait(); });
        return;
      case SolveAct::ahead:
        return apply(step, block(step + 1));
      case SolveAct::rest:
        if (step + 2 < steps()) apply(step, after(step + 1));
        return;
    }
  }

  void solve(std::int64_t step) {
    const Range range = block(step);
    const std::int64_t width = range.size(), count = all_columns().end;
    Unknowns& x = unknowns(step);
    x.words = x.message.take(width * count);
    x.view = {x.words.data(), 0, is_left_ ? width : count, !is_left_};
    if (row_ != rows_.owner(range.begin)) return;
    rank_.recorder.time(What::panel, step, [&] {
      const StripView& strip = strip_of(step).view();
      const std::int64_t at = rows_.local(range.begin);
      double* const b = is_left_ ? s_.b.at(at, 0) : s_.b.at(0, at);
      const Blas::Triangle t{s_.side, s_.uplo, s_.op, s_.diag, strip.at(at), strip.ld};
      const std::int64_t m = is_left_ ? width : count, n = is_left_ ? count : width;
      rank_.all_cores.solve(t, m, n, b, s_.b.ld);
      for (std::int64_t c = 0; c < n; ++c) std::copy_n(b + c * s_.b.ld, m, x.words.data() + c * m);
    });
  }

  /// These rows lose the product with a step's unknowns.
  void apply(std::int64_t step, Range global) {
    const Range rows = local(global);
    update_.left = is_left_ ? strip_of(step).view() : unknowns(step).view;
    update_.right = is_left_ ? unknowns(step).view : strip_of(step).view();
    update_.depth = block(step).size();
    rank_.recorder.time(What::product, step, [&] {
      update(rank_, update_, is_left_ ? rows : all_columns(), is_left_ ? all_columns() : rows);
    });
  }

  void scale() {
    Update scaling = update_;
    scaling.beta = s_.alpha;
    const Range rows{0, rows_.local_size(row_)};
    update(rank_, scaling, is_left_ ? rows : all_columns(), is_left_ ? all_columns() : rows);
  }

  const Solution& s_;
  const Rank& rank_;
  const Overlap overlap_;
  const bool is_left_, goes_down_;
  Comm& above_;
  const int row_, col_;
  const Dimension rows_, cols_;
  std::array<Strip, 3> strips_;
  std::array<Unknowns, 2> unknowns_;
  Update update_;
};

}  // namespace

void solve(const Grid& grid, const Solution& solution, const Rank& rank, Overlap overlap) {
  Solving(grid, solution, rank, overlap).run();
}

std::int64_t most_numbers(const Grid& grid, const Solution& s) {
  const bool is_left = s.side == FLEET_LEFT;
  const Dimension &rows = is_left ? s.b.rows : s.b.cols, &cols = is_left ? s.b.cols : s.b.rows;
  const std::int64_t width = std::min(rows.blocks.nb, rows.size());
  const Strip strip(grid, {is_left ? Role::left : Role::right, s.a, s.op, rows});
  return std::max(strip.most_numbers(width),
                  width * cols.local_size(is_left ? grid.col : grid.row));
}

}  // namespace fleet::lu
