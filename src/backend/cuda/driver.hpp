// SPDX-License-Identifier: BSD-3-Clause
// driver.hpp: functions of CUDA's driver, which the runtime finds: nothing links to the driver. It
// must not know what they are for.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>

#include "backend/cuda/check.hpp"

namespace fleet::cuda {

/// The function of this name, of the type `Function` (a pointer), as of CUDA 12.0; nullptr: this
/// driver has none, or fails.
template <class Function>
Function driver_function(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const bool is_known =
      works(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found));
  return is_known && found == cudaDriverEntryPointSuccess ? reinterpret_cast<Function>(function)
                                                          : nullptr;
}

inline bool works(CUresult code) { return code == CUDA_SUCCESS; }
/// As check() of the runtime's codes, which these equal. The driver leaves none to be cleared.
inline void check(CUresult code, const char* what) {
  if (!works(code)) fail(static_cast<cudaError_t>(code), what);
}

}  // namespace fleet::cuda
