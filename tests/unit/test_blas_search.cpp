// SPDX-License-Identifier: BSD-3-Clause
// test_blas_search.cpp: the order in which a CPU BLAS is searched for. It opens one only to have it
// loaded.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cpu/library_search.hpp"

namespace fleet {
namespace {

using Path = std::filesystem::path;

/// A folder for Python packages with empty files in it.
class Site {
 public:
  explicit Site(std::initializer_list<const char*> files)
      : root_(std::filesystem::temp_directory_path() / ("fleet_site_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(root_ / "fleetblas/lib");
    for (const char* file : files) {
      std::filesystem::create_directories((root_ / file).parent_path());
      std::ofstream(root_ / file) << "no library";
    }
  }
  ~Site() { std::filesystem::remove_all(root_); }
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;

  std::string operator/(const char* file) const { return (root_ / file).string(); }

 private:
  Path root_;
};

std::ptrdiff_t place_of(const std::vector<std::string>& found, const std::string& name) {
  const auto at = std::ranges::find(found, name);
  return at == found.end() ? -1 : at - found.begin();
}

TEST(BlasCandidates, BeginWithTheWheelsBesideThePackageAndEndWithTheReference) {
  const Site site(
      {"scipy_openblas64/lib/libscipy_openblas64_.so", "scipy_openblas64/lib/libgfortran.so.5",
       "scipy_openblas32/lib/libscipy_openblas.so", "numpy.libs/libscipy_openblas64_-32a4b2a6.so"});

  const auto found = blas_candidates(site / "fleetblas/lib");

  ASSERT_GE(found.size(), 5u);
  EXPECT_EQ(found[0], site / "scipy_openblas64/lib/libscipy_openblas64_.so");
  EXPECT_EQ(found[1], site / "scipy_openblas32/lib/libscipy_openblas.so");
  EXPECT_EQ(found[2], "libopenblas.so.0");
  EXPECT_GT(place_of(found, site / "numpy.libs/libscipy_openblas64_-32a4b2a6.so"), 2);
  EXPECT_EQ(place_of(found, site / "scipy_openblas64/lib/libgfortran.so.5"), -1);
  EXPECT_EQ(place_of(found, "libblas.so.3"), std::ssize(found) - 2);
  EXPECT_EQ(place_of(found, "libblas64.so.3"), std::ssize(found) - 1);
}

TEST(BlasCandidates, NeedNoWheels) {
  const Site site({});

  const auto found = blas_candidates(site / "fleetblas/lib");

  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0], "libopenblas.so.0");
  EXPECT_EQ(blas_candidates(""), found);
}

TEST(BlasCandidates, HoldWhatTheProcessHasLoadedBeforeTheReference) {
  const char* file = std::getenv("FLEETBLAS_CPU_BLAS");
  if (file == nullptr || Path(file).filename().string().find("openblas") == std::string::npos)
    GTEST_SKIP() << "FLEETBLAS_CPU_BLAS names no OpenBLAS";
  // It stays loaded: a BLAS has threads, and the ThreadSanitizer suppressions need it loaded.
  void* handle = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  ASSERT_NE(handle, nullptr) << dlerror();

  const auto found = blas_candidates("");

  const auto at = place_of(found, file);
  EXPECT_GT(at, place_of(found, "libopenblas.so.0"));
  EXPECT_LT(at, place_of(found, "libblas.so.3"));
  dlclose(handle);
}

TEST(OwnFolder, IsWhereThisProgramIs) {
  EXPECT_EQ(own_folder(), std::filesystem::canonical("/proc/self/exe").parent_path().string());
}

}  // namespace
}  // namespace fleet
