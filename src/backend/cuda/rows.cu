// SPDX-License-Identifier: BSD-3-Clause
// rows.cu: rows of a matrix, to and from where they lie one after another. It must not know plans.
#include <algorithm>
#include <cstdint>

#include "backend/cuda/check.hpp"
#include "backend/cuda/elementwise.hpp"
#include "backend/cuda/scalars.cuh"
#include "base/sizes.hpp"

namespace fleet::cuda {
namespace {

/// Squares of so many rows and columns are turned in shared memory: threads beside each other have
/// rows of the matrix, which are often neighbours, on one side, and elements of a packed row on the
/// other.
constexpr int kEdge = 32, kHeight = 8;
constexpr std::int64_t kMostBlocks = 1024;

/// Columns of packed rows lie `ld` apart.
template <typename T>
__global__ void __launch_bounds__(kEdge* kHeight)
    move_squares(T* matrix, std::int64_t matrix_ld, const RowNumber* rows, std::int64_t count,
                 T* packed, std::int64_t ld, std::int64_t cols, bool packs) {
  __shared__ T square[kEdge][kEdge + 1];
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  for (std::int64_t row = std::int64_t{blockIdx.y} * kEdge; row < count;
       row += std::int64_t{gridDim.y} * kEdge)
    for (std::int64_t col = std::int64_t{blockIdx.x} * kEdge; col < cols;
         col += std::int64_t{gridDim.x} * kEdge) {
      T* const own = row + x < count ? matrix + rows[row + x] - 1 : nullptr;
      if (packs) {
        for (int i = y; i < kEdge; i += kHeight)
          if (own != nullptr && col + i < cols) square[i][x] = own[(col + i) * matrix_ld];
        __syncthreads();
        for (int i = y; i < kEdge; i += kHeight)
          if (row + i < count && col + x < cols) packed[col + x + (row + i) * ld] = square[x][i];
      } else {
        for (int i = y; i < kEdge; i += kHeight)
          if (row + i < count && col + x < cols) square[x][i] = packed[col + x + (row + i) * ld];
        __syncthreads();
        for (int i = y; i < kEdge; i += kHeight)
          if (own != nullptr && col + i < cols) own[(col + i) * matrix_ld] = square[i][x];
      }
      __syncthreads();
    }
}

template <typename T>
void run(const Launch& launch, cudaStream_t stream) {
  const bool packs = launch.kernel == Kernel::pack;
  const View &matrix = packs ? launch.a : launch.c, &packed = packs ? launch.c : launch.a;
  const auto blocks = [](std::int64_t size) {
    return static_cast<unsigned>(std::min(ceil_div(size, std::int64_t{kEdge}), kMostBlocks));
  };
  move_squares<<<dim3(blocks(packed.rows), blocks(packed.cols)), dim3(kEdge, kHeight), 0, stream>>>(
      static_cast<T*>(matrix.data), matrix.ld, static_cast<const RowNumber*>(launch.b.data),
      packed.cols, static_cast<T*>(packed.data), packed.ld, packed.rows, packs);
}

}  // namespace

void move_rows(const Launch& launch, cudaStream_t stream) {
  const View& packed = launch.kernel == Kernel::pack ? launch.c : launch.a;
  if (packed.rows == 0 || packed.cols == 0) return;
  switch (launch.type.storage) {
    case Storage::f32:
      run<float>(launch, stream);
      break;
    case Storage::c32:
      run<Complex<float>>(launch, stream);
      break;
    case Storage::c64:
      run<Complex<double>>(launch, stream);
      break;
    default:
      run<double>(launch, stream);
  }
  check(cudaGetLastError(), "the kernel that moves rows");
}

}  // namespace fleet::cuda
