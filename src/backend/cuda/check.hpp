// SPDX-License-Identifier: BSD-3-Clause
// check.hpp: CUDA's error codes as Errors. It must not know what is called.
#pragma once
#include <cuda_runtime.h>

#include <string>

#include "base/error.hpp"

namespace fleet::cuda {

/// Throws Error(no_memory, device_failed).
[[noreturn]] inline void fail(cudaError_t code, const char* what) {
  const Status status =
      code == cudaErrorMemoryAllocation ? Status::no_memory : Status::device_failed;
  throw Error(status, std::string(what) + ": " + cudaGetErrorString(code));
}

/// Throws Error(no_memory, device_failed). Clears the code, which the host program's next CUDA call
/// would report otherwise.
inline void check(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  cudaGetLastError();
  fail(code, what);
}

/// True if it worked; clears the code otherwise.
inline bool works(cudaError_t code) {
  if (code == cudaSuccess) return true;
  cudaGetLastError();
  return false;
}

}  // namespace fleet::cuda
