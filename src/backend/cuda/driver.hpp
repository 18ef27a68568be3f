// SPDX-License-Identifier: BSD-3-Clause
// driver.hpp: functions of CUDA's driver, which the runtime finds: nothing links to the driver. It
// must not know what they are for.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>

#include "backend/cuda/check.hpp"

namespace fleet::cuda {

/// The function of this name, of the type `Function` (a pointer), as of CUDA 12.0; nullptr: this
/// driver has none.
template <class Function>
Function driver_function(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const bool is_known =
      works(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found));
  return is_known && found == cudaDriverEntryPointSuccess ? reinterpret_cast<Function>(function)
                                                          : nullptr;
}

/// Throws Error(no_memory, device_failed).
inline void check(CUresult code, const char* what) {
  if (code == CUDA_SUCCESS) return;
  throw Error(code == CUDA_ERROR_OUT_OF_MEMORY ? Status::no_memory : Status::device_failed,
              std::string(what) + ": error " + std::to_string(static_cast<int>(code)));
}

inline bool works(CUresult code) { return code == CUDA_SUCCESS; }

}  // namespace fleet::cuda
