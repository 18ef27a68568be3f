// SPDX-License-Identifier: BSD-3-Clause
// kernel_loader.hpp: has the libraries of GPUs load their kernels before a call needs them. It
// knows no plans.
#pragma once
#include <cuda_runtime.h>

#include <memory>
#include <thread>
#include <vector>

#include "backend/cuda/blas.hpp"
#include "backend/cuda/solver.hpp"

namespace fleet::cuda {

/// cuBLAS loads kernels with the first handle of a device and with the first product of a type,
/// which takes 50 to 100 ms. Thread-safe.
class KernelLoader {
 public:
  /// CUDA's numbers of the devices. `solver` may be nullptr.
  KernelLoader(std::shared_ptr<const CublasLibrary> blas,
               std::shared_ptr<const CusolverLibrary> solver, const std::vector<int>& ordinals);
  /// Waits for what is under way.
  ~KernelLoader();
  KernelLoader(const KernelLoader&) = delete;
  KernelLoader& operator=(const KernelLoader&) = delete;

  /// No thread beside the program begins to load any more; waits for those that do, two seconds at
  /// most.
  static void end_all();

  /// Loads what products need, beside the program and on all devices side by side.
  void begin();
  /// A handle for the stream, made for the device with this index, which is the current one: where
  /// there is one that has loaded kernels, it is taken. Throws Error(no_memory, device_failed).
  std::unique_ptr<CublasHandle> take(std::size_t device, cudaStream_t stream);
  /// The driver waits for all streams of a device while kernels are loaded, and cuSOLVER has a
  /// handle of cuBLAS inside: to be called before a stream of the device is held. Throws the same.
  void finish(std::size_t device);

 private:
  struct Device;
  struct Shared;
  const std::unique_ptr<Shared> shared_;
  std::vector<std::thread> threads_;
};

}  // namespace fleet::cuda
