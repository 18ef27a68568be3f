// SPDX-License-Identifier: BSD-3-Clause
// native.hpp: keeps cuBLAS's products native where the environment asks it for emulated or
// rounded ones. It knows types, not launches.
#pragma once
#include <cublas_v2.h>

#include "problem/problem.hpp"

namespace fleet::cuda {

/// How elements lie in memory.
cudaDataType_t stored_as(Storage storage);

/// The functions of cuBLAS that set how it may compute.
struct MathFunctions {
  decltype(&cublasSetMathMode) set_math_mode = nullptr;
  /// Takes a cublasEmulationStrategy_t, which older headers lack. nullptr: the library is older
  /// than its emulation of doubles.
  cublasStatus_t (*set_emulation_strategy)(cublasHandle_t, int) = nullptr;
};
MathFunctions find_math_functions(void* library);

/// Variables of the environment let cuBLAS multiply floats as halves or TF32, and doubles as
/// integers. Results would then depend on them without the caller's knowledge. Without such
/// variables nothing here has any effect.
class NativeMath {
 public:
  /// `emulation_is_asked`: environment_changes_cublas(). `capability` of the device: 90 for 9.0.
  NativeMath(MathFunctions functions, bool emulation_is_asked, int capability);

  /// Once for each handle.
  cublasStatus_t set_up(cublasHandle_t handle) const;
  /// The compute type for cublasGemmEx.
  cublasComputeType_t compute_type(DataType type) const;
  /// Before routines that take no compute type.
  cublasStatus_t set_mode(cublasHandle_t handle, DataType type) const;

 private:
  bool is_pedantic(DataType type) const;

  MathFunctions functions_;
  bool emulation_is_asked_;
  int capability_;
};

}  // namespace fleet::cuda
