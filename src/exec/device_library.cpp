// SPDX-License-Identifier: BSD-3-Clause
// device_library.cpp: loads libfleetblas_cuda.so from beside this library. It knows no CUDA.
#include "exec/device_library.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.hpp"

namespace fleet {
namespace {

constexpr const char* kFile = "libfleetblas_cuda.so";

/// Beside this library; in the build tree, where this may be a test program, in lib/.
std::string path_beside_this() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&path_beside_this), &info) == 0 || info.dli_fname == nullptr)
    return kFile;
  std::error_code error;
  const auto folder = std::filesystem::canonical(info.dli_fname, error).parent_path();
  if (error) return kFile;
  for (const auto& path : {folder / kFile, folder.parent_path() / "lib" / kFile})
    if (std::filesystem::exists(path, error)) return path.string();
  return (folder / kFile).string();
}

const DeviceLibrary& load() {
  const std::string path = path_beside_this();
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw Error(Status::unsupported, std::string("no CUDA backend: ") + dlerror());
  using Entry = const DeviceLibrary* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(library, kDeviceLibrarySymbol));
  const DeviceLibrary* found = entry != nullptr ? entry() : nullptr;
  if (found == nullptr || found->version != kDeviceLibraryVersion)
    throw Error(Status::unsupported, path + " belongs to another version of this library");
  return *found;
}

}  // namespace

bool may_have_gpus() {
  for (const char* file : {"/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg", "/dev/nvhost-gpu"})
    if (access(file, F_OK) == 0) return access(path_beside_this().c_str(), R_OK) == 0;
  return false;
}

bool program_uses_gpus() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver != nullptr) dlclose(driver);
  return driver != nullptr;
}

const DeviceLibrary& device_library() {
  static const DeviceLibrary& library = load();
  return library;
}

}  // namespace fleet
