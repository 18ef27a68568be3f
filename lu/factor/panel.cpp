// SPDX-License-Identifier: BSD-3-Clause
// panel.cpp: by LAPACK where one rank has all rows. Else columns by halves, down to a few that are
// eliminated one by one; the square is on all ranks of the column, so that only pivots' rows
// travel. Each core has the same rows all the time.
#include "factor/panel.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "factor/elimination.hpp"

namespace fleet::lu {
namespace {

/// So many columns are eliminated one by one.
constexpr std::int64_t kFew = 8;
/// Below so many numbers, one core is done with them before others have begun.
constexpr std::int64_t kWorthSharing = 8192;

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
        crew_(rank.crew),
        one_core_(rank.one_core.context()),
        all_cores_(rank.all_cores),
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
      factor_together();
    double* below = panel_.message_.data() + (panel_.below() - panel_.square());
    const double* from = x_ + (panel_.local_below - panel_.local_begin);
    crew_.share(width_, [&](std::int64_t first, std::int64_t end) {
      for (std::int64_t c = first; c < end; ++c)
        std::copy_n(from + c * ld_, panel_.rows_below, below + c * panel_.rows_below);
    });
  }

 private:
  /// What a core has found. Cores do not write to the same line of memory.
  struct alignas(64) OfCore {
    Largest largest;
  };

  /// What a rank says of a column: the size of its best element and that element's rows, in the
  /// matrix and in its own part. Then that row, and the row of the square from whoever has it.
  enum Word : std::size_t { kSize, kGlobal, kLocal, kHead };

  double* column(std::int64_t c) { return x_ + c * ld_; }
  /// This rank's first row below row c of the square.
  std::int64_t below(std::int64_t c) const { return has_square_ ? c : 0; }

  /// With the ranks that have other rows.
  void factor_together() {
    crew_.in_lockstep([this](Lockstep& cores) {
      cores_ = &cores;
      of_cores_.resize(static_cast<std::size_t>(cores.parts()));
      factor(0, width_);
    });
  }

  /// work(core, begin, end) for this rank's rows from `first` on, with so many numbers each.
  template <typename Work>
  void share_rows(std::int64_t first, std::int64_t numbers, const Work& work) {
    const auto part = [&](int core, std::int64_t begin, std::int64_t end) {
      begin = std::max(begin, first);
      if (begin < end) work(core, begin, end);
    };
    if (cores_->parts() == 1 || rows_ * numbers < kWorthSharing) return part(0, 0, rows_);
    cores_->each([&](int core) { part(core, border(core), border(core + 1)); });
  }
  /// Of the rows of a core: whole lines of memory.
  std::int64_t border(int core) const {
    constexpr std::int64_t kLine = 8;
    return std::min(rows_, (rows_ * core / cores_->parts() + kLine - 1) / kLine * kLine);
  }

  void factor(std::int64_t first, std::int64_t count) {
    if (count <= kFew) {
      look_at(first);
      for (std::int64_t c = first; c < first + count; ++c) eliminate(c, first + count);
      return;
    }
    const std::int64_t half = count / 2, middle = first + half, rest = count - half;
    factor(first, half);
    double* const upper = square_ + first + middle * width_;
    one_core_.solve({FLEET_LEFT, FLEET_LOWER, FLEET_NO_TRANS, FLEET_UNIT,
                     square_ + first + first * width_, width_},
                    half, rest, upper, width_);
    if (has_square_)
      for (std::int64_t c = 0; c < rest; ++c)
        std::copy_n(upper + c * width_, half, column(middle + c) + first);
    share_rows(below(middle), rest * half, [&](int, std::int64_t begin, std::int64_t end) {
      one_core_.subtract_product(end - begin, rest, half, column(first) + begin, ld_,
                                 FLEET_NO_TRANS, upper, width_, column(middle) + begin, ld_);
    });
    factor(middle, rest);
  }

  /// For its pivot. By whoever has the rows in its caches, as in the columns that follow.
  void look_at(std::int64_t c) {
    forget();
    share_rows(below(c), kFew, [&](int core, std::int64_t begin, std::int64_t end) {
      of_cores_[static_cast<std::size_t>(core)].largest.look_at(column(c), begin, end);
    });
  }
  void forget() { std::ranges::fill(of_cores_, OfCore{}); }

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
    forget();
    share_rows(below(c + 1), end - c, [&](int core, std::int64_t first, std::int64_t last) {
      of_cores_[static_cast<std::size_t>(core)].largest =
          lu::eliminate(pivot_row + c, end - c, column(c), ld_, first, last);
    });
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

  /// By LAPACK: nobody else has rows.
  void factor_alone() {
    std::vector<std::int64_t> pivots(static_cast<std::size_t>(width_));
    const std::int64_t info = all_cores_.factor(rows_, width_, x_, ld_, pivots.data());
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
        lu::eliminate(row.data() + c, width_ - c, column(c), ld_, c + 1, width_);
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
    all_cores_.solve({FLEET_RIGHT, FLEET_UPPER, FLEET_NO_TRANS, FLEET_NON_UNIT, square_, width_},
                     rows_ - row, width_, x_ + row, ld_);
  }

  void say(std::int64_t c) {
    Largest largest;
    for (const OfCore& core : of_cores_) largest.or_later(core.largest);
    const std::int64_t found = largest.row;
    of_rank_[kSize] = largest.size;
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
  Crew& crew_;
  Lockstep* cores_ = nullptr;
  std::vector<OfCore> of_cores_;
  const Blas one_core_;
  const Blas& all_cores_;
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
