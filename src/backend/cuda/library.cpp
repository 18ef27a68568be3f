// SPDX-License-Identifier: BSD-3-Clause
// library.cpp: looks for libraries where programs, wheels, the system and toolkits have them. It
// must not know what is called in them.
#include "backend/cuda/library.hpp"

#include <dlfcn.h>

#include <filesystem>

namespace fleet::cuda {
namespace {

/// Folders of the wheels, next to the package in which this library lies.
std::vector<std::string> wheel_folders(const std::string& wheel) {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&wheel_folders), &info) == 0) return {};
  std::error_code error;
  const auto library = std::filesystem::canonical(info.dli_fname, error);
  if (error) return {};
  // site-packages/fleetblas/lib/libfleetblas_cuda.so
  const auto packages = library.parent_path().parent_path().parent_path();
  std::vector<std::string> folders;
  for (const std::string& inside : {std::string("nvidia/cu13/lib"), "nvidia/" + wheel + "/lib"})
    if (std::filesystem::is_directory(packages / inside, error))
      folders.push_back((packages / inside).string());
  return folders;
}

}  // namespace

void* open_library(const std::vector<std::string>& names, const std::string& wheel) {
  // The one that the program has loaded already: a second one would only cost memory.
  for (const std::string& name : names)
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) return library;
  std::vector<std::string> files;
  for (const std::string& folder : wheel_folders(wheel))
    for (const std::string& name : names) files.push_back(folder + "/" + name);
  files.insert(files.end(), names.begin(), names.end());
  for (const std::string& name : names) files.push_back("/usr/local/cuda/lib64/" + name);
  for (const std::string& file : files)
    if (void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  return nullptr;
}

std::string file_of(void* function, const std::string& otherwise) {
  Dl_info info{};
  return dladdr(function, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : otherwise;
}

}  // namespace fleet::cuda
