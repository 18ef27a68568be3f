// SPDX-License-Identifier: BSD-3-Clause
// panel_kernels.hpp: the kernels of panels that are not products: narrow columns factored by one
// grid of thread blocks, exchanges of rows, small triangles. It knows no recursion.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

#include "run/launch.hpp"

namespace fleet::cuda {

/// How the columns of a panel are factored that one grid keeps in its registers.
struct BaseShape {
  int width = 0;               ///< at most so many columns at a time
  int rows_of_block = 0;       ///< of each thread block
  std::int64_t most_rows = 0;  ///< that the thread blocks of the device keep at the same time
};

/// The widest shape with which the current device keeps so many rows; width 0 if it has none.
/// `widest`: no shape is wider, 0: no limit.
BaseShape lu_shape(Storage storage, std::int64_t rows, int widest);
BaseShape qr_shape(Storage storage, std::int64_t rows, int widest);

/// Bytes through which the thread blocks of such a grid exchange values; all zero before the first
/// kernel of a panel.
std::size_t mail_bytes(Storage storage, BaseShape shape, std::int64_t rows);

/// Columns that one grid factors as getrf does.
struct LuColumns {
  View a;                          ///< at most as many columns as the shape is wide, and as rows
  std::int32_t row = 0;            ///< what is added to pivots, and
  std::int32_t* pivots = nullptr;  ///< where the first of them goes
  std::int32_t* info = nullptr;    ///< the 1-based column (`row` added too) of the first zero pivot
  /// Twice the shape's width: the row that came to each of the first rows, and where each of these
  /// has gone. Relative to a.
  std::int32_t* moves = nullptr;
  void* mail = nullptr;
  std::uint32_t tag = 0;  ///< of the first column; later grids with this mail have later tags
};

/// Throws Error(device_failed).
void factor_lu_columns(Storage storage, BaseShape shape, const LuColumns& columns,
                       cudaStream_t stream);

/// Exchanges the rows of the columns of `a` outside [first, last), as `moves` says, which
/// factor_lu_columns has made of `count` columns. Throws Error(device_failed).
void exchange_few_rows(Storage storage, const View& a, std::int64_t first, std::int64_t last,
                       const std::int32_t* moves, int count, int width, cudaStream_t stream);

/// What is exchanged at a time by compose_exchanges and exchange_composed.
constexpr std::int64_t kMostExchanges = 1024;

/// The exchanges of rows i and pivots[i] - row, one after the other, as 4*count+1 numbers: how many
/// rows move, and for each where it comes from and goes to. Throws Error(device_failed).
void compose_exchanges(const std::int32_t* pivots, std::int32_t row, std::int64_t count,
                       bool backward, std::int32_t* composed, cudaStream_t stream);
/// Throws Error(device_failed).
void exchange_composed(Storage storage, const View& a, const std::int32_t* composed,
                       std::int64_t count, cudaStream_t stream);

/// Orders up to which solve_triangle is one kernel, which takes no larger ones.
constexpr std::int64_t kMostSolved = 128;
/// b := x, with l*x = b for a unit lower triangle, and with x*l^H = b or u^H*x = b for others: what
/// LU and Cholesky ask for. Throws Error(device_failed).
void solve_triangle(Storage storage, const View& triangle, Diag diag, const View& b,
                    cudaStream_t stream);

/// Columns that one grid factors as geqrf does.
struct QrColumns {
  View a;  ///< becomes v, with ones and zeros where they are not stored in LAPACK's form
  View r;  ///< a square; its upper triangle is written
  View t;  ///< a square; its upper triangle is written
  void* tau = nullptr;
  void* mail = nullptr;
  std::uint32_t tag = 0;  ///< of the first column, which uses two; as in LuColumns
};

/// Throws Error(device_failed).
void factor_qr_columns(Storage storage, BaseShape shape, const QrColumns& columns,
                       cudaStream_t stream);

/// to := from, and from := 0. Throws Error(device_failed).
void take(Storage storage, const View& from, const View& to, cudaStream_t stream);
/// The upper triangle of `to` := that of `from`. Throws Error(device_failed).
void put_upper(Storage storage, const View& from, const View& to, cudaStream_t stream);

/// Orders up to which factor_block takes a triangle.
constexpr std::int64_t cholesky_block(Storage storage) {
  return storage == Storage::c64 ? 64 : 128;
}
/// The triangle a as potrf leaves it. *info becomes row + the
/// 1-based order of the first minor that is not positive definite; if it is set already, nothing is
/// done. Throws Error(device_failed).
void factor_block(Storage storage, const View& a, std::int32_t row, std::int32_t* info,
                  cudaStream_t stream);

/// *info := the 1-based place of the first element on the diagonal of the factor a that is no
/// positive number, if it is 0 or behind that: a library may go on with roots that are no numbers.
/// Throws Error(device_failed).
void find_failed_root(Storage storage, const View& a, std::int32_t* info, cudaStream_t stream);

}  // namespace fleet::cuda
