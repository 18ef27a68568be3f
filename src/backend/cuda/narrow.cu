// SPDX-License-Identifier: BSD-3-Clause
// narrow.cu: a matrix in single precision, and the sizes of its rows, in one pass over it. It must
// not know plans.
#include <cstdint>

#include "backend/cuda/check.hpp"
#include "backend/cuda/elementwise.hpp"
#include "backend/cuda/scalars.cuh"

namespace fleet::cuda {
namespace {

/// A row belongs to one thread, so that its sum has one order. Small blocks spread the rows over
/// all multiprocessors, and many loads of a thread are under way at a time.
constexpr int kThreads = 64;
constexpr int kUnrolled = 16;

__device__ double size_of(double x) { return fabs(x); }
__device__ double size_of(Complex<double> x) { return hypot(x.re, x.im); }
// fmax leaves a NaN out.
__device__ double largest_part(double x) { return fabs(x); }
__device__ double largest_part(Complex<double> x) { return fmax(fabs(x.re), fabs(x.im)); }

// What is beyond single precision is zero: its size says so, and nobody uses the rest.
__device__ float part_of(double x) { return fabs(x) > double{FLT_MAX} ? 0.0f : float(x); }
__device__ float narrowed(double x) { return part_of(x); }
__device__ Complex<float> narrowed(Complex<double> x) { return {part_of(x.re), part_of(x.im)}; }

template <typename Wide, typename Narrow>
__global__ void narrow_rows(const Wide* a, std::int64_t lda, Narrow* c, std::int64_t ldc,
                            std::int64_t rows, std::int64_t cols, double* sums, double* largest,
                            bool is_first) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (row >= rows) return;
  double sum = is_first ? 0 : sums[row], most = is_first ? 0 : largest[row];
#pragma unroll kUnrolled
  for (std::int64_t col = 0; col < cols; ++col) {
    const Wide value = a[row + col * lda];
    c[row + col * ldc] = narrowed(value);
    sum += size_of(value);
    most = fmax(most, largest_part(value));
  }
  sums[row] = sum;
  largest[row] = most;
}

template <typename Wide, typename Narrow>
void run(const Launch& launch, cudaStream_t stream) {
  const View &a = launch.a, &b = launch.b, &c = launch.c;
  auto* const sizes = static_cast<double*>(b.data);
  const auto blocks = static_cast<unsigned>((a.rows + kThreads - 1) / kThreads);
  narrow_rows<<<blocks, kThreads, 0, stream>>>(
      static_cast<const Wide*>(a.data), a.ld, static_cast<Narrow*>(c.data), c.ld, a.rows, a.cols,
      sizes + RowSizes::kSum * b.ld, sizes + RowSizes::kLargest * b.ld, launch.beta == 0.0);
}

}  // namespace

void narrow(const Launch& launch, cudaStream_t stream) {
  if (launch.a.rows == 0) return;
  if (launch.type.storage == Storage::c64)
    run<Complex<double>, Complex<float>>(launch, stream);
  else
    run<double, float>(launch, stream);
  check(cudaGetLastError(), "the kernel that narrows");
}

}  // namespace fleet::cuda
