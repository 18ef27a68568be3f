// SPDX-License-Identifier: BSD-3-Clause
// libraries.cpp: they stay loaded until the process ends.
#include "comm_nccl/libraries.hpp"

#include <dlfcn.h>
#include <glob.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

namespace fleet::lu {
namespace {

constexpr const char* kNccl = "libnccl.so.2";
constexpr const char* kDriver = "libcuda.so.1";

/// Where wheels put it, in the environment that has this program in its folder bin.
std::vector<std::string> files_of_wheels() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const std::string pattern =
      (program.parent_path().parent_path() / "lib/python3*/site-packages/nvidia/nccl/lib" / kNccl)
          .string();
  std::vector<std::string> found;
  glob_t files{};
  if (glob(pattern.c_str(), 0, nullptr, &files) == 0)
    found.assign(files.gl_pathv, files.gl_pathv + files.gl_pathc);
  globfree(&files);
  return found;
}

void* open_nccl(std::string& why) {
  constexpr int kMode = RTLD_NOW | RTLD_LOCAL;
  if (const char* const named = std::getenv("FLEETBLAS_NCCL")) {
    void* const library = dlopen(named, kMode);
    if (library == nullptr) why = dlerror();
    return library;
  }
  if (void* const library = dlopen(kNccl, kMode)) return library;
  for (const std::string& file : files_of_wheels())
    if (void* const library = dlopen(file.c_str(), kMode)) return library;
  why = "libnccl.so.2 was not found (FLEETBLAS_NCCL names it)";
  return nullptr;
}

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

bool find_all(void* nccl, void* driver, Libraries& all) {
  return find(nccl, "ncclGetVersion", all.version) && find(nccl, "ncclGetErrorString", all.text) &&
         find(nccl, "ncclGetUniqueId", all.make_id) &&
         find(nccl, "ncclCommInitRankConfig", all.begin) &&
         find(nccl, "ncclCommCuDevice", all.device_of) &&
         find(nccl, "ncclCommFinalize", all.finish) && find(nccl, "ncclCommDestroy", all.end) &&
         find(nccl, "ncclCommAbort", all.abort) &&
         find(nccl, "ncclCommGetAsyncError", all.async_error) &&
         find(nccl, "ncclBroadcast", all.broadcast) && find(driver, "cuInit", all.start) &&
         find(driver, "cuDeviceGet", all.device) && find(driver, "cuDeviceGetUuid", all.name) &&
         find(driver, "cuPointerGetAttribute", all.pointer) &&
         find(driver, "cuDevicePrimaryCtxRetain", all.context) &&
         find(driver, "cuCtxGetCurrent", all.current) && find(driver, "cuCtxSetCurrent", all.use) &&
         find(driver, "cuCtxGetStreamPriorityRange", all.priorities) &&
         find(driver, "cuStreamCreateWithPriority", all.make_stream) &&
         find(driver, "cuStreamDestroy_v2", all.end_stream) &&
         find(driver, "cuEventCreate", all.make_event) &&
         find(driver, "cuEventRecord", all.record) && find(driver, "cuEventQuery", all.query) &&
         find(driver, "cuEventDestroy_v2", all.end_event);
}

struct Found {
  Libraries all;
  std::string why;
};

Found look() {
  Found found;
  void* const nccl = open_nccl(found.why);
  if (nccl == nullptr) return found;
  void* const driver =
      dlsym(nccl, "cuInit") != nullptr ? nccl : dlopen(kDriver, RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr)
    found.why = "CUDA's driver was not found";
  else if (!find_all(nccl, driver, found.all))
    found.why = "NCCL is older than 2.14, or CUDA's driver too old";
  else if (found.all.start(0) != 0)
    found.why = "CUDA's driver does not start";
  // A newer driver tells the parts of one GPU apart.
  else if (auto* const parts = dlsym(driver, "cuDeviceGetUuid_v2"))
    found.all.name = reinterpret_cast<decltype(found.all.name)>(parts);
  return found;
}

}  // namespace

std::string Libraries::version_text() const {
  int number = 0;
  if (version(&number) != 0) return "?";
  // From 2.9 on: 20903.
  const int major = number >= 10000 ? number / 10000 : number / 1000;
  const int rest = number >= 10000 ? number % 10000 : number % 1000;
  return std::to_string(major) + "." + std::to_string(rest / 100) + "." +
         std::to_string(rest % 100);
}

const Libraries* libraries(std::string& why) {
  static const Found found = look();
  why = found.why;
  return found.why.empty() ? &found.all : nullptr;
}

}  // namespace fleet::lu
