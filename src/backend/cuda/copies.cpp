// SPDX-License-Identifier: BSD-3-Clause
// copies.cpp: rectangles by copy engines; triangles by panels of columns, and by a kernel along the
// diagonal where no more than the triangle may be written.
// It must not know plans.
#include "backend/cuda/copies.hpp"

#include <algorithm>
#include <atomic>

#include "backend/cuda/check.hpp"
#include "backend/cuda/elementwise.hpp"
#include "backend/cuda/known_kernels.hpp"
#include "cpu/copies.hpp"
#include "pool/pool.hpp"
#include "program/triangle_panels.hpp"
#include "run/piece_borders.hpp"

namespace fleet::cuda {
namespace {

/// Bytes between columns that a 2D copy can do (cudaDevAttrMaxPitch).
constexpr std::int64_t kLargestPitch = (std::int64_t{1} << 31) - 1;

/// All pieces that were ever pinned by themselves lie between these: in the pool's addresses, where
/// nothing else is. Process-wide, as pins are.
std::atomic<std::uintptr_t> first_piece{UINTPTR_MAX}, end_of_pieces{0};

bool is_in_pieces(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  return address >= first_piece.load(std::memory_order_relaxed) &&
         address < end_of_pieces.load(std::memory_order_relaxed);
}

struct Rectangle {
  std::int64_t row = 0;
  std::int64_t rows = 0;
  std::int64_t col = 0;
  std::int64_t cols = 0;
};

/// As many columns at both ends, so many bytes apart.
struct Pitched {
  char* target = nullptr;
  const char* source = nullptr;
  std::int64_t target_pitch = 0, source_pitch = 0;
  std::int64_t bytes = 0;  ///< of a column
  std::int64_t cols = 0;
};

void put(const Pitched& copy, cudaStream_t stream) {
  const auto width = static_cast<std::size_t>(copy.bytes);
  const auto put_bytes = [&](char* to, const char* from, std::size_t bytes) {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
  };
  if ((copy.source_pitch == copy.bytes && copy.target_pitch == copy.bytes) || copy.cols == 1)
    return put_bytes(copy.target, copy.source, width * static_cast<std::size_t>(copy.cols));
  if (std::max(copy.source_pitch, copy.target_pitch) > kLargestPitch) {
    for (std::int64_t col = 0; col < copy.cols; ++col)
      put_bytes(copy.target + col * copy.target_pitch, copy.source + col * copy.source_pitch,
                width);
    return;
  }
  check(cudaMemcpy2DAsync(copy.target, static_cast<std::size_t>(copy.target_pitch), copy.source,
                          static_cast<std::size_t>(copy.source_pitch), width,
                          static_cast<std::size_t>(copy.cols), cudaMemcpyDefault, stream),
        "cudaMemcpy2DAsync");
}

/// CUDA refuses copies of pinned memory that go beyond what was pinned at once.
void put_by_pieces(const Pitched& copy, cudaStream_t stream) {
  const auto reaches_pieces = [&](const char* data, std::int64_t pitch) {
    return is_in_pieces(data) || is_in_pieces(data + (copy.cols - 1) * pitch + copy.bytes - 1);
  };
  const bool from_pieces = reaches_pieces(copy.source, copy.source_pitch);
  if (!from_pieces && !reaches_pieces(copy.target, copy.target_pitch)) return put(copy, stream);
  const char* const in_pieces = from_pieces ? copy.source : copy.target;
  cut_at_borders(reinterpret_cast<std::uintptr_t>(in_pieces),
                 from_pieces ? copy.source_pitch : copy.target_pitch, copy.bytes, copy.cols,
                 static_cast<std::int64_t>(kPoolPieceBytes), [&](const ColumnBytes& part) {
                   Pitched one = copy;
                   one.target += part.first_col * copy.target_pitch + part.first_byte;
                   one.source += part.first_col * copy.source_pitch + part.first_byte;
                   one.bytes = part.bytes;
                   one.cols = part.cols;
                   put(one, stream);
                 });
}

void copy_rectangle(const ColumnCopy& copy, const Rectangle& part, cudaStream_t stream) {
  if (part.rows <= 0 || part.cols <= 0) return;
  const std::int64_t element = copy.element_bytes;
  const std::int64_t source_pitch = copy.from.ld * element, target_pitch = copy.to.ld * element;
  const std::int64_t above = part.row * element;
  put_by_pieces(
      {.target = static_cast<char*>(copy.to.data) + above + part.col * target_pitch,
       .source = static_cast<const char*>(copy.from.data) + above + part.col * source_pitch,
       .target_pitch = target_pitch,
       .source_pitch = source_pitch,
       .bytes = part.rows * element,
       .cols = part.cols},
      stream);
}

/// The address of a matrix for threads of the current device, or nullptr if they cannot reach it.
void* on_current_device(const View& view, std::int64_t element_bytes) {
  void* const data = view.data;
  cudaPointerAttributes attributes{}, of_last{};
  if (!works(cudaPointerGetAttributes(&attributes, data))) return nullptr;
  if (attributes.type == cudaMemoryTypeHost) {
    if (!is_in_pieces(data)) return attributes.devicePointer;
    // Where devices have other addresses for it, those of two pieces need not be neighbours. And
    // the next piece may not be pinned yet.
    const std::int64_t bytes = ((view.cols - 1) * view.ld + view.rows) * element_bytes;
    const auto* const last = static_cast<const char*>(data) + bytes - 1;
    const bool is_whole = attributes.devicePointer == data &&
                          works(cudaPointerGetAttributes(&of_last, last)) &&
                          of_last.type == cudaMemoryTypeHost;
    return is_whole ? data : nullptr;
  }
  if (attributes.type != cudaMemoryTypeDevice) return nullptr;
  int current = 0, allowed = 0;
  check(cudaGetDevice(&current), "cudaGetDevice");
  if (attributes.device == current) return data;
  // Where it is allowed, peer access has been switched on (machine.cpp).
  const bool known = works(cudaDeviceCanAccessPeer(&allowed, current, attributes.device));
  return known && allowed != 0 ? data : nullptr;
}

/// False: its kernel would have to be loaded, and a stream is held.
bool copies_squares(const DiagonalSquares& squares, cudaStream_t stream) {
  int ordinal = 0;
  check(cudaGetDevice(&ordinal), "cudaGetDevice");
  const auto kernels = kernels_of(OtherKernels::squares, word_bytes(squares), ordinal);
  return puts_loaded(kernels, [&] { copy_squares(squares, stream); });
}

/// Copies the squares of `edge` columns on the diagonal, where only the triangle may be written.
void copy_diagonal(const ColumnCopy& copy, std::int64_t edge, cudaStream_t stream) {
  DiagonalSquares squares{.from = copy.from,
                          .to = copy.to,
                          .element_bytes = copy.element_bytes,
                          .first = copy.first,
                          .last = copy.last,
                          .edge = edge};
  squares.from.data = on_current_device(copy.from, copy.element_bytes);
  squares.to.data = on_current_device(copy.to, copy.element_bytes);
  if (squares.from.data != nullptr && squares.to.data != nullptr && copies_squares(squares, stream))
    return;
  // Slow, and right everywhere: for pageable memory (in recoveries only), for a pair of devices
  // that cannot reach each other, and where the kernel cannot be loaded now.
  for (std::int64_t square = copy.first; square < copy.last; square += edge)
    for (std::int64_t col = square; col < std::min(square + edge, copy.last); ++col) {
      const auto [begin, end] = rows_of(copy.from, col);
      const std::int64_t first = std::max(begin, square),
                         last = std::min({end, square + edge, copy.last});
      copy_rectangle(copy, {.row = first, .rows = last - first, .col = col, .cols = 1}, stream);
    }
}

}  // namespace

void note_piece(const void* data, std::int64_t bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t end = first + static_cast<std::uintptr_t>(bytes);
  std::uintptr_t known = first_piece.load();
  while (first < known && !first_piece.compare_exchange_weak(known, first)) continue;
  known = end_of_pieces.load();
  while (end > known && !end_of_pieces.compare_exchange_weak(known, end)) continue;
}

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
  const std::int64_t width = panel_columns(from.cols);
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
