// SPDX-License-Identifier: BSD-3-Clause
// cuda_kernels.cu: add and scale. It must not know plans.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <complex>

#include "exec/cuda_check.hpp"
#include "exec/cuda_kernels.hpp"

namespace fleet::cuda {
namespace {

constexpr int kThreads = 256;
/// Enough to keep the memory of the largest GPUs busy; each thread takes rows in strides.
constexpr std::int64_t kMostRowBlocks = 64;
constexpr std::int64_t kMostColumnBlocks = 65535;

template <typename Real>
struct Complex {
  Real re, im;
};

__device__ float times(float beta, float x) { return beta * x; }
__device__ double times(double beta, double x) { return beta * x; }
template <typename Real>
__device__ Complex<Real> times(Complex<Real> beta, Complex<Real> x) {
  return {beta.re * x.re - beta.im * x.im, beta.re * x.im + beta.im * x.re};
}
__device__ float plus(float a, float b) { return a + b; }
__device__ double plus(double a, double b) { return a + b; }
template <typename Real>
__device__ Complex<Real> plus(Complex<Real> a, Complex<Real> b) {
  return {a.re + b.re, a.im + b.im};
}

/// Element is what lies in memory, Wide what is computed with.
template <typename Element, typename Wide>
__global__ void add_kernel(Wide beta, const Element* a, std::int64_t lda, Element* c,
                           std::int64_t ldc, std::int64_t rows, std::int64_t cols) {
  for (std::int64_t j = blockIdx.y; j < cols; j += gridDim.y)
    for (std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x; i < rows;
         i += gridDim.x * std::int64_t{kThreads})
      c[i + j * ldc] = Element(plus(Wide(c[i + j * ldc]), times(beta, Wide(a[i + j * lda]))));
}

template <typename Element, typename Wide>
__global__ void scale_kernel(Wide beta, bool clear, Element* c, std::int64_t ldc, std::int64_t rows,
                             std::int64_t cols) {
  for (std::int64_t j = blockIdx.y; j < cols; j += gridDim.y)
    for (std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x; i < rows;
         i += gridDim.x * std::int64_t{kThreads})
      c[i + j * ldc] = clear ? Element{} : Element(times(beta, Wide(c[i + j * ldc])));
}

template <typename Element, typename Wide>
void run(const Launch& launch, Wide beta, cudaStream_t stream) {
  const std::int64_t rows = launch.c.rows, cols = launch.c.cols;
  if (rows == 0 || cols == 0) return;
  const dim3 grid(static_cast<unsigned>(std::min((rows + kThreads - 1) / kThreads, kMostRowBlocks)),
                  static_cast<unsigned>(std::min(cols, kMostColumnBlocks)));
  auto* c = static_cast<Element*>(launch.c.data);
  if (launch.kernel == Kernel::add)
    add_kernel<Element, Wide><<<grid, kThreads, 0, stream>>>(
        beta, static_cast<const Element*>(launch.a.data), launch.a.ld, c, launch.c.ld, rows, cols);
  else
    scale_kernel<Element, Wide><<<grid, kThreads, 0, stream>>>(
        beta, launch.beta == std::complex<double>(0), c, launch.c.ld, rows, cols);
  check(cudaGetLastError(), launch.kernel == Kernel::add ? "add" : "scale");
}

}  // namespace

void stream_through(const Launch& launch, cudaStream_t stream) {
  const double re = launch.beta.real(), im = launch.beta.imag();
  const auto narrow = static_cast<float>(re);
  switch (launch.type) {
    case DataType::f64:
      return run<double>(launch, re, stream);
    case DataType::f32:
    case DataType::tf32:
      return run<float>(launch, narrow, stream);
    case DataType::c64:
      return run<Complex<double>>(launch, Complex<double>{re, im}, stream);
    case DataType::c32:
      return run<Complex<float>>(launch, Complex<float>{narrow, static_cast<float>(im)}, stream);
    case DataType::f16:
      return run<__half>(launch, narrow, stream);
    case DataType::bf16:
      return run<__nv_bfloat16>(launch, narrow, stream);
  }
}

}  // namespace fleet::cuda
