// SPDX-License-Identifier: BSD-3-Clause
// device_scope.hpp: the calling thread belongs to the program, so what CUDA keeps of it is put
// back. It must not know what is called.
#pragma once
#include <cuda.h>

namespace fleet::cuda {

/// Makes devices current in this thread for as long as it lives. Then the thread has the context
/// again that it had before, which may be one that the program made itself, or none: to go back
/// with cudaSetDevice would make a context on a device that nobody uses.
/// Meanwhile what CUDA forbids beside a capture, like memory to be allocated, is allowed in this
/// thread, and does not break a capture of the program that is under way in another one.
/// Ends in the thread that it began in.
class DeviceScope {
 public:
  DeviceScope();
  /// Throws Error(device_failed, no_memory).
  explicit DeviceScope(int ordinal) : DeviceScope() { use(ordinal); }
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

  /// Throws Error(device_failed, no_memory).
  void use(int ordinal);
  /// As use(), for those who have to go on: false if the device does not become the current one.
  bool try_use(int ordinal);

 private:
  CUcontext before_ = nullptr;
  CUstreamCaptureMode mode_before_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  bool is_known_ = false;  ///< whether before_ is
  bool has_mode_ = false;  ///< whether mode_before_ was exchanged
  int now_ = -1;
};

/// Makes a device current in one of our own threads, which needs nothing back. Throws
/// Error(device_failed, no_memory).
void keep_device(int ordinal);

/// Keeps the context of a device for the process, and makes it where there is none, which takes
/// tenths of a second. Threads may do so side by side. Whoever uses the device learns of a failure.
void retain_context(int ordinal);
/// Gives it back. Nobody uses the device any more.
void release_context(int ordinal);

}  // namespace fleet::cuda
