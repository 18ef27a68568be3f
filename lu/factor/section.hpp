// SPDX-License-Identifier: BSD-3-Clause
// section.hpp: columns to the right of a panel: their rows are exchanged, then they are updated. It
// knows no schedule.
#pragma once
#include <optional>

#include "dist/matrix.hpp"
#include "factor/exchange.hpp"

namespace fleet::lu {

/// The memory of a section: rows one after another, so that U is there transposed, columns x width.
struct SectionBuffers {
  ExchangeBuffers rows;
  Buffer upper;
  /// For sections of so many columns.
  void touch(int grid_rows, std::int64_t width, std::int64_t columns);
};

/// This rank's columns [begin, end) in one step.
class Section {
 public:
  /// Packs the rows that move and sends them. The panel must be known, and its columns done with
  /// the step before.
  Section(const Grid& grid, System& system, const Rank& rank, const Panel& panel,
          const RowMoves& moves, std::int64_t begin, std::int64_t end, SectionBuffers& buffers);

  /// Waits for the rows.
  void arrive() {
    if (exchange_) exchange_->arrive();
  }
  /// Then U, and the product: work of a kind, which tells how cores and devices share it. `between`
  /// is called between parts of it.
  void update(Work kind, const std::function<void()>& between);

 private:
  /// Where all rows are on this rank.
  void exchange_here();
  void pack();
  void unpack();
  /// U and the product of columns [begin, end) of the section.
  void update_columns(const Blas& blas, std::int64_t begin, std::int64_t end);
  /// U becomes a part of the matrix.
  void place_upper(std::int64_t begin, std::int64_t end);
  /// What cores do, from column `first` on.
  void update_by_cores(std::int64_t first, std::int64_t count,
                       const std::function<void()>& between);
  /// The same by cores and devices, for as many columns as can be known; how many.
  std::int64_t update_by_all(Work kind, std::int64_t first, const std::function<void()>& between);
  std::int64_t columns() const { return end_ - begin_; }
  /// Of the section's columns, from row 0 on.
  double* data() { return system_.at(0, begin_); }

  const Grid& grid_;
  System& system_;
  const Rank& rank_;
  const Panel& panel_;
  const std::int64_t begin_, end_;
  std::vector<RowPlace> square_;  ///< this rank's rows of the square, in `upper_`
  std::span<double> upper_;
  std::optional<RowExchange> exchange_;  ///< none where there are no columns
};

}  // namespace fleet::lu
