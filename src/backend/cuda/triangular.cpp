// SPDX-License-Identifier: BSD-3-Clause
// triangular.cpp: products that take the place of a factor, and solutions, made of what cuBLAS
// does fast. It must not know plans.
#include "cpu/triangular.hpp"

#include <algorithm>

#include "backend/cuda/blas.hpp"
#include "backend/cuda/elementwise.hpp"
#include "base/sizes.hpp"
#include "run/launch.hpp"

namespace fleet::cuda {
namespace {

/// Panels are whole blocks of cuBLAS's kernels.
constexpr std::int64_t kPanelStep = 64;
/// The width of the fewest equal panels that are at most `most` wide.
std::int64_t panel_width(std::int64_t width, std::int64_t most) {
  if (most > kPanelStep) most = most / kPanelStep * kPanelStep;
  const std::int64_t panels = ceil_div(width, most);
  const std::int64_t equal = ceil_div(width, panels);
  return std::min(most, round_up(equal, kPanelStep));
}

}  // namespace

/// Columns of c do not depend on each other where c is the right factor, nor rows where it is the
/// left one: a panel of them is copied, and multiplied from there back to its place.
void CublasHandle::multiply_in_place(const Launch& launch) {
  const View& c = launch.c;
  const bool by_columns = launch.b.data == c.data;
  const std::int64_t length = by_columns ? c.rows : c.cols, width = by_columns ? c.cols : c.rows;
  if (length == 0 || width == 0) return;
  const std::int64_t most =
      std::max<std::int64_t>(1, kScratchBytes / (length * bytes_of(launch.type.storage)));
  const std::int64_t panel = panel_width(width, most);
  for (std::int64_t begin = 0; begin < width; begin += panel) {
    const std::int64_t size = std::min(panel, width - begin);
    Launch piece = launch;
    piece.c = by_columns ? part(c, launch.type.storage, 0, begin, length, size)
                         : part(c, launch.type.storage, begin, 0, size, length);
    const View old = {
        .data = scratch_, .rows = piece.c.rows, .cols = piece.c.cols, .ld = piece.c.rows};
    copy(piece.c, old, launch.type.storage, stream_);
    (by_columns ? piece.b : piece.a) = old;
    multiply(piece);
  }
}

void CublasHandle::solve(const Launch& launch) {
  if (launch.b.data == nullptr) return solve_by_cublas(launch);
  set_mode(launch.type);
  const auto copied = [&](const View& c) {
    const View copy{
        .data = scratch_, .rows = c.rows, .cols = c.cols, .ld = round_up(c.rows, kCopyRows)};
    cuda::copy(c, copy, launch.type.storage, stream_);
    return copy;
  };
  solve_by_inverses(launch, {.plain = [this](const Launch& plain) { multiply_plainly(plain); },
                             .copied = copied,
                             .most_bytes = kScratchBytes});
}

void CublasHandle::prepare(const Launch& launch) {
  invert_diagonal(launch, launch.c.data, stream_);
}

}  // namespace fleet::cuda
