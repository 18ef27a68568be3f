// SPDX-License-Identifier: BSD-3-Clause
// factoring_kernels.cu: one thread for each element of a copy, one block for each small factor.
#include <cuda_fp16.h>

#include <algorithm>

#include "backend/cuda/check.hpp"
#include "backend/cuda/factoring_kernels.hpp"
#include "backend/cuda/scalars.cuh"

namespace fleet::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostRowBlocks = 64, kMostColumnBlocks = 65535;

template <typename Act>
void with_element(Storage storage, Act act) {
  switch (storage) {
    case Storage::f32:
      return act(float{});
    case Storage::f64:
      return act(double{});
    case Storage::c32:
      return act(Complex<float>{});
    default:
      return act(Complex<double>{});
  }
}

/// Calls each(row, col) for the elements of a shape.
template <typename Each>
__global__ void for_each(std::int64_t rows, std::int64_t cols, Each each) {
  for (std::int64_t col = blockIdx.y; col < cols; col += gridDim.y)
    for (std::int64_t row = blockIdx.x * std::int64_t{kThreads} + threadIdx.x; row < rows;
         row += std::int64_t{gridDim.x} * kThreads)
      each(row, col);
}

template <typename Each>
void launch_for_each(std::int64_t rows, std::int64_t cols, Each each, cudaStream_t stream,
                     const char* what) {
  if (rows <= 0 || cols <= 0) return;
  const dim3 grid(static_cast<unsigned>(std::min((rows + kThreads - 1) / kThreads, kMostRowBlocks)),
                  static_cast<unsigned>(std::min(cols, kMostColumnBlocks)));
  for_each<<<grid, kThreads, 0, stream>>>(rows, cols, each);
  check(cudaGetLastError(), what);
}

struct Split {
  const float* from;
  std::int64_t ld_from;
  float factor;
  __half *first, *second;
  std::int64_t ld;
  __device__ void operator()(std::int64_t row, std::int64_t col) const {
    const float value = from[row + col * ld_from] * factor;
    const __half rounded = __float2half_rn(value);
    first[row + col * ld] = rounded;
    second[row + col * ld] = __float2half_rn((value - __half2float(rounded)) * Panel::kSecond);
  }
};

template <typename T>
struct Copy {
  const T* from;
  std::int64_t ld_from;
  T* to;
  std::int64_t ld_to;
  std::int64_t lowest, highest;  ///< of row - col
  __device__ void operator()(std::int64_t row, std::int64_t col) const {
    if (row - col >= lowest && row - col <= highest)
      to[row + col * ld_to] = from[row + col * ld_from];
  }
};

constexpr std::int64_t kAny = std::int64_t{1} << 62;

void copy_between(Storage storage, const View& from, const View& to, std::int64_t lowest,
                  std::int64_t highest, cudaStream_t stream) {
  with_element(storage, [&](auto zero) {
    using T = decltype(zero);
    launch_for_each(from.rows, from.cols,
                    Copy<T>{static_cast<const T*>(from.data), from.ld, static_cast<T*>(to.data),
                            to.ld, lowest, highest},
                    stream, "a copy of a panel");
  });
}

template <typename T>
struct Diagonal {
  const T* from;
  std::int64_t ld;
  T* to;
  __device__ void operator()(std::int64_t row, std::int64_t) const {
    to[row] = from[row * (ld + 1)];
  }
};

template <typename T>
struct Unit {
  T* a;
  std::int64_t ld;
  bool keeps_below;
  __device__ void operator()(std::int64_t row, std::int64_t col) const {
    if (row > col && keeps_below) return;
    a[row + col * ld] = element_of<T>(row == col ? 1 : 0, 0);
  }
};

void make_unit(Storage storage, const View& square, bool keeps_below, cudaStream_t stream) {
  with_element(storage, [&](auto zero) {
    using T = decltype(zero);
    launch_for_each(square.rows, square.cols,
                    Unit<T>{static_cast<T*>(square.data), square.ld, keeps_below}, stream,
                    "a unit triangle");
  });
}

/// Column j of t is -tau_j * t(0:j, 0:j) * (v^H*v)(0:j, j), and tau_j below.
template <typename T>
__global__ void small_factors(const T* products, std::int64_t ld, const T* tau, T* t,
                              std::int64_t ld_t, std::int64_t order, std::int64_t edge) {
  const std::int64_t begin = blockIdx.x * edge;
  const std::int64_t size = min(edge, order - begin);
  products += begin * (ld + 1);
  t += begin * (ld_t + 1);
  tau += begin;
  const std::int64_t row = threadIdx.x;
  for (std::int64_t col = 0; col < size; ++col) {
    if (row == col) t[row + col * ld_t] = tau[col];
    if (row < col) {
      T sum = element_of<T>(0, 0);
      for (std::int64_t i = row; i < col; ++i)
        sum = minus_product(sum, t[row + i * ld_t], products[i + col * ld]);
      t[row + col * ld_t] = product(tau[col], sum);
    }
    __syncthreads();
  }
}

}  // namespace

void copy_filled(Storage storage, const View& from, const View& to, cudaStream_t stream) {
  copy_between(storage, from, to, from.fill == Fill::lower ? 0 : -kAny,
               from.fill == Fill::upper ? 0 : kAny, stream);
}

void copy_below_diagonal(Storage storage, const View& from, const View& to, cudaStream_t stream) {
  copy_between(storage, from, to, 1, kAny, stream);
}

void copy_diagonal(Storage storage, const View& from, void* to, cudaStream_t stream) {
  with_element(storage, [&](auto zero) {
    using T = decltype(zero);
    launch_for_each(from.rows, 1,
                    Diagonal<T>{static_cast<const T*>(from.data), from.ld, static_cast<T*>(to)},
                    stream, "the diagonal of a block");
  });
}

void make_unit_lower(Storage storage, const View& square, cudaStream_t stream) {
  make_unit(storage, square, true, stream);
}

void make_identity(Storage storage, const View& square, cudaStream_t stream) {
  make_unit(storage, square, false, stream);
}

void split_in_halves(const View& from, float factor, const SplitPlaces& to, cudaStream_t stream) {
  launch_for_each(from.rows, from.cols,
                  Split{static_cast<const float*>(from.data), from.ld, factor,
                        static_cast<__half*>(to.first), static_cast<__half*>(to.second), to.ld},
                  stream, "halves of floats");
}

void make_small_factors(Storage storage, const View& products, const void* tau, std::int64_t edge,
                        const View& t, cudaStream_t stream) {
  with_element(storage, [&](auto zero) {
    using T = decltype(zero);
    const auto blocks = static_cast<unsigned>((t.rows + edge - 1) / edge);
    small_factors<<<blocks, static_cast<unsigned>(edge), 0, stream>>>(
        static_cast<const T*>(products.data), products.ld, static_cast<const T*>(tau),
        static_cast<T*>(t.data), t.ld, t.rows, edge);
  });
  check(cudaGetLastError(), "the factors of reflectors");
}

}  // namespace fleet::cuda
