// SPDX-License-Identifier: BSD-3-Clause
// strip.hpp: a few columns of op(A), or rows of op(B), on the ranks whose part of C they are needed
// for, however A and B are dealt. It knows no products.
#pragma once
#include <memory>
#include <vector>

#include "dist/buffer.hpp"
#include "dist/dealt.hpp"
#include "dist/grid.hpp"
#include "routines/local.hpp"
#include "routines/message_memory.hpp"

namespace fleet::lu {

/// Of a factor: C's rows are the rows of the left one, its columns the columns of the right one.
enum class Role { left, right };

/// Where a strip comes from and for whom it is.
struct StripSource {
  Role role;
  ConstDealt matrix;
  fleet_op op;       ///< of the factor
  Dimension target;  ///< C's rows or columns

  /// Whether C's indices are the matrix's rows.
  bool along() const { return (role == Role::left) == (op == FLEET_NO_TRANS); }
  /// The matrix's dimension that is C's, and the one that is summed over.
  const Dimension& of_c() const { return along() ? matrix.rows : matrix.cols; }
  const Dimension& of_sum() const { return along() ? matrix.cols : matrix.rows; }
};

/// Ranks of `grid` are numbered along its rows. What it sends lies in memory of its own, so the
/// matrix may change when send() has returned.
class Strip {
 public:
  Strip(const Grid& grid, const StripSource& source) : grid_(grid), source_(source) {}

  /// Sends what others need of the indices `sum` that are summed over, and of C's indices in `of_c`
  /// (global). All ranks call it together.
  void send(Range sum, Range of_c, const Rank& rank, std::int64_t step);
  /// Waits for it.
  void arrive(const Rank& rank);
  /// No message of this rank's is longer that has so many of the indices that are summed over.
  std::int64_t most_numbers(std::int64_t sum) const;
  /// For the rank's part of C.
  const StripView& view() const { return view_; }

 private:
  /// Indices that follow each other in the matrix and in the strip.
  struct Run {
    std::int64_t matrix, strip, count;
  };
  using Runs = std::vector<Run>;
  /// What a rank has for another one.
  struct Piece {
    Runs sum, of_c;
    std::int64_t count() const;
  };

  int target_part(int row, int col) const { return source_.role == Role::left ? row : col; }
  /// Everything that a rank needs is in its row of the grid (left) or its column (right).
  bool is_beside() const;
  Piece piece(int from_row, int from_col, int to_row, int to_col) const;
  /// Between these two, as if either were this rank.
  Piece piece_from(int rank) const;
  Piece piece_to(int rank) const;
  double* pack(const Piece& piece, double* to) const;
  const double* unpack(const Piece& piece, const double* from);

  const Grid& grid_;
  const StripSource source_;
  Range sum_{0, 0}, of_c_{0, 0};
  std::int64_t step_ = 0;
  StripView view_{};
  std::vector<Piece> coming_;
  MessageMemory to_others_, from_others_;
  Buffer elements_;
  std::span<double> strip_;
  std::unique_ptr<Request> request_;
};

}  // namespace fleet::lu
