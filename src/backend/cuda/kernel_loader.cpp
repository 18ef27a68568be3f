// SPDX-License-Identifier: BSD-3-Clause
// kernel_loader.cpp: a thread for each device multiplies a few numbers in the usual types.
#include "backend/cuda/kernel_loader.hpp"

#include <mutex>
#include <system_error>
#include <utility>

#include "backend/cuda/check.hpp"
#include "backend/cuda/stream_memory.hpp"
#include "base/error.hpp"
#include "base/exit_guard.hpp"

namespace fleet::cuda {

struct KernelLoader::Device {
  ~Device() {
    blas.reset();
    if (stream != nullptr) works(cudaStreamDestroy(stream));
  }

  int ordinal = 0;
  std::mutex mutex;  // of all that follows
  bool has_begun = false;
  cudaStream_t stream = nullptr;       ///< of `blas`
  std::unique_ptr<CublasHandle> blas;  ///< until somebody takes it
  std::unique_ptr<CusolverHandle> solver;
};

struct KernelLoader::Shared {
  std::shared_ptr<const CublasLibrary> blas;
  std::shared_ptr<const CusolverLibrary> solver;
  std::vector<Device> devices;

  /// Makes the first product of the type, unless the handle has been taken.
  void load(Device& device, DataType type) const {
    const ExitGuard inside;
    const std::lock_guard lock(device.mutex);
    if (std::exchange(device.has_begun, true) && device.blas == nullptr) return;
    const DeviceScope scope(device.ordinal);
    if (device.blas == nullptr) {
      check(cudaStreamCreateWithFlags(&device.stream, cudaStreamNonBlocking), "cudaStreamCreate");
      device.blas = std::make_unique<CublasHandle>(blas, device.stream);
    }
    device.blas->load_kernels(type);
    check(cudaStreamSynchronize(device.stream), "the first product");
    ExitGuard::install_again();  // before the handlers that cuBLAS has installed meanwhile
  }
};

KernelLoader::KernelLoader(std::shared_ptr<const CublasLibrary> blas,
                           std::shared_ptr<const CusolverLibrary> solver,
                           const std::vector<int>& ordinals)
    : shared_(std::make_shared<Shared>()) {
  shared_->blas = std::move(blas);
  shared_->solver = std::move(solver);
  shared_->devices = std::vector<Device>(ordinals.size());
  for (std::size_t i = 0; i < ordinals.size(); ++i) shared_->devices[i].ordinal = ordinals[i];
}

KernelLoader::~KernelLoader() {
  for (std::thread& thread : threads_) thread.join();
  // To give a handle back is to wait for its device. The process has them to its end then.
  if (!any_stream_is_held()) return;
  for (Device& device : shared_->devices) {
    static_cast<void>(device.blas.release());
    static_cast<void>(device.solver.release());
    device.stream = nullptr;
  }
}

void KernelLoader::begin() {
  if (any_stream_is_held()) return;
  try {
    for (Device& device : shared_->devices)
      threads_.emplace_back([shared = shared_, &device] {
        try {
          for (const DataType type : {DataType::f64, DataType::f32}) shared->load(device, type);
        } catch (const Error&) {
          // The call that needs it says so.
        }
      });
  } catch (const std::system_error&) {
    // No thread: kernels are loaded when they are needed.
  }
}

std::unique_ptr<CublasHandle> KernelLoader::take(std::size_t index, cudaStream_t stream) {
  Device& device = shared_->devices[index];
  {
    const std::lock_guard lock(device.mutex);
    device.has_begun = true;
    if (device.blas != nullptr) {
      auto taken = std::move(device.blas);
      taken->use(stream);
      return taken;
    }
  }
  return std::make_unique<CublasHandle>(shared_->blas, stream);
}

void KernelLoader::finish(std::size_t index) {
  Device& device = shared_->devices[index];
  const std::lock_guard lock(device.mutex);
  const DeviceScope scope(device.ordinal);
  if (!std::exchange(device.has_begun, true))
    device.blas = std::make_unique<CublasHandle>(shared_->blas, nullptr);
  if (shared_->solver != nullptr && device.solver == nullptr)
    device.solver = CusolverHandle::make(shared_->solver, nullptr);
}

}  // namespace fleet::cuda
