// SPDX-License-Identifier: BSD-3-Clause
// device_library.hpp: the door to the library with the CUDA backend, which is loaded when it is
// first needed, so that one build serves machines with and without GPUs. It knows no CUDA.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/options.hpp"
#include "run/backend.hpp"

namespace fleet {

/// Entries of libfleetblas_cuda.so, which is used only where both libraries are of one version.
struct DeviceLibrary {
  int version = 0;
  /// GPUs visible to this process. 0, with the reason in `why`, where there are none or no driver.
  int (*count)(std::string& why) = nullptr;
  /// Those of these GPUs that have room for a context, and for some bytes, now.
  std::vector<int> (*usable)(const std::vector<int>& ids) = nullptr;
  std::unique_ptr<Backend> (*open)(const Options& options, const std::vector<int>& ids) = nullptr;
  /// Driver, and name and identity of each GPU: what measured rates depend on.
  std::string (*identity)(const std::vector<int>& ids) = nullptr;
  /// To be called when the process ends, before any exit handler.
  void (*before_exit)() = nullptr;
};

/// Raised whenever the interface between the two changes, Options and Backend included.
inline constexpr int kDeviceLibraryVersion = 11;
inline constexpr const char* kDeviceLibrarySymbol = "fleet_device_library";

/// Whether there could be a GPU here. Cheap: looks only for the driver's device files, or for the
/// library that the options name. True promises nothing.
bool may_have_gpus(const Options& options);

/// Whether this process has loaded the driver. If not, none of its memory is a device's or pinned.
bool program_uses_gpus();

/// The one that the options name, or the one in the folder of this library; loaded once and for
/// good. Throws Error(unsupported) saying why not.
const DeviceLibrary& device_library(const Options& options);

}  // namespace fleet
