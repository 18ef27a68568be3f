// SPDX-License-Identifier: BSD-3-Clause
// blas.hpp: cuBLAS, found at run time. It knows launches, not plans.
#pragma once
#include <cuda_runtime.h>

#include <memory>
#include <string>

#include "backend/cuda/native.hpp"
#include "run/launch.hpp"

namespace fleet::cuda {

/// The functions of one libcublas: what the program has loaded already, or that of the nvidia
/// wheels beside this library, or the system's.
class CublasLibrary {
 public:
  /// Throws Error(unsupported) naming the places that were tried.
  static std::shared_ptr<const CublasLibrary> load();
  const std::string& file() const { return file_; }
  int version() const { return version_; }

  struct Functions;
  const Functions& functions() const { return *functions_; }

 private:
  CublasLibrary() = default;
  std::string file_;
  int version_ = 0;
  std::shared_ptr<const Functions> functions_;
};

/// A handle bound to one stream of the current device, with a workspace of its own so that it can
/// be captured into graphs. Never destroyed at the end of a process, when CUDA may be gone.
class CublasHandle {
 public:
  /// For the current device. Throws Error(no_memory, device_failed).
  CublasHandle(std::shared_ptr<const CublasLibrary> library, cudaStream_t stream);
  ~CublasHandle();
  CublasHandle(const CublasHandle&) = delete;
  CublasHandle& operator=(const CublasHandle&) = delete;

  /// From now on; all work in the stream before has ended.
  void use(cudaStream_t stream);
  /// Makes the first product of a type, of whatever is in its memory: cuBLAS loads kernels then.
  /// Throws Error(device_failed).
  void load_kernels(DataType type);
  /// Does what the kernel says, by one of the next ones. False: it is none of theirs.
  bool put(const Launch& launch);
  /// c = alpha*op(a)*op(b) + beta*c, where c may be a triangle, or one of the factors may be one of
  /// a symmetric (Hermitian) matrix or a triangular matrix. Throws Error(device_failed).
  void multiply(const Launch& launch);
  /// c += alpha*a*b, of halves a and b and floats c. Throws Error(device_failed).
  void add_product_of_halves(float alpha, const View& a, const View& b, const View& c);
  /// c = x, with op(a)*x = beta*c or x*op(a) = beta*c; by the inverses in b, where there are any.
  /// Throws Error(device_failed).
  void solve(const Launch& launch);
  /// c = the inverses of the blocks on the diagonal of a. Throws Error(device_failed).
  void prepare(const Launch& launch);

 private:
  /// A tile of 2048 doubles as a whole. Never allocated in a call: it may be captured.
  static constexpr std::int64_t kScratchBytes = std::int64_t{32} << 20;

  void multiply_plainly(const Launch& launch);
  void multiply_by_symmetric(const Launch& launch);
  void multiply_by_triangular(const Launch& launch);
  void update_by_itself(const Launch& launch);
  void update_by_two(const Launch& launch);
  void multiply_leaf(const Launch& launch);
  void set_mode(DataType type);
  void multiply_in_place(const Launch& launch);
  void solve_by_cublas(const Launch& launch);

  std::shared_ptr<const CublasLibrary> library_;
  cudaStream_t stream_ = nullptr;
  NativeMath native_;
  void* handle_ = nullptr;
  void* workspace_ = nullptr;  ///< cuBLAS's, and after it
  void* scratch_ = nullptr;  ///< sums before they are merged into a triangle, or old contents of c
};

}  // namespace fleet::cuda
