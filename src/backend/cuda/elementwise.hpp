// SPDX-License-Identifier: BSD-3-Clause
// elementwise.hpp: the kernels that are not cuBLAS's: they stream tiles through a GPU's memory.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

#include "run/launch.hpp"

namespace fleet::cuda {

/// c += beta * a, on `stream` of the current device. Where c is a triangle, nothing else is
/// touched; a Hermitian one has a real diagonal: its imaginary parts are not read, and are written
/// as zero. Throws Error(device_failed).
void add_scaled(const Launch& launch, cudaStream_t stream);

/// c = beta * c, likewise; beta == 0 never reads c.
void scale(const Launch& launch, cudaStream_t stream);

/// c = a in single precision, and the sizes of a's rows in b (RowSizes). Throws
/// Error(device_failed).
void narrow(const Launch& launch, cudaStream_t stream);

/// Kernel::pack and unpack. Throws Error(device_failed).
void move_rows(const Launch& launch, cudaStream_t stream);

/// c = sums + beta * c for a c that is a triangle, likewise; beta == 0 never reads c. `sums` has
/// the shape of c.
void merge(const Launch& launch, const View& sums, cudaStream_t stream);

/// Copies all of a view to one of the same shape, both in the memory of the current device. Throws
/// Error(device_failed).
void copy(const View& from, const View& to, Storage storage, cudaStream_t stream);

/// The part of columns [first, last) of a triangle that lies in squares along its diagonal, which
/// begin at `first` and are `edge` wide; the rest of a triangle are rectangles. Both views begin
/// with the triangle, and the current device reaches both.
struct DiagonalSquares {
  View from;
  View to;
  std::int64_t element_bytes = 0;
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t edge = 1;
};

/// Bytes of the words in which they are copied: complex elements are only aligned as their parts
/// are.
inline std::int64_t word_bytes(const DiagonalSquares& squares) {
  constexpr std::int64_t kWide = 8, kNarrow = 4;
  const auto address = [](const View& view) { return reinterpret_cast<std::uintptr_t>(view.data); };
  const std::uintptr_t all = address(squares.from) | address(squares.to) |
                             static_cast<std::uintptr_t>(squares.element_bytes);
  return all % kWide == 0 ? kWide : kNarrow;
}

/// Copies the elements of the triangle in these squares, and writes nothing else of `to`. Throws
/// Error(device_failed).
void copy_squares(const DiagonalSquares& squares, cudaStream_t stream);

/// Whether a multiprocessor of the current device has room for a block of inverse_block() rows. To
/// be asked before invert_diagonal is called.
bool can_invert_diagonal();

/// The inverses of the blocks on the diagonal of the triangle launch.a, one after another and
/// each with inverse_block() rows and columns (fewer of them count in the last one). They
/// have zeros in the other triangle, and ones on a unit diagonal. Throws Error(device_failed).
void invert_diagonal(const Launch& launch, void* inverses, cudaStream_t stream);

}  // namespace fleet::cuda
