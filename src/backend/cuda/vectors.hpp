// SPDX-License-Identifier: BSD-3-Clause
// vectors.hpp: gemv, axpy and dot by cuBLAS. It must not know plans.
#pragma once
#include <cublas_v2.h>

#include "run/launch.hpp"

namespace fleet::cuda {

/// The vector functions of one libcublas.
struct VectorFunctions {
  decltype(&cublasSgemv_64) sgemv = nullptr;
  decltype(&cublasDgemv_64) dgemv = nullptr;
  decltype(&cublasCgemv_64) cgemv = nullptr;
  decltype(&cublasZgemv_64) zgemv = nullptr;
  decltype(&cublasSaxpy_64) saxpy = nullptr;
  decltype(&cublasDaxpy_64) daxpy = nullptr;
  decltype(&cublasCaxpy_64) caxpy = nullptr;
  decltype(&cublasZaxpy_64) zaxpy = nullptr;
  decltype(&cublasSdot_64) sdot = nullptr;
  decltype(&cublasDdot_64) ddot = nullptr;
  decltype(&cublasCdotu_64) cdotu = nullptr;
  decltype(&cublasCdotc_64) cdotc = nullptr;
  decltype(&cublasZdotu_64) zdotu = nullptr;
  decltype(&cublasZdotc_64) zdotc = nullptr;
  decltype(&cublasSetPointerMode_v2) set_pointer_mode = nullptr;
};

/// Throws Error(unsupported) naming what the library lacks.
VectorFunctions find_vector_functions(void* library);

/// Kernel::gemv, axpy or dot on the handle's stream, which is `stream`.
/// `scratch` has room for one element on its device. Throws Error(device_failed).
void multiply_vectors(const VectorFunctions& functions, cublasHandle_t handle, const Launch& launch,
                      void* scratch, cudaStream_t stream);

}  // namespace fleet::cuda
