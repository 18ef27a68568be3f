// SPDX-License-Identifier: BSD-3-Clause
// cuda_triangular.cpp: products that take the place of a factor, and solutions, made of what cuBLAS
// does fast. It must not know plans.
#include <algorithm>
#include <utility>

#include "exec/cuda_blas.hpp"
#include "exec/cuda_kernels.hpp"
#include "exec/triangular.hpp"
#include "exec/view_parts.hpp"

namespace fleet::cuda {
namespace {

/// Panels are whole blocks of cuBLAS's kernels.
constexpr std::int64_t kPanelStep = 64;
/// cuBLAS's trsm takes its time for each row of the triangle, however narrow c is. Below this it is
/// less than that of the launches here.
constexpr std::int64_t kLeastInvertedOrder = 512;

/// The width of panels of equal width, as few as can be of at most `most`.
std::int64_t panel_width(std::int64_t width, std::int64_t most) {
  if (most > kPanelStep) most = most / kPanelStep * kPanelStep;
  const std::int64_t panels = (width + most - 1) / most;
  const std::int64_t equal = (width + panels - 1) / panels;
  return std::min(most, (equal + kPanelStep - 1) / kPanelStep * kPanelStep);
}

}  // namespace

/// Columns of c depend on no others when it is the right factor, nor do rows when it is the left
/// one: a panel of them is copied, and multiplied from there back to its place.
void CublasHandle::multiply_in_place(const Launch& launch) {
  const View& c = launch.c;
  const bool by_columns = launch.b.data == c.data;
  const std::int64_t length = by_columns ? c.rows : c.cols, width = by_columns ? c.cols : c.rows;
  if (length == 0 || width == 0) return;
  const std::int64_t most =
      std::max<std::int64_t>(1, kScratchBytes / (length * bytes_of(launch.type)));
  const std::int64_t panel = panel_width(width, most);
  for (std::int64_t begin = 0; begin < width; begin += panel) {
    const std::int64_t size = std::min(panel, width - begin);
    Launch piece = launch;
    piece.c = by_columns ? part(c, launch.type, 0, begin, length, size)
                         : part(c, launch.type, begin, 0, size, length);
    const View old = {
        .data = scratch_, .rows = piece.c.rows, .cols = piece.c.cols, .ld = piece.c.rows};
    copy(piece.c, old, launch.type, stream_);
    (by_columns ? piece.b : piece.a) = old;
    multiply(piece);
  }
}

void CublasHandle::solve(const Launch& launch) {
  if (!inverts_ || launch.a.rows < kLeastInvertedOrder) return solve_by_cublas(launch);
  const std::int64_t edge = inverse_edge(launch.type);
  fleet::solve(launch, {.leaf_edge = kInversesBytes / (edge * bytes_of(launch.type)),
                        .plain = [this](const Launch& plain) { multiply_plainly(plain); },
                        .leaf = [this](const Launch& leaf) { solve_by_inverses(leaf); }});
}

/// The blocks on the diagonal are inverted all at once, so that what is done one after another are
/// products. Zeros of an inverse are multiplied too: where c is not finite, so is what is solved
/// with the same block of the triangle.
void CublasHandle::solve_by_inverses(const Launch& launch) {
  const std::int64_t edge = inverse_edge(launch.type), bytes = bytes_of(launch.type);
  invert_diagonal(launch, inverses_, stream_);
  const auto multiply_by_inverse = [&](const Launch& block) {
    const std::int64_t distance =
        static_cast<char*>(block.a.data) - static_cast<char*>(launch.a.data);
    const std::int64_t begin = distance / ((launch.a.ld + 1) * bytes);
    const View inverse = {.data = static_cast<char*>(inverses_) + begin * edge * bytes,
                          .rows = block.a.rows,
                          .cols = block.a.cols,
                          .ld = edge};
    Launch product{.type = launch.type, .alpha = block.beta, .a = inverse, .b = block.c};
    product.c = block.c;
    product.op_a = launch.op_a;
    if (launch.side == Side::right) {
      std::swap(product.a, product.b);
      std::swap(product.op_a, product.op_b);
    }
    multiply_in_place(product);
  };
  fleet::solve(launch, {.leaf_edge = edge,
                        .plain = [this](const Launch& plain) { multiply_plainly(plain); },
                        .leaf = multiply_by_inverse});
}

}  // namespace fleet::cuda
