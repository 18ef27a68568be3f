// SPDX-License-Identifier: BSD-3-Clause
// panel.hpp: how a factored panel is stored: with all that updates need of it in one tile. It knows
// no program and no device.
#pragma once
#include <algorithm>

#include "base/sizes.hpp"
#include "problem/factorization.hpp"

namespace fleet {

/// A panel of a factorization: `width` columns of the matrix, from the diagonal down. As a tile it
/// has more rows below them:
///   [0, length)  the factors: L (potrf), L\U (getrf), V with its ones and zeros (geqrf)
///   block        width rows: what a backend makes of L's square (getrf), T (geqrf)
///   upper        width rows: R (geqrf)
/// and one more column, the notes: 32-bit integers in the memory of elements (see Notes). Where the
/// upper triangle is factored (potrf), panels are rows from the diagonal to the right, what is
/// below here stands at the right there, and the notes are a row (`is_flat`).
///
/// Where updates multiply halves instead of floats (`in_halves`; getrf), columns after the notes
/// have the factors below the square once more: each float as two halves, which are two matrices
/// side by side, aligned to 16 bytes.
///
/// The outcome of a panel is what goes home of it beside the factors, a column: the notes, or tau
/// (geqrf).
struct Panel {
  Factoring routine = Factoring::potrf;
  bool is_flat = false;
  std::int64_t begin = 0;  ///< where on the diagonal of the matrix
  std::int64_t length = 0, width = 0;
  std::int64_t element_bytes = 8;
  bool in_halves = false;

  std::size_t kind() const { return static_cast<std::size_t>(routine); }  ///< index of Factoring
  /// Is what is below the square on the diagonal solved for, and the square factored by itself?
  bool is_solved_below() const { return routine == Factoring::potrf; }
  std::int64_t block_begin() const { return length; }
  std::int64_t upper_begin() const { return length + (routine == Factoring::potrf ? 0 : width); }
  /// Of the tile, with room for the notes.
  std::int64_t long_side() const {
    const std::int64_t end = upper_begin() + (routine == Factoring::geqrf ? width : 0);
    return std::max(end, note_elements());
  }
  std::int64_t rows() const { return is_flat ? width + 1 : long_side(); }
  std::int64_t cols() const {
    if (is_flat) return long_side();
    return width + 1 + (in_halves ? width + 1 : 0);  // one for the alignment
  }
  std::int64_t halves_begin() const { return width + 1; }  ///< their first column
  /// Their leading dimension, in halves; short columns are close together, so that they fit.
  std::int64_t halves_ld() const {
    constexpr std::int64_t kAligned = 8;
    const std::int64_t rest = std::max<std::int64_t>(1, length - width);
    return width < kAligned ? rest : round_up(rest, kAligned);
  }
  /// A float is scale * (first + second / kSecond), to 22 bits.
  static constexpr float kSecond = 2048;

  /// Numbers among the notes: LAPACK's info of the panel; the row that each was exchanged with,
  /// counted from 0 at the panel's first row (getrf); and room for what a backend makes of these:
  /// at most two rows move for each, and have a number for where from and one for where to. So many
  /// exchanges are one piece of it, with a number of its own.
  static constexpr std::int64_t kInfo = 0, kPivots = 1, kExchangesOfPiece = 1024;
  std::int64_t moves_begin() const { return kPivots + width; }
  std::int64_t note_count() const {
    return routine == Factoring::getrf
               ? moves_begin() + 4 * width + ceil_div(width, kExchangesOfPiece)
               : 1;
  }
  std::int64_t note_elements() const { return ceil_div(note_count() * 4, element_bytes); }
  std::int64_t outcome_elements() const {
    return routine == Factoring::geqrf ? width : note_elements();
  }
  friend bool operator==(const Panel&, const Panel&) = default;
};

}  // namespace fleet
