// SPDX-License-Identifier: BSD-3-Clause
// tasks.hpp: what a rank does in each step of a factorization, in which order. It knows no data:
// what runs it and what simulates it read the same tasks.
#pragma once
#include <vector>

#include "dist/blocks.hpp"

namespace fleet::lu {

/// How far messages are hidden under products.
enum class Overlap {
  none,       ///< every message is waited for
  lookahead,  ///< the next panel is factored and under way before the rest of a step is updated
  dedicated,  ///< the same; a core of its own drives the messages (Endo et al., paper 3, 5)
  full        ///< the same; that core takes part in products while no message is under way
};

/// A square matrix of order n with one more column, dealt over a grid in blocks of nb x nb.
struct Shape {
  std::int64_t n, nb;
  int rows, cols;  ///< of the grid

  Blocks row_blocks() const { return {n, nb, rows}; }
  Blocks col_blocks() const { return {n + 1, nb, cols}; }
  std::int64_t steps() const { return (n + nb - 1) / nb; }
};

enum class Act {
  factor,    ///< the panel of a step
  send,      ///< that panel, along the rows of the grid
  arrive,    ///< waits for it
  exchange,  ///< of columns: the rows that move are sent, along the columns of the grid
  update     ///< of columns: waits for those rows; U, and the product
};

/// The columns of a step in their order: those of the next panel, those whose rows are exchanged
/// while that one is factored, and those whose rows were exchanged in the step before.
enum class Part { ahead, left, right };

struct Task {
  Act act;
  std::int64_t step;
  Part part = Part::right;
  std::int64_t begin = 0, end = 0;  ///< local columns, of `exchange` and `update`
};

/// What comes before the first step, with look-ahead.
std::vector<Task> first_tasks(const Shape& shape, int col, Overlap overlap);
/// What a rank in column `col` of the grid does in `step`. Ranks of one column do the same.
std::vector<Task> step_tasks(const Shape& shape, int col, Overlap overlap, std::int64_t step);

}  // namespace fleet::lu
