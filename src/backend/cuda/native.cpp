// SPDX-License-Identifier: BSD-3-Clause
// native.cpp: pedantic types and modes, which cuBLAS never emulates. It knows no environment.
#include "backend/cuda/native.hpp"

#include <dlfcn.h>

#include "base/error.hpp"

namespace fleet::cuda {
namespace {

/// CUBLAS_EMULATION_STRATEGY_PERFORMANT: emulation only where it is faster. Said explicitly it
/// overrides CUBLAS_EMULATION_STRATEGY.
constexpr int kWherePerformant = 1;
/// Native doubles are faster than emulated ones there (cuBLAS 13.1, H200), so the strategy alone
/// keeps them, with the same kernels as ever. Pedantic ones take up to a quarter longer and add in
/// another order for some shapes. Elsewhere emulation may be faster: pedantic it is.
constexpr int kHopper = 90;

}  // namespace

cudaDataType_t stored_as(Storage storage) {
  switch (storage) {
    case Storage::f32:
      return CUDA_R_32F;
    case Storage::f64:
      return CUDA_R_64F;
    case Storage::c32:
      return CUDA_C_32F;
    case Storage::c64:
      return CUDA_C_64F;
    case Storage::f16:
      return CUDA_R_16F;
    case Storage::bf16:
      return CUDA_R_16BF;
  }
  throw Error(Status::internal, "cuBLAS has no type for this storage");
}

MathFunctions find_math_functions(void* library) {
  MathFunctions functions;
  functions.set_math_mode =
      reinterpret_cast<decltype(functions.set_math_mode)>(dlsym(library, "cublasSetMathMode"));
  functions.set_emulation_strategy = reinterpret_cast<decltype(functions.set_emulation_strategy)>(
      dlsym(library, "cublasSetEmulationStrategy"));
  return functions;
}

NativeMath::NativeMath(MathFunctions functions, bool emulation_is_asked, int capability)
    : functions_(functions), emulation_is_asked_(emulation_is_asked), capability_(capability) {}

cublasStatus_t NativeMath::set_up(cublasHandle_t handle) const {
  if (!emulation_is_asked_ || functions_.set_emulation_strategy == nullptr)
    return CUBLAS_STATUS_SUCCESS;
  return functions_.set_emulation_strategy(handle, kWherePerformant);
}

/// Half types and TF32 round anyway, and pedantic modes of theirs are many times slower.
bool NativeMath::is_pedantic(DataType type) const {
  if (type.compute != Compute::native) return false;
  switch (type.storage) {
    case Storage::f32:
    case Storage::c32:
      return emulation_is_asked_;
    case Storage::f64:
    case Storage::c64:
      return emulation_is_asked_ && capability_ != kHopper;
    default:
      return false;
  }
}

cublasComputeType_t NativeMath::compute_type(DataType type) const {
  if (type.compute == Compute::tf32) return CUBLAS_COMPUTE_32F_FAST_TF32;
  const bool pedantic = is_pedantic(type);
  switch (type.storage) {
    case Storage::f64:
    case Storage::c64:
      return pedantic ? CUBLAS_COMPUTE_64F_PEDANTIC : CUBLAS_COMPUTE_64F;
    case Storage::f32:
    case Storage::c32:
      return pedantic ? CUBLAS_COMPUTE_32F_PEDANTIC : CUBLAS_COMPUTE_32F;
    case Storage::f16:
    case Storage::bf16:
      return CUBLAS_COMPUTE_32F;
  }
  throw Error(Status::internal, "cuBLAS has no type for this storage");
}

cublasStatus_t NativeMath::set_mode(cublasHandle_t handle, DataType type) const {
  if (!emulation_is_asked_ || functions_.set_math_mode == nullptr) return CUBLAS_STATUS_SUCCESS;
  return functions_.set_math_mode(handle,
                                  is_pedantic(type) ? CUBLAS_PEDANTIC_MATH : CUBLAS_DEFAULT_MATH);
}

}  // namespace fleet::cuda
