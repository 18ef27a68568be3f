// SPDX-License-Identifier: BSD-3-Clause
// panel.cpp: by LAPACK where one rank has all rows. Else columns by halves, down to a few that are
// eliminated one by one; the square is on all ranks of the column, so that only pivots' rows
// travel.
#include "factor/panel.hpp"

#include <cmath>
#include <limits>
#include <map>
#include <utility>

namespace fleet::lu {
namespace {

/// So many columns are eliminated one by one.
constexpr std::int64_t kFew = 8;

}  // namespace

Panel::Panel(const Grid& grid, const Blocks& row_blocks, const Blocks& cols, std::int64_t k,
             Buffer& message)
    : rows(row_blocks),
      step(k),
      begin(k * rows.nb),
      width(std::min(rows.nb, rows.n - begin)),
      owner_row(rows.owner(begin)),
      owner_col(cols.owner(begin)),
      local_begin(rows.local_begin(begin, grid.row)),
      local_below(rows.local_begin(begin + width, grid.row)),
      rows_below(rows.local_size(grid.row) - local_below),
      message_(message.take(width * width + width + 1 + rows_below * width)) {
  message_[info_at()] = 0;
}

/// The factorization of one panel on one rank.
class PanelFactoring {
 public:
  PanelFactoring(Panel& panel, const Grid& grid, double* columns, std::int64_t ld, const Rank& rank)
      : panel_(panel),
        ranks_(*grid.pivot_ranks),
        blas_(rank.all_cores),
        recorder_(rank.recorder),
        rank_(grid.row),
        has_square_(grid.row == panel.owner_row),
        width_(panel.width),
        rows_(panel.local_rows()),
        ld_(ld),
        x_(columns),
        square_(panel.message_.data()),
        of_rank_(static_cast<std::size_t>(kHead) + static_cast<std::size_t>(2 * width_)),
        of_all_(of_rank_.size() * static_cast<std::size_t>(ranks_.size())),
        counts_(static_cast<std::size_t>(ranks_.size()), std::ssize(of_rank_)) {}

  void run(Pivoting pivoting) {
    if (pivoting == Pivoting::none)
      factor_in_place();
    else if (ranks_.size() == 1)
      factor_alone();
    else
      factor(0, width_);
    double* below = panel_.message_.data() + (panel_.below() - panel_.square());
    const double* from = x_ + (panel_.local_below - panel_.local_begin);
    for (std::int64_t c = 0; c < width_; ++c)
      std::copy_n(from + c * ld_, panel_.rows_below, below + c * panel_.rows_below);
  }

 private:
  /// What a rank says of a column: the size of its best element and that element's rows, in the
  /// matrix and in its own part. Then that row, and the row of the square from whoever has it.
  enum Word : std::size_t { kSize, kGlobal, kLocal, kHead };

  double* column(std::int64_t c) { return x_ + c * ld_; }
  /// This rank's first row below row c of the square.
  std::int64_t below(std::int64_t c) const { return has_square_ ? c : 0; }

  void factor(std::int64_t first, std::int64_t count) {
    if (count <= kFew) {
      for (std::int64_t c = first; c < first + count; ++c) eliminate(c, first + count);
      return;
    }
    const std::int64_t half = count / 2, middle = first + half, rest = count - half;
    factor(first, half);
    double* const upper = square_ + first + middle * width_;
    blas_.solve({FLEET_LEFT, FLEET_LOWER, FLEET_NO_TRANS, FLEET_UNIT,
                 square_ + first + first * width_, width_},
                half, rest, upper, width_);
    if (has_square_)
      for (std::int64_t c = 0; c < rest; ++c)
        std::copy_n(upper + c * width_, half, column(middle + c) + first);
    const std::int64_t row = below(middle);
    blas_.subtract_product(rows_ - row, rest, half, column(first) + row, ld_, FLEET_NO_TRANS, upper,
                           width_, column(middle) + row, ld_);
    factor(middle, rest);
  }

  /// One column: its pivot comes into the square, and its multiples leave the columns before `end`.
  void eliminate(std::int64_t c, std::int64_t end) {
    say(c);
    recorder_.time(What::pivots, panel_.step, [this] { gather_words(); });
    const int winner = best();
    const double* const won = words_of(winner);
    const double* const pivot_row = won + kHead;
    const double* const top_row = words_of(panel_.owner_row) + kHead + width_;
    panel_.message_[static_cast<std::size_t>(width_ * width_ + c)] = won[kGlobal];
    if (rank_ == winner) {
      const auto row = static_cast<std::int64_t>(won[kLocal]);
      for (std::int64_t i = 0; i < width_; ++i) column(i)[row] = top_row[i];
    }
    for (std::int64_t i = 0; i < width_; ++i) {
      square_[c + i * width_] = pivot_row[i];
      if (has_square_) column(i)[c] = pivot_row[i];
    }
    note_pivot(c, pivot_row[c]);
    const std::int64_t row = below(c + 1);
    subtract_multiples(pivot_row + c, end - c, column(c) + row, ld_, rows_ - row);
  }

  void gather_words() {
    try {
      ranks_.gather(of_rank_, counts_, of_all_)->wait();
    } catch (...) {
      for (std::vector<double>* words : {&of_rank_, &of_all_})
        keep_for_ever(std::make_shared<std::vector<double>>(std::move(*words)));
      throw;
    }
  }

  void note_pivot(std::int64_t c, double pivot) {
    double& info = panel_.message_[panel_.info_at()];
    if (pivot == 0 && info == 0) info = static_cast<double>(panel_.begin + c + 1);
  }

  /// `from`: the pivot and what follows it in its row, `count` columns. `column` and those after it
  /// lose its multiples in `rows` rows; `column` keeps the multipliers.
  static void subtract_multiples(const double* from, std::int64_t count, double* column,
                                 std::int64_t ld, std::int64_t rows) {
    const double pivot = from[0];
    if (pivot == 0) return;
    // As LAPACK does it: where the reciprocal would overflow, each element is divided.
    const bool divides = std::abs(pivot) < std::numeric_limits<double>::min();
    const double inverse = 1 / pivot;
    for (std::int64_t i = 0; i < rows; ++i)
      column[i] = divides ? column[i] / pivot : column[i] * inverse;
    for (std::int64_t other = 1; other < count; ++other) {
      const double factor = from[other];
      double* const target = column + other * ld;
      for (std::int64_t i = 0; i < rows; ++i) target[i] -= column[i] * factor;
    }
  }

  /// By LAPACK: nobody else has rows.
  void factor_alone() {
    std::vector<std::int64_t> pivots(static_cast<std::size_t>(width_));
    const std::int64_t info = blas_.factor(rows_, width_, x_, ld_, pivots.data());
    if (info > 0) panel_.message_[panel_.info_at()] = static_cast<double>(panel_.begin + info);
    for (std::int64_t c = 0; c < width_; ++c) {
      std::copy_n(column(c), width_, square_ + c * width_);
      panel_.message_[static_cast<std::size_t>(width_ * width_ + c)] =
          static_cast<double>(panel_.begin + pivots[static_cast<std::size_t>(c)] - 1);
    }
  }

  /// The square by the rank that has it, known to all ranks of the column, and L below it.
  void factor_in_place() {
    if (has_square_) {
      std::vector<double> row(static_cast<std::size_t>(width_));
      for (std::int64_t c = 0; c < width_; ++c) {
        for (std::int64_t i = c; i < width_; ++i) row[static_cast<std::size_t>(i)] = column(i)[c];
        note_pivot(c, row[static_cast<std::size_t>(c)]);
        subtract_multiples(row.data() + c, width_ - c, column(c) + c + 1, ld_, width_ - c - 1);
      }
      for (std::int64_t c = 0; c < width_; ++c)
        std::copy_n(column(c), width_, square_ + c * width_);
      for (std::int64_t c = 0; c < width_; ++c)
        panel_.message_[static_cast<std::size_t>(width_ * width_ + c)] =
            static_cast<double>(panel_.begin + c);
    }
    recorder_.time(What::wait, panel_.step, [this] {
      const std::span<double> known(square_, panel_.info_at() + 1);
      ranks_.broadcast(known, panel_.owner_row)->wait();
    });
    const std::int64_t row = below(width_);
    blas_.solve({FLEET_RIGHT, FLEET_UPPER, FLEET_NO_TRANS, FLEET_NON_UNIT, square_, width_},
                rows_ - row, width_, x_ + row, ld_);
  }

  void say(std::int64_t c) {
    const double* const x = column(c);
    std::int64_t found = -1;
    for (std::int64_t row = below(c); row < rows_; ++row)
      if (found < 0 || std::abs(x[row]) > std::abs(x[found])) found = row;
    of_rank_[kSize] = found < 0 ? -1 : std::abs(x[found]);
    of_rank_[kLocal] = static_cast<double>(found);
    of_rank_[kGlobal] =
        found < 0 ? 0 : static_cast<double>(panel_.rows.global(panel_.local_begin + found, rank_));
    for (std::int64_t i = 0; i < width_; ++i) {
      const auto at = static_cast<std::size_t>(kHead) + static_cast<std::size_t>(i);
      if (found >= 0) of_rank_[at] = column(i)[found];
      if (has_square_) of_rank_[at + static_cast<std::size_t>(width_)] = column(i)[c];
    }
  }

  const double* words_of(int rank) const {
    return of_all_.data() + static_cast<std::size_t>(rank) * of_rank_.size();
  }
  /// Of equals, the one in the first row.
  int best() const {
    int found = panel_.owner_row;
    for (int rank = 0; rank < ranks_.size(); ++rank) {
      const double *const mine = words_of(found), *const other = words_of(rank);
      const bool is_first = other[kSize] == mine[kSize] && other[kGlobal] < mine[kGlobal];
      if (other[kSize] > mine[kSize] || (other[kSize] >= 0 && is_first)) found = rank;
    }
    return found;
  }

  Panel& panel_;
  Comm& ranks_;
  const Blas& blas_;
  Recorder& recorder_;
  const int rank_;
  const bool has_square_;
  const std::int64_t width_, rows_, ld_;
  double* const x_;
  double* const square_;
  std::vector<double> of_rank_, of_all_;
  const std::vector<std::int64_t> counts_;
};

void Panel::factor(const Grid& grid, double* columns, std::int64_t ld, const Rank& rank,
                   Pivoting pivoting) {
  rank.recorder.time(What::panel, step,
                     [&] { PanelFactoring(*this, grid, columns, ld, rank).run(pivoting); });
}

RowMoves::RowMoves(const Panel& panel) {
  // What is where: rows that have not moved are not in it.
  std::map<std::int64_t, std::int64_t> holds;
  const auto held = [&](std::int64_t row) {
    const auto found = holds.find(row);
    return found == holds.end() ? row : found->second;
  };
  for (std::int64_t c = 0; c < panel.width; ++c) {
    const std::int64_t top = panel.begin + c, other = panel.pivot(c);
    const std::int64_t of_top = held(top), of_other = held(other);
    holds[top] = of_other;
    holds[other] = of_top;
  }
  for (std::int64_t c = 0; c < panel.width; ++c) sources.push_back(held(panel.begin + c));
  for (const auto& [row, content] : holds)
    if (row >= panel.begin + panel.width) displaced.push_back({row, content - panel.begin});
}

}  // namespace fleet::lu
