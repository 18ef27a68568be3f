// SPDX-License-Identifier: BSD-3-Clause
// panel_grid.cuh: the shapes in which a grid keeps narrow columns in the registers of its threads.
// It knows no factorization.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

#include "backend/cuda/check.hpp"
#include "backend/cuda/mail.cuh"
#include "backend/cuda/panel_kernels.hpp"
#include "backend/cuda/scalars.cuh"
#include "base/sizes.hpp"

namespace fleet::cuda {

/// The address of the same row in the next column. The compiler must not compute those of all
/// columns before it needs them: they would take the registers of the elements.
template <typename T>
__device__ T* next_column(T* at, std::int64_t ld) {
  at += ld;
  asm volatile("" : "+l"(at));
  return at;
}

/// Few threads with many elements each: what a warp does for all its rows, such as sums over its
/// lanes, it does seldom.
constexpr int kPanelThreads = 256;
constexpr int kPanelWarps = kPanelThreads / 32;
/// More thread blocks wait longer for each other than they gain.
constexpr int kMostBlocks = 320;
/// Of the elements that a thread keeps: half of the registers that it can have.
constexpr int kKeptBytes = 512;

/// Of a row: wider ones leave no time between exchanges for what they save in products.
constexpr int kWidestBytes = 256;

template <typename T, int Width>
struct GridShape {
  using Element = T;
  static constexpr int kWidth = Width;
  static constexpr int kRows = kKeptBytes / static_cast<int>(sizeof(T)) / Width;
};

inline std::int64_t blocks_of(BaseShape shape, std::int64_t rows) {
  return ceil_div(rows, std::int64_t{shape.rows_of_block});
}

/// Calls `use` with the GridShape of that type and width.
template <typename T, typename Use>
void with_width(int width, Use use) {
  if constexpr (sizeof(T) < 16)
    if (width == 32) return use(GridShape<T, 32>{});
  if (width == 16) return use(GridShape<T, 16>{});
  if (width == 4) return use(GridShape<T, 4>{});
  throw Error(Status::internal, "columns of no known shape");
}

/// Calls `use` with a zero of the type.
template <typename Use>
void with_element(Storage storage, Use use) {
  switch (storage) {
    case Storage::f32:
      return use(float{});
    case Storage::f64:
      return use(double{});
    case Storage::c32:
      return use(Complex<float>{});
    case Storage::c64:
      return use(Complex<double>{});
    default:
      throw Error(Status::internal, "LAPACK defines no factorization for this type");
  }
}

template <typename Use>
void with_shape(Storage storage, BaseShape shape, Use use) {
  with_element(storage, [&](auto zero) { with_width<decltype(zero)>(shape.width, use); });
}

/// `kernel_of(GridShape)`: the kernel, of which the device must have room for a whole grid.
template <typename KernelOf>
BaseShape widest_shape(Storage storage, std::int64_t rows, int widest, KernelOf kernel_of) {
  int device = 0, multiprocessors = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
        "the number of multiprocessors");
  BaseShape found;
  for (const int width : {32, 16, 4}) {
    if (found.width != 0 || (widest > 0 && width > widest && width != 4)) continue;
    if (width * bytes_of(storage) > kWidestBytes) continue;
    with_shape(storage, {.width = width}, [&](auto shape) {
      int each = 0;
      check(
          cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel_of(shape), kPanelThreads, 0),
          "the room for columns");
      const int rows_of_block = kPanelThreads * decltype(shape)::kRows;
      const std::int64_t most =
          std::int64_t{std::min(each * multiprocessors, kMostBlocks)} * rows_of_block;
      if (rows <= most) found = {width, rows_of_block, most};
    });
  }
  return found;
}

}  // namespace fleet::cuda
