// SPDX-License-Identifier: BSD-3-Clause
// panel_rows.cu: exchanges of rows, and small triangles beside a panel. It knows no recursion.
#include <algorithm>
#include <type_traits>

#include "backend/cuda/check.hpp"
#include "backend/cuda/panel_grid.cuh"
#include "backend/cuda/panel_kernels.hpp"

namespace fleet::cuda {
namespace {

constexpr int kWarp = 32;
constexpr int kThreads = 256;
/// Blocks of kernels that take columns in strides.
constexpr std::int64_t kMostBlocksOfCopies = 4096;

template <typename T>
struct Matrix {
  T* data;
  std::int64_t ld;
  std::int64_t rows, cols;
};

template <typename T>
Matrix<T> matrix_of(const View& view) {
  return {static_cast<T*>(view.data), view.ld, view.rows, view.cols};
}

unsigned blocks_for(std::int64_t items, std::int64_t each) {
  return static_cast<unsigned>(std::min(ceil_div(items, each), kMostBlocksOfCopies));
}

/// A warp takes a column, a lane one of the first rows: it fetches what comes there and what goes
/// from there before anything is written.
template <typename T>
__global__ void exchange_few(Matrix<T> a, std::int64_t first, std::int64_t last,
                             const std::int32_t* moves, int count, int width) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t warps = gridDim.x * std::int64_t{kThreads / kWarp};
  const bool has_row = lane < count;
  const int from = has_row ? moves[lane] : 0, to = has_row ? moves[width + lane] : 0;
  const std::int64_t others = a.cols - (last - first);
  for (std::int64_t i = blockIdx.x * std::int64_t{kThreads / kWarp} + threadIdx.x / kWarp;
       i < others; i += warps) {
    T* column = a.data + (i < first ? i : i + last - first) * a.ld;
    T coming{}, going{};
    if (has_row) {
      coming = column[from];
      going = column[lane];
    }
    __syncwarp();
    if (has_row) {
      if (from != lane) column[lane] = coming;
      if (to >= count) column[to] = going;
    }
  }
}

/// The rows that the exchanges touch have slots: the first `count` rows their own, and a row beyond
/// them the one after these of the first exchange that names it. The exchanges move what is in the
/// slots.
__global__ void __launch_bounds__(kMostExchanges)
    compose(const std::int32_t* pivots, std::int32_t row, int count, bool backward,
            std::int32_t* composed) {
  __shared__ std::int32_t pivot[kMostExchanges], slot[kMostExchanges];
  __shared__ std::int32_t held[2 * kMostExchanges];
  __shared__ int moved;
  const int i = static_cast<int>(threadIdx.x);
  if (i < count) pivot[i] = pivots[i] - row;
  if (i == 0) moved = 0;
  __syncthreads();
  if (i < count) {
    const std::int32_t other = pivot[i];
    int where = other;
    if (other >= count) {
      int first = 0;
      while (pivot[first] != other) ++first;
      where = count + first;
    }
    slot[i] = where;
    held[i] = i;
    held[count + i] = other;
  }
  __syncthreads();
  if (i == 0)
    for (int n = 0; n < count; ++n) {
      const int at = backward ? count - 1 - n : n, other = slot[at];
      const std::int32_t mine = held[at];
      held[at] = held[other];
      held[other] = mine;
    }
  __syncthreads();
  // Slots that nothing names hold what they held.
  for (int at = i; at < 2 * count; at += blockDim.x) {
    const std::int32_t home = at < count ? at : pivot[at - count];
    if (held[at] == home) continue;
    const int n = atomicAdd(&moved, 1);
    composed[1 + n] = held[at];
    composed[1 + count * 2 + n] = home;
  }
  __syncthreads();
  if (i == 0) composed[0] = moved;
}

/// A block takes a column: all that moves is in shared memory before anything is written.
template <typename T>
__global__ void exchange_all(Matrix<T> a, const std::int32_t* composed, int count) {
  extern __shared__ double kept[];
  T* values = reinterpret_cast<T*>(kept);
  const int moved = composed[0];
  const std::int32_t *from = composed + 1, *to = from + 2 * count;
  for (std::int64_t col = blockIdx.x; col < a.cols; col += gridDim.x) {
    T* column = a.data + col * a.ld;
    for (int i = static_cast<int>(threadIdx.x); i < moved; i += kThreads)
      values[i] = column[from[i]];
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < moved; i += kThreads) column[to[i]] = values[i];
    __syncthreads();
  }
}

constexpr int kRowsOfLane = kMostSolved / kWarp;
constexpr int kColumnsOfWarp = 2;
constexpr int kSolvingWarps = 4;

/// A warp solves for a few columns: lane l has rows l, l + 32 and so on, and each unknown that is
/// final goes to all lanes.
template <typename T>
__global__ void __launch_bounds__(kSolvingWarps* kWarp)
    solve_lower(const T* __restrict__ l, std::int64_t ld, Matrix<T> b) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, order = static_cast<int>(b.rows);
  const std::int64_t begin =
      (blockIdx.x * std::int64_t{kSolvingWarps} + threadIdx.x / kWarp) * kColumnsOfWarp;
  if (begin >= b.cols) return;
  T x[kRowsOfLane][kColumnsOfWarp];
#pragma unroll
  for (int r = 0; r < kRowsOfLane; ++r)
#pragma unroll
    for (int c = 0; c < kColumnsOfWarp; ++c) {
      const int row = lane + r * kWarp;
      x[r][c] = row < order && begin + c < b.cols ? b.data[row + (begin + c) * b.ld] : T{};
    }
#pragma unroll
  for (int group = 0; group < kRowsOfLane; ++group) {
    const int steps = min(kWarp, order - group * kWarp);
#pragma unroll 8
    for (int step = 0; step < steps; ++step) {
      const int known = group * kWarp + step;
      T factor[kRowsOfLane];
#pragma unroll
      for (int r = group; r < kRowsOfLane; ++r) {
        const int row = lane + r * kWarp;
        factor[r] = row > known && row < order ? l[row + known * ld] : T{};
      }
#pragma unroll
      for (int c = 0; c < kColumnsOfWarp; ++c) {
        const T value = from_lane(x[group][c], step);
#pragma unroll
        for (int r = group; r < kRowsOfLane; ++r)
          if (lane + r * kWarp > known) x[r][c] = minus_product(x[r][c], factor[r], value);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRowsOfLane; ++r)
#pragma unroll
    for (int c = 0; c < kColumnsOfWarp; ++c) {
      const int row = lane + r * kWarp;
      if (row < order && begin + c < b.cols) b.data[row + (begin + c) * b.ld] = x[r][c];
    }
}

template <typename T>
__global__ void take_all(Matrix<T> from, Matrix<T> to) {
  for (std::int64_t col = blockIdx.x; col < from.cols; col += gridDim.x)
    for (std::int64_t row = threadIdx.x; row < from.rows; row += kThreads) {
      to.data[row + col * to.ld] = from.data[row + col * from.ld];
      from.data[row + col * from.ld] = T{};
    }
}

template <typename T>
__global__ void put_triangle(Matrix<T> from, Matrix<T> to) {
  for (std::int64_t col = blockIdx.x; col < to.cols; col += gridDim.x)
    for (std::int64_t row = threadIdx.x; row < min(col + 1, to.rows); row += kThreads)
      to.data[row + col * to.ld] = from.data[row + col * from.ld];
}

}  // namespace

void exchange_few_rows(Storage storage, const View& a, std::int64_t first, std::int64_t last,
                       const std::int32_t* moves, int count, int width, cudaStream_t stream) {
  const std::int64_t others = a.cols - (last - first);
  if (others <= 0 || count == 0) return;
  with_element(storage, [&](auto zero) {
    exchange_few<<<blocks_for(others, kThreads / kWarp), kThreads, 0, stream>>>(
        matrix_of<decltype(zero)>(a), first, last, moves, count, width);
  });
  check(cudaGetLastError(), "an exchange of rows");
}

void compose_exchanges(const std::int32_t* pivots, std::int32_t row, std::int64_t count,
                       bool backward, std::int32_t* composed, cudaStream_t stream) {
  compose<<<1, kMostExchanges, 0, stream>>>(pivots, row, static_cast<int>(count), backward,
                                            composed);
  check(cudaGetLastError(), "the order of exchanges");
}

void exchange_composed(Storage storage, const View& a, const std::int32_t* composed,
                       std::int64_t count, cudaStream_t stream) {
  if (a.cols == 0) return;
  const auto bytes = static_cast<std::size_t>(2 * count * bytes_of(storage));
  with_element(storage, [&](auto zero) {
    exchange_all<<<blocks_for(a.cols, 1), kThreads, bytes, stream>>>(matrix_of<decltype(zero)>(a),
                                                                     composed,
                                                                     static_cast<int>(count));
  });
  check(cudaGetLastError(), "an exchange of rows");
}

void solve_unit_lower(Storage storage, const View& l, const View& b, cudaStream_t stream) {
  if (b.rows == 0 || b.cols == 0) return;
  with_element(storage, [&](auto zero) {
    using T = decltype(zero);
    const auto blocks = static_cast<unsigned>(
        ceil_div(b.cols, std::int64_t{kSolvingWarps} * kColumnsOfWarp));
    solve_lower<T><<<blocks, kSolvingWarps * kWarp, 0, stream>>>(static_cast<const T*>(l.data),
                                                                 l.ld, matrix_of<T>(b));
  });
  check(cudaGetLastError(), "a solution beside a panel");
}

void take(Storage storage, const View& from, const View& to, cudaStream_t stream) {
  if (from.rows == 0 || from.cols == 0) return;
  with_element(storage, [&](auto zero) {
    using T = decltype(zero);
    take_all<<<blocks_for(from.cols, 1), kThreads, 0, stream>>>(matrix_of<T>(from),
                                                                matrix_of<T>(to));
  });
  check(cudaGetLastError(), "rows that a panel gives away");
}

void put_upper(Storage storage, const View& from, const View& to, cudaStream_t stream) {
  if (to.rows == 0 || to.cols == 0) return;
  with_element(storage, [&](auto zero) {
    using T = decltype(zero);
    put_triangle<<<blocks_for(to.cols, 1), kThreads, 0, stream>>>(matrix_of<T>(from),
                                                                  matrix_of<T>(to));
  });
  check(cudaGetLastError(), "the triangle of a panel");
}

}  // namespace fleet::cuda
