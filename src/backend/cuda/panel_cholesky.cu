// SPDX-License-Identifier: BSD-3-Clause
// panel_cholesky.cu: the Cholesky factor of a triangle that one thread block keeps in its
// registers. It knows no recursion.
#include "backend/cuda/check.hpp"
#include "backend/cuda/panel_grid.cuh"
#include "backend/cuda/panel_kernels.hpp"

namespace fleet::cuda {
namespace {

constexpr int kEdge = 32;

__device__ float inverse_root(float x) { return 1 / sqrtf(x); }
__device__ double inverse_root(double x) { return rsqrt(x); }

template <typename T>
struct Triangle {
  T* a;
  std::int64_t ld;
  int order;
  bool lower;
  std::int32_t row;
  std::int32_t* info;
};

constexpr int kWarps = 8;
/// Columns of a group, and rows of the shared memory in which they are factored: one apart, so that
/// lanes with a row each do not meet in a bank.
constexpr int kGroup = kEdge, kPitch = kGroup + 1;

template <typename T, int Each>
struct Group {
  T values[kEdge * Each * kPitch];  ///< by rows
  RealOf<T> reciprocals[kGroup];    ///< of the diagonal
  int failed;
};

/// The square of a group by one warp, with a row in each lane. Returns the 1-based column that has
/// no root, or 0.
template <typename T>
__device__ int factor_square(T* square, int steps, RealOf<T>* reciprocals) {
  const int lane = static_cast<int>(threadIdx.x);
  T row[kGroup];
#pragma unroll
  for (int k = 0; k < kGroup; ++k) row[k] = square[lane * kPitch + k];
  int failed = 0;
#pragma unroll
  for (int step = 0; step < kGroup; ++step) {
    if (step >= steps || failed != 0) continue;
    const RealOf<T> top = real_of(from_lane(row[step], step));
    if (!(top > 0)) {
      failed = step + 1;
      continue;
    }
    const RealOf<T> scale = inverse_root(top);
    row[step] = lane == step ? element_of<T>(sqrt(top), 0) : product(scale, row[step]);
    if (lane == step) reciprocals[step] = scale;
#pragma unroll
    for (int k = step + 1; k < kGroup; ++k)
      row[k] = minus_product(row[k], row[step], conjugate(from_lane(row[step], k)));
  }
#pragma unroll
  for (int k = 0; k < kGroup; ++k)
    if (k <= lane) square[lane * kPitch + k] = row[k];
  return failed;
}

/// A row below the square, in each lane of a warp.
template <typename T>
__device__ void solve_row(const T* square, const RealOf<T>* reciprocals, T* at) {
  T row[kGroup];
#pragma unroll
  for (int k = 0; k < kGroup; ++k) row[k] = at[k];
#pragma unroll
  for (int step = 0; step < kGroup; ++step) {
    row[step] = product(reciprocals[step], row[step]);
#pragma unroll
    for (int k = step + 1; k < kGroup; ++k)
      row[k] = minus_product(row[k], row[step], conjugate(square[k * kPitch + step]));
  }
#pragma unroll
  for (int k = 0; k < kGroup; ++k) at[k] = row[k];
}

/// Thread (x, y) has every 32nd row from x and every 8th column from y. A lower triangle is
/// factored; an upper one is turned round on its way in and out. 32 columns at a time go to shared
/// memory, where one warp factors their square and others the rows below, and from there to their
/// place and into what is right of them.
template <typename T, int Each>
__global__ void __launch_bounds__(kEdge* kWarps, 1) cholesky(Triangle<T> in) {
  __shared__ Group<T, Each> group;
  constexpr int kColumns = kEdge / kWarps;
  if (*in.info != 0) return;
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const auto address = [&](int row, int col) {
    return in.a + (in.lower ? row + col * in.ld : col + row * in.ld);
  };
  T mine[Each][Each * kColumns];
#pragma unroll
  for (int c = 0; c < Each * kColumns; ++c)
#pragma unroll
    for (int r = c / kColumns; r < Each; ++r) {
      const int row = x + r * kEdge, col = y + c * kWarps;
      mine[r][c] = T{};
      if (row < col || row >= in.order) continue;
      const T value = *address(row, col);
      mine[r][c] = in.lower ? value : conjugate(value);
    }
#pragma unroll
  for (int g = 0; g < Each; ++g) {
    const int begin = g * kGroup, steps = min(kGroup, in.order - begin);
    if (steps <= 0) break;
    T* square = group.values + begin * kPitch;
#pragma unroll
    for (int c = 0; c < kColumns; ++c)
#pragma unroll
      for (int r = g; r < Each; ++r)
        group.values[(x + r * kEdge) * kPitch + y + c * kWarps] = mine[r][g * kColumns + c];
    __syncthreads();
    if (y == 0) {
      const int failed = factor_square<T>(square, steps, group.reciprocals);
      if (x == 0) group.failed = failed;
    }
    __syncthreads();
    if (group.failed != 0) {
      if (x == 0 && y == 0) *in.info = in.row + begin + group.failed;
      break;
    }
    if (begin + kGroup + y * kEdge < in.order)
      solve_row<T>(square, group.reciprocals,
                   group.values + (begin + kGroup + y * kEdge + x) * kPitch);
    __syncthreads();
    for (int c = y; c < steps; c += kWarps)
#pragma unroll
      for (int r = g; r < Each; ++r) {
        const int row = x + r * kEdge;
        const T value = group.values[row * kPitch + c];
        if (row >= begin + c && row < in.order)
          *address(row, begin + c) = in.lower ? value : conjugate(value);
      }
    if (g + 1 == Each) break;
#pragma unroll 4
    for (int k = 0; k < kGroup; ++k) {
      T left[Each];
#pragma unroll
      for (int r = g + 1; r < Each; ++r) left[r] = group.values[(x + r * kEdge) * kPitch + k];
#pragma unroll
      for (int c = (g + 1) * kColumns; c < Each * kColumns; ++c) {
        const T above = conjugate(group.values[(y + c * kWarps) * kPitch + k]);
#pragma unroll
        for (int r = c / kColumns; r < Each; ++r)
          mine[r][c] = minus_product(mine[r][c], left[r], above);
      }
    }
    __syncthreads();
  }
}

/// One warp looks at 32 elements at a time, and ends with the first that is no positive number.
template <typename T>
__global__ void __launch_bounds__(kEdge)
    find_root(const T* a, std::int64_t ld, int order, std::int32_t* info) {
  const int lane = static_cast<int>(threadIdx.x), known = *info;
  const int end = known > 0 ? min(order, known - 1) : order;
  for (int begin = 0; begin < end; begin += kEdge) {
    const int i = begin + lane;
    const bool fails = i < end && !(real_of(a[i + i * ld]) > 0);
    const unsigned failing = __ballot_sync(~0u, fails);
    if (failing == 0) continue;
    if (lane == 0) *info = begin + __ffs(static_cast<int>(failing));
    return;
  }
}

}  // namespace

void find_failed_root(Storage storage, const View& a, std::int32_t* info, cudaStream_t stream) {
  with_element(storage, [&](auto zero) {
    using T = decltype(zero);
    find_root<T><<<1, kEdge, 0, stream>>>(static_cast<const T*>(a.data), a.ld,
                                          static_cast<int>(a.rows), info);
  });
  check(cudaGetLastError(), "the diagonal of a Cholesky factor");
}

void factor_block(Storage storage, const View& a, std::int32_t row, std::int32_t* info,
                  cudaStream_t stream) {
  with_element(storage, [&](auto zero) {
    using T = decltype(zero);
    constexpr int kEach = (sizeof(T) == 16 ? 64 : 128) / kEdge;
    const Triangle<T> in{.a = static_cast<T*>(a.data),
                         .ld = a.ld,
                         .order = static_cast<int>(a.rows),
                         .lower = a.fill == Fill::lower,
                         .row = row,
                         .info = info};
    cholesky<T, kEach><<<1, dim3(kEdge, kWarps), 0, stream>>>(in);
  });
  check(cudaGetLastError(), "the Cholesky factor of a block");
}

}  // namespace fleet::cuda
