// SPDX-License-Identifier: BSD-3-Clause
// solver.cpp: finds libcusolver and calls it. Its prototypes are ours, so that a toolkit without
// cuSOLVER's headers is enough to build. It knows no panels.
#include "backend/cuda/solver.hpp"

#include <dlfcn.h>

#include <array>
#include <limits>
#include <utility>

#include "backend/cuda/library.hpp"
#include "base/error.hpp"

namespace fleet::cuda {
namespace {

constexpr int kLower = 0, kUpper = 1;  // cublasFillMode_t
constexpr int kSuccess = 0, kNoMemory = 2;

/// Letters of types in names, in the order of the functions.
constexpr std::array<char, 4> kLetters = {'S', 'D', 'C', 'Z'};
std::size_t place_of(Storage storage) {
  switch (storage) {
    case Storage::f32:
      return 0;
    case Storage::f64:
      return 1;
    case Storage::c32:
      return 2;
    case Storage::c64:
      return 3;
    default:
      throw Error(Status::internal, "LAPACK has no factors of this type");
  }
}

int fill_mode(const View& a) { return a.fill == Fill::upper ? kUpper : kLower; }

void require(int status, const char* what) {
  if (status == kSuccess) return;
  cudaGetLastError();
  throw Error(status == kNoMemory ? Status::no_memory : Status::device_failed,
              std::string(what) + ": cuSOLVER status " + std::to_string(status));
}

template <typename Function>
bool find(void* library, const std::string& name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name.c_str()));
  return function != nullptr;
}

}  // namespace

/// Handles and matrices as plain addresses, statuses and enumerations as the int that they are.
struct CusolverLibrary::Functions {
  int (*create)(void** handle) = nullptr;
  int (*destroy)(void* handle) = nullptr;
  int (*set_stream)(void* handle, cudaStream_t stream) = nullptr;
  int (*version)(int* number) = nullptr;
  struct Potrf {
    int (*size)(void* handle, int uplo, int n, void* a, int lda, int* count) = nullptr;
    int (*factor)(void* handle, int uplo, int n, void* a, int lda, void* work, int count,
                  int* info) = nullptr;
  };
  std::array<Potrf, kLetters.size()> potrf;
};

std::shared_ptr<const CusolverLibrary> CusolverLibrary::load(int cublas_version) {
  const int release = cublas_version / 10000;  // of CUDA; cuSOLVER's own number is one less
  void* library = open_library({"libcusolver.so." + std::to_string(release - 1)}, "cusolver");
  if (library == nullptr) return nullptr;
  auto functions = std::make_shared<Functions>();
  bool whole = find(library, "cusolverDnCreate", functions->create) &&
               find(library, "cusolverDnDestroy", functions->destroy) &&
               find(library, "cusolverDnSetStream", functions->set_stream) &&
               find(library, "cusolverGetVersion", functions->version);
  for (std::size_t i = 0; i < kLetters.size(); ++i) {
    const std::string name = std::string("cusolverDn") + kLetters[i] + "potrf";
    whole = whole && find(library, name + "_bufferSize", functions->potrf[i].size) &&
            find(library, name, functions->potrf[i].factor);
  }
  if (!whole) return nullptr;
  std::shared_ptr<CusolverLibrary> loaded(new CusolverLibrary);
  loaded->functions_ = functions;
  loaded->file_ = file_of(reinterpret_cast<void*>(functions->potrf[0].factor), "libcusolver");
  if (functions->version(&loaded->version_) != kSuccess) loaded->version_ = 0;
  return loaded;
}

std::unique_ptr<CusolverHandle> CusolverHandle::make(std::shared_ptr<const CusolverLibrary> library,
                                                     cudaStream_t stream) {
  const auto& call = library->functions();
  void* handle = nullptr;
  if (call.create(&handle) != kSuccess) {
    cudaGetLastError();
    return nullptr;
  }
  std::unique_ptr<CusolverHandle> made(new CusolverHandle(std::move(library), handle));
  if (call.set_stream(handle, stream) != kSuccess) return nullptr;
  return made;
}

CusolverHandle::~CusolverHandle() { library_->functions().destroy(handle_); }

/// The address and leading dimension of the matrix change nothing: frameworks ask without them.
int CusolverHandle::count_of(Storage storage, const View& a) const {
  const int order = static_cast<int>(a.rows);
  int count = 0;
  require(library_->functions().potrf[place_of(storage)].size(handle_, fill_mode(a), order, nullptr,
                                                              order, &count),
          "the workspace of cuSOLVER's potrf");
  return count;
}

std::size_t CusolverHandle::potrf_bytes(Storage storage, const View& a) const {
  return static_cast<std::size_t>(count_of(storage, a)) *
         static_cast<std::size_t>(bytes_of(storage));
}

void CusolverHandle::potrf(Storage storage, const View& a, std::int32_t* info,
                           void* workspace) const {
  require(library_->functions().potrf[place_of(storage)].factor(
              handle_, fill_mode(a), static_cast<int>(a.rows), a.data, static_cast<int>(a.ld),
              workspace, count_of(storage, a), info),
          "cuSOLVER's potrf");
}

}  // namespace fleet::cuda
