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

/// A block takes a column: all that moves is in registers before anything is written, and all of
/// it is on its way at the same time.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    exchange_all(Matrix<T> a, const std::int32_t* composed, int count) {
  constexpr int kEach = 2 * kMostExchanges / kThreads;
  const int moved = composed[0];
  const std::int32_t *from = composed + 1, *to = from + 2 * count;
  for (std::int64_t col = blockIdx.x; col < a.cols; col += gridDim.x) {
    T* column = a.data + col * a.ld;
    T values[kEach];
#pragma unroll
    for (int n = 0; n < kEach; ++n)
      if (const int i = n * kThreads + static_cast<int>(threadIdx.x); i < moved)
        values[n] = column[from[i]];
    __syncthreads();
#pragma unroll
    for (int n = 0; n < kEach; ++n)
      if (const int i = n * kThreads + static_cast<int>(threadIdx.x); i < moved)
        column[to[i]] = values[n];
    __syncthreads();
  }
}

constexpr int kRowsOfLane = kMostSolved / kWarp;
constexpr int kColumnsOfWarp = 2;
constexpr int kSolvingWarps = 4;

/// Columns of l that a block has in its shared memory at a time, while the next are on their way.
constexpr int kStrip = 16;
constexpr int kSolvingThreads = kSolvingWarps * kWarp;

/// A lower triangle, and the right-hand sides that become solutions; either may lie by rows, and
/// conjugated.
template <typename T>
struct Equations {
  const T* l;
  std::int64_t l_row, l_col;  ///< distances of elements
  T* b;
  std::int64_t b_row, b_col;
  int order;
  std::int64_t count;
  bool unit, conjugates_l, conjugates_b;
};

/// A warp solves for a few columns: lane l has rows l, l + 32 and so on, and each unknown that is
/// final goes to all lanes.
template <typename T>
__global__ void __launch_bounds__(kSolvingThreads) solve_lower(Equations<T> in) {
  static_assert(kSolvingThreads == kMostSolved, "a thread fetches a row of l");
  __shared__ alignas(16) unsigned char strip_bytes[kStrip * kMostSolved * sizeof(T)];
  T* strip = reinterpret_cast<T*>(strip_bytes);
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp, order = in.order;
  const std::int64_t begin =
      (blockIdx.x * std::int64_t{kSolvingWarps} + thread / kWarp) * kColumnsOfWarp;
  const auto turned = [](bool turns, T value) { return turns ? conjugate(value) : value; };
  T x[kRowsOfLane][kColumnsOfWarp];
#pragma unroll
  for (int r = 0; r < kRowsOfLane; ++r)
#pragma unroll
    for (int c = 0; c < kColumnsOfWarp; ++c) {
      const int row = lane + r * kWarp;
      x[r][c] = row < order && begin + c < in.count
                    ? turned(in.conjugates_b, in.b[row * in.b_row + (begin + c) * in.b_col])
                    : T{};
    }
  T next[kStrip];
  const auto fetch = [&](int first) {
#pragma unroll
    for (int k = 0; k < kStrip; ++k)
      next[k] = thread < order && first + k <= thread
                    ? in.l[thread * in.l_row + (first + k) * in.l_col]
                    : T{};
  };
  fetch(0);
#pragma unroll
  for (int group = 0; group < kRowsOfLane; ++group)
#pragma unroll
    for (int half = 0; half < kWarp / kStrip; ++half) {
      const int first = group * kWarp + half * kStrip;
      if (first >= order) break;
      __syncthreads();
#pragma unroll
      for (int k = 0; k < kStrip; ++k)
        strip[k * kMostSolved + thread] = turned(in.conjugates_l, next[k]);
      __syncthreads();
      fetch(first + kStrip);
      // Each lane has the reciprocal of one element of the diagonal.
      T reciprocal = element_of<T>(1, 0);
      if (!in.unit && lane < kStrip && first + lane < order)
        reciprocal = quotient(reciprocal, strip[lane * kMostSolved + first + lane]);
#pragma unroll
      for (int k = 0; k < kStrip; ++k) {
        const T* column = strip + k * kMostSolved + lane;
        const T scale = from_lane(reciprocal, k);
#pragma unroll
        for (int c = 0; c < kColumnsOfWarp; ++c) {
          T value = from_lane(x[group][c], half * kStrip + k);
          if (!in.unit) value = product(scale, value);
          if (lane == half * kStrip + k) x[group][c] = value;
#pragma unroll
          for (int r = group; r < kRowsOfLane; ++r)
            if (lane + r * kWarp > first + k)
              x[r][c] = minus_product(x[r][c], column[r * kWarp], value);
        }
      }
    }
#pragma unroll
  for (int r = 0; r < kRowsOfLane; ++r)
#pragma unroll
    for (int c = 0; c < kColumnsOfWarp; ++c) {
      const int row = lane + r * kWarp;
      if (row < order && begin + c < in.count)
        in.b[row * in.b_row + (begin + c) * in.b_col] = turned(in.conjugates_b, x[r][c]);
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
  with_element(storage, [&](auto zero) {
    exchange_all<<<blocks_for(a.cols, 1), kThreads, 0, stream>>>(matrix_of<decltype(zero)>(a),
                                                                 composed, static_cast<int>(count));
  });
  check(cudaGetLastError(), "an exchange of rows");
}

void solve_triangle(Storage storage, const View& triangle, Diag diag, const View& b,
                    cudaStream_t stream) {
  if (b.rows == 0 || b.cols == 0) return;
  // With u^H for a lower triangle, and with x^H for an x on its left.
  const bool on_left = diag == Diag::unit || triangle.fill == Fill::upper;
  const bool by_rows = triangle.fill == Fill::upper;
  with_element(storage, [&](auto zero) {
    using T = decltype(zero);
    const Equations<T> in{.l = static_cast<const T*>(triangle.data),
                          .l_row = by_rows ? triangle.ld : 1,
                          .l_col = by_rows ? 1 : triangle.ld,
                          .b = static_cast<T*>(b.data),
                          .b_row = on_left ? 1 : b.ld,
                          .b_col = on_left ? b.ld : 1,
                          .order = static_cast<int>(triangle.rows),
                          .count = on_left ? b.cols : b.rows,
                          .unit = diag == Diag::unit,
                          .conjugates_l = by_rows,
                          .conjugates_b = !on_left};
    const auto blocks =
        static_cast<unsigned>(ceil_div(in.count, std::int64_t{kSolvingWarps} * kColumnsOfWarp));
    solve_lower<T><<<blocks, kSolvingThreads, 0, stream>>>(in);
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
