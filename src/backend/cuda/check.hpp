// SPDX-License-Identifier: BSD-3-Clause
// check.hpp: CUDA's error codes as Errors, and the caller's current device left as it was. It
// must not know what is called.
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

/// The current device belongs to the calling thread, and so to the program: it is put back.
class DeviceScope {
 public:
  DeviceScope() {
    if (!works(cudaGetDevice(&before_))) before_ = -1;
  }
  explicit DeviceScope(int ordinal) : DeviceScope() { use(ordinal); }
  ~DeviceScope() {
    if (before_ >= 0 && now_ != before_ && now_ >= 0) works(cudaSetDevice(before_));
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

  void use(int ordinal) {
    if (ordinal == now_) return;
    check(cudaSetDevice(ordinal), "cudaSetDevice");
    now_ = ordinal;
  }

  /// As use(), for those who have to go on: false if the device does not become the current one.
  bool try_use(int ordinal) {
    if (ordinal != now_ && works(cudaSetDevice(ordinal))) now_ = ordinal;
    return ordinal == now_;
  }

 private:
  int before_ = -1;
  int now_ = -1;
};

}  // namespace fleet::cuda
