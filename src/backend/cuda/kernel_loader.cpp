// SPDX-License-Identifier: BSD-3-Clause
// kernel_loader.cpp: a thread for each device multiplies a few numbers in the usual types.
#include "backend/cuda/kernel_loader.hpp"

#include <atomic>
#include <system_error>
#include <utility>

#include "backend/cuda/check.hpp"
#include "backend/cuda/stream_memory.hpp"
#include "base/error.hpp"
#include "base/exit_guard.hpp"

namespace fleet::cuda {

namespace {

/// Shared by those who load beside the program.
std::shared_mutex& under_way() {
  static std::shared_mutex mutex;
  return mutex;
}

}  // namespace

struct KernelLoader::Device {
  ~Device() {
    blas.reset();
    if (stream != nullptr) works(cudaStreamDestroy(stream));
  }

  int ordinal = 0;
  std::atomic<bool> is_wanted{false};  ///< by a call: what is not loaded yet has to wait
  std::mutex mutex;                    // of the next ones
  cudaStream_t stream = nullptr;       ///< of `blas`
  std::unique_ptr<CublasHandle> blas;  ///< until somebody takes it
  std::unique_ptr<CusolverHandle> solver;
};

struct KernelLoader::Shared {
  std::shared_ptr<const CublasLibrary> blas;
  std::shared_ptr<const CusolverLibrary> solver;
  std::vector<Device> devices;

  /// With its lock, and as the current device.
  void make_handle(Device& device) const {
    if (device.blas != nullptr) return;
    if (device.stream == nullptr)
      check(cudaStreamCreateWithFlags(&device.stream, cudaStreamNonBlocking), "cudaStreamCreate");
    device.blas = std::make_unique<CublasHandle>(blas, device.stream);
  }

  /// Makes the first product of the type, unless a call is there already.
  void load(Device& device, DataType type) const {
    const ExitGuard inside;
    const std::shared_lock loading(under_way());
    const std::lock_guard lock(device.mutex);
    if (device.is_wanted || any_stream_is_held()) return;
    const DeviceScope scope(device.ordinal);
    make_handle(device);
    device.blas->load_kernels(type);
    check(cudaStreamSynchronize(device.stream), "the first product");
    ExitGuard::install_again();  // before the handlers that cuBLAS has installed meanwhile
  }
};

KernelLoader::KernelLoader(std::shared_ptr<const CublasLibrary> blas,
                           std::shared_ptr<const CusolverLibrary> solver,
                           const std::vector<int>& ordinals)
    : shared_(std::make_unique<Shared>()) {
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
  try {
    for (Device& device : shared_->devices)
      threads_.emplace_back([shared = shared_.get(), &device] {
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
  device.is_wanted = true;
  {
    const std::lock_guard lock(device.mutex);
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
  const bool was_wanted = device.is_wanted.exchange(true);
  const std::lock_guard lock(device.mutex);
  const DeviceScope scope(device.ordinal);
  if (!was_wanted) shared_->make_handle(device);
  if (shared_->solver != nullptr && device.solver == nullptr)
    device.solver = CusolverHandle::make(shared_->solver, nullptr);
}

std::unique_lock<std::shared_mutex> KernelLoader::wait_for_all() {
  return std::unique_lock(under_way());
}

}  // namespace fleet::cuda
