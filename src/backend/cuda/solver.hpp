// SPDX-License-Identifier: BSD-3-Clause
// solver.hpp: Cholesky factors by cuSOLVER, found at run time where it is. It knows no panels.
#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "run/launch.hpp"

namespace fleet::cuda {

/// The functions of one libcusolver, looked for as CublasLibrary is.
class CusolverLibrary {
 public:
  /// That of cuBLAS's own CUDA release: one of another would load another cuBLAS. `cublas_version`
  /// as CublasLibrary has it. nullptr: there is none that has all functions.
  static std::shared_ptr<const CusolverLibrary> load(int cublas_version);
  const std::string& file() const { return file_; }
  int version() const { return version_; }

  struct Functions;
  const Functions& functions() const { return *functions_; }

 private:
  CusolverLibrary() = default;
  std::string file_;
  int version_ = 0;
  std::shared_ptr<const Functions> functions_;
};

/// A handle bound to one stream of the current device. Its calls allocate nothing, and put their
/// work into the stream. NVIDIA does not say that they can be captured into graphs.
class CusolverHandle {
 public:
  /// For the current device. nullptr if cuSOLVER makes no handle, as where memory is short.
  static std::unique_ptr<CusolverHandle> make(std::shared_ptr<const CusolverLibrary> library,
                                              cudaStream_t stream);
  ~CusolverHandle();
  CusolverHandle(const CusolverHandle&) = delete;
  CusolverHandle& operator=(const CusolverHandle&) = delete;

  /// The workspace of such a triangle's factorization. Throws Error(device_failed).
  std::size_t potrf_bytes(Storage storage, const View& a) const;
  /// As Panels::potrf, but where a number on the diagonal is none info says what cuSOLVER has left
  /// there. `workspace`: potrf_bytes, aligned as elements are. Throws Error(device_failed).
  void potrf(Storage storage, const View& a, std::int32_t* info, void* workspace) const;

 private:
  CusolverHandle(std::shared_ptr<const CusolverLibrary> library, void* handle)
      : library_(std::move(library)), handle_(handle) {}
  int count_of(Storage storage, const View& a) const;

  std::shared_ptr<const CusolverLibrary> library_;
  void* handle_;
};

}  // namespace fleet::cuda
