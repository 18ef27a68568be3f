// SPDX-License-Identifier: BSD-3-Clause
// dealt.hpp: a matrix of somebody else's whose blocks are dealt over a grid as ScaLAPACK deals
// them, from any rank on. It knows no ranks.
#pragma once
#include "dist/blocks.hpp"

namespace fleet::lu {

/// The rows or the columns of such a matrix. `part` is a row or a column of the grid.
struct Dimension {
  Blocks blocks;
  int first = 0;  ///< the part that has index 0

  std::int64_t size() const { return blocks.n; }
  int owner(std::int64_t global) const { return (blocks.owner(global) + first) % blocks.parts; }
  std::int64_t local_begin(std::int64_t global, int part) const {
    return blocks.local_begin(std::min(global, blocks.n), turn(part));
  }
  std::int64_t local_size(int part) const { return blocks.local_size(turn(part)); }
  std::int64_t local(std::int64_t global) const { return blocks.local(global); }
  std::int64_t global(std::int64_t local, int part) const {
    return blocks.global(local, turn(part));
  }

  bool operator==(const Dimension& other) const {
    return blocks.n == other.blocks.n && blocks.nb == other.blocks.nb &&
           blocks.parts == other.blocks.parts && first == other.first;
  }

 private:
  /// As if the first block were on part 0.
  int turn(int part) const { return (part - first + blocks.parts) % blocks.parts; }
};

/// A rank's part, column-major. Its indices begin at 0, also where it is a part of a larger matrix.
template <typename Number>
struct DealtOf {
  Dimension rows, cols;
  Number* elements = nullptr;
  std::int64_t ld = 1;

  /// Of local indices.
  Number* at(std::int64_t row, std::int64_t col) const { return elements + row + col * ld; }
  operator DealtOf<const Number>() const { return {rows, cols, elements, ld}; }
};
using Dealt = DealtOf<double>;
using ConstDealt = DealtOf<const double>;

}  // namespace fleet::lu
