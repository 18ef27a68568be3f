// SPDX-License-Identifier: BSD-3-Clause
// device_library.cpp: loads libfleetblas_cuda.so from beside this library. It knows no CUDA.
#include "backend/device_library.hpp"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
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

std::string path_of(const Options& options) {
  return options.device_library.empty() ? path_beside_this() : options.device_library;
}

std::atomic<const DeviceLibrary*> in_use{nullptr};

/// What cuBLAS registers in its first calls for the end of the process is done before the exit
/// handlers that were installed earlier, and takes away what these calls use. Objects of the thread
/// that ends the process go before all handlers: the one of the main thread sees to it.
class BeforeExit {
 public:
  BeforeExit() = default;
  ~BeforeExit() {
    const DeviceLibrary* const library = in_use;
    const bool is_main_thread = syscall(SYS_gettid) == process_;
    if (getpid() != process_ || !is_main_thread) return;  // a fork, or a thread that ends alone
    if (library != nullptr && library->before_exit != nullptr) library->before_exit();
  }
  BeforeExit(const BeforeExit&) = delete;
  BeforeExit& operator=(const BeforeExit&) = delete;

  static bool is_watched_by_this_thread() {
    thread_local const BeforeExit watch;
    return watch.process_ != 0;
  }

 private:
  const pid_t process_ = getpid();
};

/// The main thread loads this library, but may never call it.
[[maybe_unused]] const bool is_watched = BeforeExit::is_watched_by_this_thread();

bool is_readable(const std::string& path) { return access(path.c_str(), R_OK) == 0; }

}  // namespace

const DeviceLibrary& device_library(const Options& options) {
  // Never closed: its threads may outlive a dlclose.
  const std::string path = path_of(options);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw Error(Status::unsupported, std::string("no CUDA backend: ") + dlerror());
  using Entry = const DeviceLibrary* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(library, kDeviceLibrarySymbol));
  const DeviceLibrary* found = entry != nullptr ? entry() : nullptr;
  if (found == nullptr || found->version != kDeviceLibraryVersion)
    throw Error(Status::unsupported, path + " belongs to another version of this library");
  BeforeExit::is_watched_by_this_thread();
  in_use = found;
  return *found;
}

bool may_have_gpus(const Options& options) {
  if (!options.device_library.empty()) return is_readable(options.device_library);
  for (const char* file : {"/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg", "/dev/nvhost-gpu"})
    if (access(file, F_OK) == 0) return is_readable(path_beside_this());
  return false;
}

bool program_uses_gpus() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver != nullptr) dlclose(driver);
  return driver != nullptr;
}

}  // namespace fleet
