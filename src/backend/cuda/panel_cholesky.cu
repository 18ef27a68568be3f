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

/// Thread (x, y) has every 32nd row and column from (x, y). A lower triangle is factored; an upper
/// one is turned round on its way in and out. A step has one barrier: the column before its scaling
/// goes to one of two places, and every thread scales what it needs of it.
template <typename T, int Each>
__global__ void __launch_bounds__(kEdge* kEdge) cholesky(Triangle<T> in) {
  __shared__ T columns[2][kEdge * Each];
  if (*in.info != 0) return;
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const auto address = [&](int row, int col) {
    return in.a + (in.lower ? row + col * in.ld : col + row * in.ld);
  };
  T mine[Each][Each];
#pragma unroll
  for (int r = 0; r < Each; ++r)
#pragma unroll
    for (int c = 0; c < Each; ++c) {
      const int row = x + r * kEdge, col = y + c * kEdge;
      mine[r][c] = T{};
      if (row < col || row >= in.order) continue;
      const T value = *address(row, col);
      mine[r][c] = in.lower ? value : conjugate(value);
    }
  int failed = 0;
#pragma unroll
  for (int group = 0; group < Each; ++group) {
    const int steps = failed != 0 ? 0 : min(kEdge, in.order - group * kEdge);
    for (int step = 0; step < steps; ++step) {
      const int current = group * kEdge + step;
      T* column = columns[step % 2];
      if (y == step)
#pragma unroll
        for (int r = group; r < Each; ++r) column[x + r * kEdge] = mine[r][group];
      __syncthreads();
      const RealOf<T> top = real_of(column[current]);
      if (!(top > 0)) {
        failed = current + 1;
        break;
      }
      const RealOf<T> scale = inverse_root(top);
      T left[Each];
#pragma unroll
      for (int r = group; r < Each; ++r) {
        left[r] = product(scale, column[x + r * kEdge]);
        if (y != step || x + r * kEdge < current) continue;
        mine[r][group] = x + r * kEdge == current ? element_of<T>(sqrt(top), 0) : left[r];
      }
#pragma unroll
      for (int c = group; c < Each; ++c) {
        if (y + c * kEdge <= current) continue;
        const T above = conjugate(product(scale, column[y + c * kEdge]));
#pragma unroll
        for (int r = c; r < Each; ++r) mine[r][c] = minus_product(mine[r][c], left[r], above);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < Each; ++r)
#pragma unroll
    for (int c = 0; c < Each; ++c) {
      const int row = x + r * kEdge, col = y + c * kEdge;
      if (row >= col && row < in.order)
        *address(row, col) = in.lower ? mine[r][c] : conjugate(mine[r][c]);
    }
  if (failed != 0 && x == 0 && y == 0) *in.info = in.row + failed;
}

}  // namespace

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
    cholesky<T, kEach><<<1, dim3(kEdge, kEdge), 0, stream>>>(in);
  });
  check(cudaGetLastError(), "the Cholesky factor of a block");
}

}  // namespace fleet::cuda
