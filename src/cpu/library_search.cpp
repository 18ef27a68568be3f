// SPDX-License-Identifier: BSD-3-Clause
// library_search.cpp: the places where a CPU BLAS can be, in order. It opens none of them.
#include "cpu/library_search.hpp"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <filesystem>
#include <new>
#include <string_view>

namespace fleet {
namespace {

using Path = std::filesystem::path;

constexpr const char* kOptimised[] = {"libopenblas.so.0", "libopenblas64_.so.0",
                                      "libopenblas64.so.0", "libblis.so.4", "libmkl_rt.so.2"};
constexpr const char* kReference[] = {"libblas.so.3", "libblas64.so.3"};

bool is_optimised(std::string_view file) {
  for (const std::string_view word : {"openblas", "libblis", "libmkl_rt"})
    if (file.find(word) != std::string_view::npos) return true;
  return false;
}

/// The files of `folder` that look like an optimised BLAS, in the order of their names.
void add_from(const Path& folder, std::vector<std::string>& found) {
  std::error_code error;
  std::vector<std::string> files;
  for (auto file = std::filesystem::directory_iterator(folder, error);
       !error && file != std::filesystem::directory_iterator(); file.increment(error)) {
    const std::string name = file->path().filename().string();
    if (is_optimised(name) && name.find(".so") != std::string::npos)
      files.push_back(file->path().string());
  }
  std::ranges::sort(files);
  found.insert(found.end(), files.begin(), files.end());
}

/// For dl_iterate_phdr, through which no exception may go. Not 0: enough.
int add_loaded(dl_phdr_info* info, std::size_t, void* found) noexcept {
  const std::string_view path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
  if (!is_optimised(path.substr(path.rfind('/') + 1))) return 0;
  try {
    static_cast<std::vector<std::string>*>(found)->emplace_back(path);
    return 0;
  } catch (const std::bad_alloc&) {
    return 1;
  }
}

}  // namespace

std::vector<std::string> blas_candidates(const std::string& folder) {
  std::vector<std::string> found;
  const Path site = folder.empty() ? Path() : Path(folder).parent_path().parent_path();
  const auto beside = [&](std::initializer_list<const char*> names) {
    if (site.empty()) return;
    for (const char* name : names) add_from(site / name, found);
  };
  beside({"scipy_openblas64/lib", "scipy_openblas32/lib"});
  found.insert(found.end(), std::begin(kOptimised), std::end(kOptimised));
  beside({"numpy.libs", "scipy.libs"});
  dl_iterate_phdr(add_loaded, &found);
  found.insert(found.end(), std::begin(kReference), std::end(kReference));
  return found;
}

std::string own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&own_folder), &info) == 0 || info.dli_fname == nullptr)
    return {};
  std::error_code error;
  const Path self = std::filesystem::canonical(info.dli_fname, error);
  return error ? std::string() : self.parent_path().string();
}

}  // namespace fleet
