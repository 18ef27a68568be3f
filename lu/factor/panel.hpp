// SPDX-License-Identifier: BSD-3-Clause
// panel.hpp: one block of columns, factored by the ranks that have it, and known to all after its
// broadcast. It knows no other columns.
#pragma once
#include <vector>

#include "dist/blocks.hpp"
#include "dist/buffer.hpp"
#include "dist/grid.hpp"
#include "work/rank.hpp"

namespace fleet::lu {

enum class Pivoting {
  partial,
  none  ///< rows stay where they are: messages and products of paper 3, whose results mean nothing
};

/// Rows [begin, n) of columns [begin, begin + width).
class Panel {
 public:
  /// Of a matrix whose rows and columns are dealt over the grid. `message` is its memory.
  Panel(const Grid& grid, const Blocks& rows, const Blocks& cols, std::int64_t step,
        Buffer& message);

  /// This rank has a part of its columns.
  bool is_of(const Grid& grid) const { return grid.col == owner_col; }
  /// In place, by all ranks of the column of the grid that has it: `columns` are this rank's part,
  /// from row local_begin on. Elsewhere it waits for broadcast().
  void factor(const Grid& grid, double* columns, std::int64_t ld, const Rank& rank,
              Pivoting pivoting);
  std::unique_ptr<Request> broadcast(const Grid& grid) {
    return grid.row_ranks->broadcast(message_, owner_col);
  }

  /// Numbers of its message.
  std::int64_t size() const { return std::ssize(message_); }

  const Blocks rows;  ///< of the matrix
  const std::int64_t step, begin, width;
  const int owner_row, owner_col;
  /// This rank's first row from `begin` on, and from the end of the panel's square on.
  const std::int64_t local_begin, local_below, rows_below;
  std::int64_t local_rows() const { return local_below - local_begin + rows_below; }

  /// The square, width x width: L and U of its columns. Then L below it, rows_below x width.
  const double* square() const { return message_.data(); }
  const double* below() const { return square() + width * width + width + 1; }
  /// The row that was exchanged with row begin + c, in the order of c.
  std::int64_t pivot(std::int64_t c) const {
    return static_cast<std::int64_t>(message_[static_cast<std::size_t>(width * width + c)]);
  }
  /// The first column from 1 on whose pivot is zero, or 0.
  std::int64_t info() const { return static_cast<std::int64_t>(message_[info_at()]); }

 private:
  friend class PanelFactoring;
  std::size_t info_at() const { return static_cast<std::size_t>(width * width + width); }
  std::span<double> message_;
};

/// What the exchanges of a panel do together: each row that moves, once.
struct RowMoves {
  explicit RowMoves(const Panel& panel);
  /// The row that comes to row begin + c.
  std::vector<std::int64_t> sources;
  /// Rows below the square, and which row of the square comes there.
  struct Displaced {
    std::int64_t to, top;
  };
  std::vector<Displaced> displaced;
};

}  // namespace fleet::lu
