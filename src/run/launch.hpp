// SPDX-License-Identifier: BSD-3-Clause
// launch.hpp: the arguments of one kernel: its operands as pieces of memory, and its scalars. It
// knows no plan.
#pragma once
#include <complex>
#include <cstdint>

#include "program/tile_program.hpp"

namespace fleet {

/// A column-major piece of memory at some location. `ld` in elements. The opposite triangle of a
/// triangle is neither read nor written.
struct View {
  void* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t ld = 0;
  Fill fill = Fill::full;
  bool reversed = false;  ///< one row: a vector whose elements lie last first
};

/// The block of `x` that begins at (row, col).
inline View part(const View& x, Storage storage, std::int64_t row, std::int64_t col,
                 std::int64_t rows, std::int64_t cols, Fill fill = Fill::full) {
  void* data = static_cast<char*>(x.data) + (row + col * x.ld) * bytes_of(storage);
  return {.data = data, .rows = rows, .cols = cols, .ld = x.ld, .fill = fill};
}

/// What Kernel::narrow notes of each row, in two columns of doubles: the sum of the sizes of its
/// elements, and the size of their largest part. With beta == 0 the notes are new, else there are
/// some of other columns. The launch has the type of a.
struct RowSizes {
  static constexpr std::int64_t kSum = 0, kLargest = 1, kColumns = 2;
};

/// What Kernel::pack and unpack take as b: the rows, from 1 on, as a column of such numbers.
using RowNumber = std::int64_t;

/// One kernel launch with its operands resolved. Unused views are empty.
struct Launch {
  Kernel kernel = Kernel::multiply;
  DataType type = DataType::f64;
  Op op_a = Op::none;
  Op op_b = Op::none;
  std::complex<double> alpha{};
  std::complex<double> beta{};  ///< factor of the old contents of c; 0: they are never read
  View a{};  ///< the left factor; add: what is added; solve, prepare: the triangular matrix
  View b{};  ///< the right factor; solve: the inverses of a's blocks, if there are any; narrow: see
             ///< RowSizes; pack, unpack: see RowNumber
  View c{};
  /// A factor that is a triangle is symmetric; with this, it and C are Hermitian: their diagonals
  /// are real.
  bool hermitian = false;
  /// A factor that is a triangle is triangular, and the other factor may be c: the product takes
  /// its place.
  bool triangular = false;
  Diag diag = Diag::non_unit;  ///< triangular, solve, prepare
  Side side = Side::left;      ///< solve: where the triangular matrix a stands
  /// Of a factorization: the panel that the kernel makes or reads, and where it begins along the
  /// strip (negative: the strip begins within it).
  Panel panel{};
  std::int64_t offset = 0;
};

}  // namespace fleet
