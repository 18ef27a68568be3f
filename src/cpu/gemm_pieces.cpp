// SPDX-License-Identifier: BSD-3-Clause
// gemm_pieces.cpp: cuts operands as stored. It must not know who computes the pieces.
#include "cpu/gemm_pieces.hpp"

#include <algorithm>
#include <utility>

namespace fleet {
namespace {

struct Part {
  std::int64_t row, col, rows, cols;
};

/// The part of op(x), as a stored view.
View part_of(const View& x, Op op, Storage storage, Part part) {
  if (op != Op::none) part = {part.col, part.row, part.cols, part.rows};
  void* data = static_cast<char*>(x.data) + (part.row + part.col * x.ld) * bytes_of(storage);
  return {.data = data, .rows = part.rows, .cols = part.cols, .ld = x.ld};
}

}  // namespace

void for_each_piece(const Launch& launch, std::int64_t edge, std::int64_t depth,
                    const std::function<void(const Launch&)>& work) {
  const std::int64_t k = depth_of(launch);
  for (std::int64_t col = 0; col < launch.c.cols; col += edge)
    for (std::int64_t row = 0; row < launch.c.rows; row += edge)
      for (std::int64_t step = 0; step < k; step += depth) {
        const std::int64_t rows = std::min(edge, launch.c.rows - row);
        const std::int64_t cols = std::min(edge, launch.c.cols - col);
        const std::int64_t steps = std::min(depth, k - step);
        Launch piece = launch;
        piece.a = part_of(launch.a, launch.op_a, launch.type.storage, {row, step, rows, steps});
        piece.b = part_of(launch.b, launch.op_b, launch.type.storage, {step, col, steps, cols});
        piece.c = part_of(launch.c, Op::none, launch.type.storage, {row, col, rows, cols});
        if (step > 0) piece.beta = 1.0;
        work(piece);
      }
}

}  // namespace fleet
