// SPDX-License-Identifier: BSD-3-Clause
// cholesky.cpp: panel by panel. The words are those of the lower triangle, whose panels are
// columns; of the upper one, rows and columns of matrix and grid have changed places.
#include "routines/cholesky.hpp"

#include <array>
#include <utility>
#include <vector>

#include "routines/message_memory.hpp"
#include "schedule/cholesky_tasks.hpp"

namespace fleet::lu {
namespace {

/// What a rank has of a panel.
struct CholeskyPanel {
  std::int64_t begin = 0, end = 0;
  MessageMemory message;    ///< what is below the square, and then info
  std::span<double> words;  ///< of it
  MessageMemory to_others, from_others;
  Buffer second;
  StripView below{}, across{};
  std::unique_ptr<Request> sent, spread;
  bool is_spread = false;
};

/// Where so many rows of the grid share a panel, its owners send all of it themselves: whoever has
/// the next one has its links for that. More would have too much to send.
constexpr int kMostWithoutRelay = 2;

class CholeskyFactoring {
 public:
  CholeskyFactoring(const Grid& grid, fleet_uplo uplo, const Dealt& a, const Rank& rank,
                    Overlap overlap)
      : a_(a),
        rank_(rank),
        overlap_(overlap),
        uplo_(uplo),
        is_lower_(uplo == FLEET_LOWER),
        beside_(is_lower_ ? *grid.row_ranks : *grid.col_ranks),
        above_(is_lower_ ? *grid.col_ranks : *grid.row_ranks),
        all_(grid.all),
        relays_(above_.size() > kMostWithoutRelay),
        row_(is_lower_ ? grid.row : grid.col),
        col_(is_lower_ ? grid.col : grid.row),
        rows_(is_lower_ ? a.rows : a.cols),
        cols_(is_lower_ ? a.cols : a.rows),
        update_{.c = a,
                .row = grid.row,
                .col = grid.col,
                .which = is_lower_ ? Elements::lower : Elements::upper,
                .alpha = -1,
                .left = {},
                .right = {},
                .depth = 0,
                .beta = 1} {}

  std::int64_t run() {
    const std::int64_t n = rows_.size(), nb = rows_.blocks.nb;
    for (const auto& [act, step] : cholesky_tasks((n + nb - 1) / nb, overlap_)) {
      run(act, step);
      if (info_ > 0) break;
    }
    return info_;
  }

 private:
  /// Of a step and the one after it.
  CholeskyPanel& panel(std::int64_t step) { return panels_[static_cast<std::size_t>(step % 2)]; }

  void run(CholeskyAct act, std::int64_t step) {
    switch (act) {
      case CholeskyAct::factor:
        begin(step);
        if (col_ == cols_.owner(panel(step).begin))
          rank_.recorder.time(What::panel, step, [&] { factor(step); });
        return;
      case CholeskyAct::send: {
        CholeskyPanel& p = panel(step);
        p.sent = rank_.engine.drive(beside_.broadcast(p.words, cols_.owner(p.begin)),
                                    {What::panel_way, step});
        return;
      }
      case CholeskyAct::spread:
        rank_.recorder.time(What::wait, step, [&] { panel(step).sent->wait(); });
        info_ = static_cast<std::int64_t>(panel(step).words.back());
        return spread(step);
      case CholeskyAct::arrive:
        return arrive(step);
      case CholeskyAct::ahead:
        return ahead(step);
      case CholeskyAct::rest:
        return rest(step);
    }
  }

  void begin(std::int64_t step) {
    CholeskyPanel& p = panel(step);
    p.begin = step * rows_.blocks.nb;
    p.end = std::min(p.begin + rows_.blocks.nb, rows_.size());
    const std::int64_t first = rows_.local_begin(p.end, row_);
    const std::int64_t count = rows_.local_size(row_) - first, width = p.end - p.begin;
    p.words = p.message.take(count * width + 1);
    p.words.back() = 0;
    p.below = {p.words.data(), first, is_lower_ ? count : width, is_lower_};
    p.sent.reset();
    p.spread.reset();
    p.is_spread = false;
  }

  /// By all ranks of the column of the grid that has it.
  void factor(std::int64_t step) {
    CholeskyPanel& p = panel(step);
    const std::int64_t width = p.end - p.begin, column = cols_.local(p.begin);
    const int top = rows_.owner(p.begin);
    const std::span<double> square = square_.take(width * width + 1);
    square.back() = 0;
    if (row_ == top) {
      double* const diagonal = element(rows_.local(p.begin), column);
      square.back() = static_cast<double>(cholesky_at_once(rank_, uplo_, width, diagonal, a_.ld));
      for (std::int64_t c = 0; c < width; ++c)
        std::copy_n(diagonal + c * a_.ld, width, square.data() + c * width);
    }
    if (above_.size() > 1)
      rank_.recorder.time(What::wait, step, [&] { above_.broadcast(square, top)->wait(); });
    if (square.back() > 0) {
      p.words.back() = static_cast<double>(p.begin) + square.back();
      return;
    }
    const std::int64_t first = p.below.first, count = rows_.local_size(row_) - first;
    double* const below = element(first, column);
    const Blas::Triangle t{is_lower_ ? FLEET_RIGHT : FLEET_LEFT,
                           uplo_,
                           FLEET_TRANS,
                           FLEET_NON_UNIT,
                           square.data(),
                           width};
    rank_.all_cores.solve(t, is_lower_ ? count : width, is_lower_ ? width : count, below, a_.ld);
    for (std::int64_t c = 0; c < (is_lower_ ? width : count); ++c)
      std::copy_n(below + c * a_.ld, p.below.ld, p.words.data() + c * p.below.ld);
  }

  /// The blocks of the panel's rows that row `row` of the grid has and column `col` needs as
  /// columns.
  template <typename Visit>
  void for_blocks(const CholeskyPanel& p, int row, int col, Visit&& visit) const {
    const std::int64_t nb = rows_.blocks.nb;
    for (std::int64_t at = p.end; at < rows_.size(); at += nb)
      if (rows_.owner(at) == row && cols_.owner(at) == col)
        visit(at, std::min(nb, rows_.size() - at));
  }
  std::int64_t shared(const CholeskyPanel& p, int row, int col) const {
    std::int64_t all = 0;
    for_blocks(p, row, col, [&](std::int64_t, std::int64_t rows) { all += rows; });
    return all * (p.end - p.begin);
  }

  /// `width` numbers of each of `count` rows.
  void copy_block(const double* from, std::int64_t from_ld, double* to, std::int64_t to_ld,
                  std::int64_t count, std::int64_t width) const {
    const std::int64_t columns = is_lower_ ? width : count;
    for (std::int64_t c = 0; c < columns; ++c)
      std::copy_n(from + c * from_ld, is_lower_ ? count : width, to + c * to_ld);
  }
  double* pack_blocks(const CholeskyPanel& p, int col, double* to) const {
    const std::int64_t width = p.end - p.begin;
    for_blocks(p, row_, col, [&](std::int64_t at, std::int64_t rows) {
      copy_block(p.below.at(rows_.local(at)), p.below.ld, to, is_lower_ ? rows : width, rows,
                 width);
      to += rows * width;
    });
    return to;
  }
  /// To their places in the second factor.
  const double* unpack_blocks(CholeskyPanel& p, int row, const double* from) {
    const std::int64_t width = p.end - p.begin;
    for_blocks(p, row, col_, [&](std::int64_t at, std::int64_t rows) {
      const std::int64_t place = cols_.local(at) - p.across.first;
      double* const to = p.second.data() + place * (is_lower_ ? 1 : width);
      copy_block(from, is_lower_ ? rows : width, to, p.across.ld, rows, width);
      from += rows * width;
    });
    return from;
  }

  /// Once the panel is there, and once.
  void spread(std::int64_t step) {
    CholeskyPanel& p = panel(step);
    if (std::exchange(p.is_spread, true) || p.words.back() > 0 || p.end == rows_.size()) return;
    rank_.recorder.time(What::pack, step,
                        [&] { p.spread = relays_ ? spread_by_all(p) : spread_by_owners(p); });
    p.spread = rank_.engine.drive(std::move(p.spread), {What::rows_way, step});
  }

  /// Each rank of a column of the grid has some of what the others need.
  std::unique_ptr<Request> spread_by_all(CholeskyPanel& p) {
    std::vector<std::int64_t> counts;
    std::int64_t all = 0;
    for (int row = 0; row < above_.size(); ++row) {
      counts.push_back(shared(p, row, col_));
      all += counts.back();
    }
    const std::span<double> out = p.to_others.take(counts[static_cast<std::size_t>(row_)]);
    pack_blocks(p, col_, out.data());
    return above_.gather(out, counts, p.from_others.take(all));
  }

  /// Those of the column that has the panel send it to all that are not beside them.
  std::unique_ptr<Request> spread_by_owners(CholeskyPanel& p) {
    const int owner = cols_.owner(p.begin);
    std::vector<std::int64_t> going(static_cast<std::size_t>(all_.size()), 0), coming = going;
    std::int64_t out_count = 0, in_count = 0;
    for (int row = 0; row < above_.size(); ++row) {
      if (row == row_) continue;
      coming[rank_at(row, owner)] = shared(p, row, col_);
      in_count += coming[rank_at(row, owner)];
      if (col_ != owner) continue;
      for (int col = 0; col < beside_.size(); ++col) {
        going[rank_at(row, col)] = shared(p, row_, col);
        out_count += going[rank_at(row, col)];
      }
    }
    const std::span<double> out = p.to_others.take(out_count);
    double* to = out.data();
    // Ranks' parts lie in the order of ranks.
    for (int outer = 0; outer < (is_lower_ ? above_ : beside_).size() && col_ == owner; ++outer)
      for (int inner = 0; inner < (is_lower_ ? beside_ : above_).size(); ++inner)
        if ((is_lower_ ? outer : inner) != row_) to = pack_blocks(p, is_lower_ ? inner : outer, to);
    return all_.exchange(out, going, p.from_others.take(in_count), coming);
  }
  std::size_t rank_at(int row, int col) const {
    return static_cast<std::size_t>(is_lower_ ? row * beside_.size() + col
                                              : col * above_.size() + row);
  }

  void arrive(std::int64_t step) {
    CholeskyPanel& p = panel(step);
    rank_.recorder.time(What::wait, step, [&] { p.spread->wait(); });
    rank_.recorder.time(What::pack, step, [&] {
      const std::int64_t width = p.end - p.begin, first = cols_.local_begin(p.end, col_);
      const std::int64_t count = cols_.local_size(col_) - first;
      const std::span<double> second = p.second.take(count * width);
      p.across = {second.data(), first, is_lower_ ? count : width, is_lower_};
      const double* from = p.from_others.data();
      for (int row = 0; row < above_.size(); ++row) {
        if (relays_ || row != row_) {
          from = unpack_blocks(p, row, from);
          continue;
        }
        const std::span<double> own = own_.take(shared(p, row_, col_));
        pack_blocks(p, col_, own.data());
        unpack_blocks(p, row_, own.data());
      }
    });
  }

  const Update& update_by(const CholeskyPanel& p) {
    update_.left = is_lower_ ? p.below : p.across;
    update_.right = is_lower_ ? p.across : p.below;
    update_.depth = p.end - p.begin;
    return update_;
  }

  void ahead(std::int64_t step) {
    const CholeskyPanel& p = panel(step);
    if (col_ != cols_.owner(p.end)) return;
    const Range columns{cols_.local_begin(p.end, col_),
                        cols_.local_begin(p.end + cols_.blocks.nb, col_)};
    const Range rows{p.below.first, rows_.local_size(row_)};
    const StripView second = next_block(step, columns);
    update_by(p);
    (is_lower_ ? update_.right : update_.left) = second;
    rank_.recorder.time(What::product, step, [&] {
      update_at_once(rank_, update_, is_lower_ ? rows : columns, is_lower_ ? columns : rows);
    });
  }

  /// Of the second factor: what the next panel needs.
  StripView next_block(std::int64_t step, Range columns) {
    const CholeskyPanel& p = panel(step);
    const std::int64_t width = p.end - p.begin, count = columns.size();
    const std::int64_t ld = is_lower_ ? count : width;
    const std::span<double> block = block_.take(count * width);
    const int owner = rows_.owner(p.end);
    if (row_ == owner)
      copy_block(p.below.at(rows_.local(p.end)), p.below.ld, block.data(), ld, count, width);
    if (above_.size() > 1)
      rank_.recorder.time(What::wait, step, [&] { above_.broadcast(block, owner)->wait(); });
    return {block.data(), columns.begin, ld, is_lower_};
  }

  void rest(std::int64_t step) {
    const CholeskyPanel& p = panel(step);
    const std::int64_t begin = p.end + rows_.blocks.nb;
    const Range rows{rows_.local_begin(begin, row_), rows_.local_size(row_)};
    const Range columns{cols_.local_begin(begin, col_), cols_.local_size(col_)};
    std::function<void()> between;
    if (overlap_ != Overlap::none)
      between = [this, next = step + 1] {
        if (!panel(next).is_spread && panel(next).sent->test()) spread(next);
      };
    rank_.recorder.time(What::product, step, [&] {
      update(rank_, update_by(p), is_lower_ ? rows : columns, is_lower_ ? columns : rows, between);
    });
  }

  double* element(std::int64_t row, std::int64_t col) const {
    return is_lower_ ? a_.at(row, col) : a_.at(col, row);
  }

  const Dealt& a_;
  const Rank& rank_;
  const Overlap overlap_;
  const fleet_uplo uplo_;
  const bool is_lower_;
  Comm &beside_, &above_, &all_;
  const bool relays_;
  const int row_, col_;
  const Dimension rows_, cols_;
  Update update_;
  std::array<CholeskyPanel, 2> panels_;
  MessageMemory square_, block_;
  Buffer own_;
  std::int64_t info_ = 0;
};

}  // namespace

std::int64_t cholesky(const Grid& grid, fleet_uplo uplo, const Dealt& a, const Rank& rank,
                      Overlap overlap) {
  return CholeskyFactoring(grid, uplo, a, rank, overlap).run();
}

std::int64_t most_numbers_of_cholesky(const Grid& grid, const Dealt& a) {
  const std::int64_t width = std::min(a.rows.blocks.nb, a.rows.size());
  return 1 + width * std::max({width, a.rows.local_size(grid.row), a.cols.local_size(grid.col)});
}

}  // namespace fleet::lu
