// SPDX-License-Identifier: BSD-3-Clause
// copies.cpp: rectangles by copy engines; triangles by panels of columns, and by a kernel along the
// diagonal where no more than the triangle may be written.
// It must not know plans.
#include "backend/cuda/copies.hpp"

#include <algorithm>

#include "backend/cuda/check.hpp"
#include "backend/cuda/elementwise.hpp"
#include "base/sizes.hpp"
#include "cpu/copies.hpp"

namespace fleet::cuda {
namespace {

/// Bytes between columns that a 2D copy can do (cudaDevAttrMaxPitch).
constexpr std::int64_t kLargestPitch = (std::int64_t{1} << 31) - 1;
/// Panels of a triangle: 8 move an eighth more than the triangle. Every panel is a call of CUDA, so
/// a small tile has fewer.
constexpr std::int64_t kPanels = 8;
constexpr std::int64_t kLeastPanelColumns = 256;

std::int64_t panel_columns(const View& triangle) {
  return std::max(kLeastPanelColumns, ceil_div(triangle.cols, kPanels));
}

struct Rectangle {
  std::int64_t row = 0;
  std::int64_t rows = 0;
  std::int64_t col = 0;
  std::int64_t cols = 0;
};

void copy_rectangle(const ColumnCopy& copy, const Rectangle& part, cudaStream_t stream) {
  if (part.rows <= 0 || part.cols <= 0) return;
  const std::int64_t element = copy.element_bytes;
  const std::int64_t source_pitch = copy.from.ld * element, target_pitch = copy.to.ld * element;
  const char* source =
      static_cast<const char*>(copy.from.data) + part.row * element + part.col * source_pitch;
  char* target = static_cast<char*>(copy.to.data) + part.row * element + part.col * target_pitch;
  const auto width = static_cast<std::size_t>(part.rows * element);
  const auto put = [&](char* to, const char* from, std::size_t bytes) {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
  };
  if ((copy.from.ld == part.rows && copy.to.ld == part.rows) || part.cols == 1)
    return put(target, source, width * static_cast<std::size_t>(part.cols));
  if (std::max(source_pitch, target_pitch) > kLargestPitch) {
    for (std::int64_t col = 0; col < part.cols; ++col)
      put(target + col * target_pitch, source + col * source_pitch, width);
    return;
  }
  check(cudaMemcpy2DAsync(target, static_cast<std::size_t>(target_pitch), source,
                          static_cast<std::size_t>(source_pitch), width,
                          static_cast<std::size_t>(part.cols), cudaMemcpyDefault, stream),
        "cudaMemcpy2DAsync");
}

/// The address of `data` for threads of the current device, or nullptr if they cannot reach it.
void* on_current_device(void* data) {
  cudaPointerAttributes attributes{};
  if (!works(cudaPointerGetAttributes(&attributes, data))) return nullptr;
  if (attributes.type == cudaMemoryTypeHost) return attributes.devicePointer;
  if (attributes.type != cudaMemoryTypeDevice) return nullptr;
  int current = 0, allowed = 0;
  check(cudaGetDevice(&current), "cudaGetDevice");
  if (attributes.device == current) return data;
  // Where it is allowed, peer access has been switched on (machine.cpp).
  const bool known = works(cudaDeviceCanAccessPeer(&allowed, current, attributes.device));
  return known && allowed != 0 ? data : nullptr;
}

/// Copies the squares of `edge` columns on the diagonal, where only the triangle may be written.
void copy_diagonal(const ColumnCopy& copy, std::int64_t edge, cudaStream_t stream) {
  DiagonalSquares squares{.from = copy.from,
                          .to = copy.to,
                          .element_bytes = copy.element_bytes,
                          .first = copy.first,
                          .last = copy.last,
                          .edge = edge};
  squares.from.data = on_current_device(copy.from.data);
  squares.to.data = on_current_device(copy.to.data);
  if (squares.from.data != nullptr && squares.to.data != nullptr)
    return copy_squares(squares, stream);
  // Slow, and right everywhere: for pageable memory (in recoveries only), and for a pair of devices
  // that cannot reach each other.
  for (std::int64_t square = copy.first; square < copy.last; square += edge)
    for (std::int64_t col = square; col < std::min(square + edge, copy.last); ++col) {
      const auto [begin, end] = rows_of(copy.from, col);
      const std::int64_t first = std::max(begin, square),
                         last = std::min({end, square + edge, copy.last});
      copy_rectangle(copy, {.row = first, .rows = last - first, .col = col, .cols = 1}, stream);
    }
}

}  // namespace

void copy_columns(const ColumnCopy& copy, cudaStream_t stream) {
  const View& from = copy.from;
  if (copy.first >= copy.last) return;
  if (from.fill == Fill::full)
    return copy_rectangle(
        copy, {.rows = from.rows, .col = copy.first, .cols = copy.last - copy.first}, stream);
  if (from.fill == Fill::upper && from.cols > from.rows) {
    // Beside the square, all of a column counts.
    const std::int64_t edge = std::clamp(from.rows, copy.first, copy.last);
    copy_rectangle(copy, {.rows = from.rows, .col = edge, .cols = copy.last - edge}, stream);
    ColumnCopy square = copy;
    square.last = edge;
    square.from.cols = square.to.cols = from.rows;
    return copy_columns(square, stream);
  }
  const bool exact = copy.target == ColumnCopy::Target::callers;
  const std::int64_t width = panel_columns(from);
  for (std::int64_t col = copy.first; col < copy.last; col += width) {
    const std::int64_t end = std::min(col + width, copy.last);
    // Without the square on the diagonal where it must not be written as a whole.
    const std::int64_t first = from.fill == Fill::upper ? 0 : exact ? end : col;
    const std::int64_t last = from.fill == Fill::lower ? from.rows : exact ? col : end;
    copy_rectangle(copy, {.row = first, .rows = last - first, .col = col, .cols = end - col},
                   stream);
  }
  if (exact) copy_diagonal(copy, width, stream);
}

}  // namespace fleet::cuda
