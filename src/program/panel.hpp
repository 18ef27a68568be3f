// SPDX-License-Identifier: BSD-3-Clause
// panel.hpp: how a factored panel is stored: with all that updates need of it in one tile. It knows
// no program and no device.
#pragma once
#include "problem/factorization.hpp"

namespace fleet {

/// A panel of a factorization: `width` columns of the matrix, from the diagonal down. As a tile it
/// has more rows below:
///   [0, length)  the factors: L (potrf), L\U (getrf), V with its ones and zeros (geqrf)
///   block        width rows: the inverse of L's square if the backend made it (getrf), T (geqrf)
///   upper        width rows: R (geqrf)
///   notes        two rows: the row that each was exchanged with, as 32-bit integers that count
///                from the panel's first row (getrf); LAPACK's info of the panel, likewise
/// Where the upper triangle is factored (potrf), panels are rows from the diagonal to the right,
/// and what is below here stands at the right there (`is_flat`).
struct Panel {
  Factoring routine = Factoring::potrf;
  bool is_flat = false;
  std::int64_t begin = 0;  ///< where on the diagonal of the matrix
  std::int64_t length = 0, width = 0;

  static constexpr std::int64_t kNotes = 2;
  std::int64_t block_begin() const { return length; }
  std::int64_t upper_begin() const {
    return length + (routine == Factoring::potrf ? 0 : width);
  }
  std::int64_t notes_begin() const {
    return upper_begin() + (routine == Factoring::geqrf ? width : 0);
  }
  std::int64_t long_side() const { return notes_begin() + kNotes; }  ///< of the tile
  std::int64_t rows() const { return is_flat ? width : long_side(); }
  std::int64_t cols() const { return is_flat ? long_side() : width; }
  friend bool operator==(const Panel&, const Panel&) = default;
};

}  // namespace fleet
