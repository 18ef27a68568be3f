// SPDX-License-Identifier: BSD-3-Clause
// section.hpp: columns to the right of a panel: their rows are exchanged, then they are updated. It
// knows no schedule.
#pragma once
#include "factor/panel.hpp"

namespace fleet::lu {

/// This rank's columns [begin, end) in one step.
class Section {
 public:
  /// Packs the rows that move and sends them. The panel must be known, and its columns done with
  /// the step before.
  Section(const Grid& grid, System& system, const Panel& panel, const RowMoves& moves,
          std::int64_t begin, std::int64_t end);

  std::int64_t begin() const { return begin_; }
  /// Waits for the rows; then U, and the product.
  void update(const Blas& blas);

 private:
  void pack();
  void unpack();
  std::int64_t columns() const { return end_ - begin_; }

  const Grid& grid_;
  System& system_;
  const Panel& panel_;
  const RowMoves& moves_;
  const std::int64_t begin_, end_;
  /// Row by row, so that U is there transposed: columns() x width.
  std::vector<double> to_square_, square_rows_, to_below_, below_rows_, upper_;
  std::vector<std::int64_t> square_counts_, below_counts_;
  std::unique_ptr<Request> gathered_, scattered_;
};

}  // namespace fleet::lu
