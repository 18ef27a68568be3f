// SPDX-License-Identifier: BSD-3-Clause
// fake_cublas.cpp: a libcublas that multiplies on the CPU, at once, for fake_runtime.cpp. It has
// the names that the backend looks for, and of the routines only gemm.
#include <library_types.h>

#include <atomic>
#include <chrono>
#include <complex>
#include <cstdlib>
#include <optional>
#include <thread>

#include "cpu/plain_gemm.hpp"

namespace {

using fleet::Op;
using fleet::Storage;

constexpr int kSuccess = 0, kNotSupported = 15;

std::atomic<bool> is_gone{false};  ///< what its calls use

std::optional<Storage> storage_of(cudaDataType type) {
  switch (type) {
    case CUDA_R_32F:
      return Storage::f32;
    case CUDA_R_64F:
      return Storage::f64;
    case CUDA_C_32F:
      return Storage::c32;
    case CUDA_C_64F:
      return Storage::c64;
    case CUDA_R_16F:
      return Storage::f16;
    case CUDA_R_16BF:
      return Storage::bf16;
    default:
      return std::nullopt;
  }
}

std::complex<double> scalar_of(Storage storage, const void* factor) {
  switch (storage) {
    case Storage::f64:
      return *static_cast<const double*>(factor);
    case Storage::c32:
      return *static_cast<const std::complex<float>*>(factor);
    case Storage::c64:
      return *static_cast<const std::complex<double>*>(factor);
    default:
      return *static_cast<const float*>(factor);
  }
}

fleet::View view_of(const void* data, Op op, std::int64_t rows, std::int64_t cols,
                    std::int64_t ld) {
  if (op != Op::none) std::swap(rows, cols);
  return {.data = const_cast<void*>(data), .rows = rows, .cols = cols, .ld = ld};
}

}  // namespace

extern "C" {

/// As cuBLAS, the first call says what is to be done at the end of the process. It takes its time.
int cublasCreate_v2(void** handle) {
  static int one = 0;
  static const bool begun [[maybe_unused]] = [] {
    std::atexit([] { is_gone = true; });
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    return true;
  }();
  return *handle = &one, kSuccess;
}
int cublasDestroy_v2(void* /*handle*/) { return kSuccess; }
int cublasGetVersion_v2(void* /*handle*/, int* version) { return *version = 130000, kSuccess; }
int cublasSetStream_v2(void* /*handle*/, void* /*stream*/) { return kSuccess; }
int cublasSetWorkspace_v2(void* /*handle*/, void* /*data*/, std::size_t /*bytes*/) {
  return kSuccess;
}
int cublasSetPointerMode_v2(void* /*handle*/, int /*mode*/) { return kSuccess; }

int cublasGemmEx_64(void* /*handle*/, int op_a, int op_b, std::int64_t m, std::int64_t n,
                    std::int64_t k, const void* alpha, const void* a, cudaDataType type,
                    std::int64_t lda, const void* b, cudaDataType /*type_b*/, std::int64_t ldb,
                    const void* beta, void* c, cudaDataType /*type_c*/, std::int64_t ldc,
                    int /*compute*/, int /*algorithm*/) {
  const auto storage = storage_of(type);
  if (!storage) return kNotSupported;
  constexpr Op kOps[] = {Op::none, Op::transpose, Op::conjugate};  // as cuBLAS numbers them
  fleet::Launch launch{.type = {.storage = *storage},
                       .op_a = kOps[op_a],
                       .op_b = kOps[op_b],
                       .alpha = scalar_of(*storage, alpha),
                       .beta = scalar_of(*storage, beta)};
  launch.a = view_of(a, launch.op_a, m, k, lda);
  launch.b = view_of(b, launch.op_b, k, n, ldb);
  launch.c = view_of(c, Op::none, m, n, ldc);
  if (is_gone) std::abort();
  fleet::plain_gemm(launch);
  return kSuccess;
}

#define FAKE_MISSING(name) \
  int name() { return kNotSupported; }
#define FAKE_OF_TYPES(routine)   \
  FAKE_MISSING(cublasS##routine) \
  FAKE_MISSING(cublasD##routine) \
  FAKE_MISSING(cublasC##routine) \
  FAKE_MISSING(cublasZ##routine)
FAKE_OF_TYPES(symm_v2_64)
FAKE_OF_TYPES(syrk_v2_64)
FAKE_OF_TYPES(syrkx_64)
FAKE_OF_TYPES(trmm_v2_64)
FAKE_OF_TYPES(trsm_v2_64)
FAKE_OF_TYPES(gemv_v2_64)
FAKE_OF_TYPES(axpy_v2_64)
FAKE_MISSING(cublasChemm_v2_64)
FAKE_MISSING(cublasZhemm_v2_64)
FAKE_MISSING(cublasCherk_v2_64)
FAKE_MISSING(cublasZherk_v2_64)
FAKE_MISSING(cublasCherkx_64)
FAKE_MISSING(cublasZherkx_64)
FAKE_MISSING(cublasSdot_v2_64)
FAKE_MISSING(cublasDdot_v2_64)
FAKE_MISSING(cublasCdotu_v2_64)
FAKE_MISSING(cublasCdotc_v2_64)
FAKE_MISSING(cublasZdotu_v2_64)
FAKE_MISSING(cublasZdotc_v2_64)

}  // extern "C"
