// SPDX-License-Identifier: BSD-3-Clause
// kernel_loader.cpp: a thread for each device multiplies a few numbers in the usual types.
#include "backend/cuda/kernel_loader.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <utility>

#include "backend/cuda/check.hpp"
#include "backend/cuda/device_scope.hpp"
#include "backend/cuda/stream_memory.hpp"
#include "base/error.hpp"
#include "base/exit_guard.hpp"

namespace fleet::cuda {

namespace {

constexpr std::array kUsualTypes{DataType::f64, DataType::f32};

/// Shared by those who load beside the program.
std::shared_timed_mutex& under_way() {
  static auto& mutex = *new std::shared_timed_mutex;  // threads may outlive exit()
  return mutex;
}

std::atomic<bool> is_ending{false};

/// What cuBLAS registers in its first calls for the end of the process is done before an ExitGuard
/// that was installed earlier, and takes away what these calls use. Objects of the thread that ends
/// the process go before all of that: the one of the main thread waits.
class LoadsBeforeExit {
 public:
  LoadsBeforeExit() = default;
  ~LoadsBeforeExit() {
    constexpr auto kLongestWait = std::chrono::seconds(2);
    const bool is_main_thread = syscall(SYS_gettid) == process_;
    if (getpid() != process_ || !is_main_thread) return;  // a fork, or a thread that ends alone
    is_ending = true;
    const std::unique_lock none_loads(under_way(), kLongestWait);
  }
  LoadsBeforeExit(const LoadsBeforeExit&) = delete;
  LoadsBeforeExit& operator=(const LoadsBeforeExit&) = delete;

  /// By each thread of the program that may end it.
  static void wait_in_this_thread() {
    thread_local const LoadsBeforeExit all;
    static_cast<void>(all);
  }

 private:
  const pid_t process_ = getpid();
};

/// Kernels are the process's, whatever context of the library asked for them. Bits of usual types,
/// by CUDA's number of the device.
std::atomic<unsigned>& loaded_types(int ordinal) {
  constexpr std::size_t kMostDevices = 64;  // more of them share what is known
  static std::array<std::atomic<unsigned>, kMostDevices> types{};
  return types[static_cast<std::size_t>(ordinal) % kMostDevices];
}
bool is_loaded(int ordinal, std::size_t type) { return (loaded_types(ordinal) >> type & 1) != 0; }

}  // namespace

struct KernelLoader::Device {
  ~Device() {
    DeviceScope scope;
    scope.try_use(ordinal);
    solver.reset();
    blas.reset();
    if (stream != nullptr) works(cudaStreamDestroy(stream));
  }

  int ordinal = 0;
  std::atomic<bool> is_wanted{false};  ///< by a call: what is not loaded yet has to wait
  std::mutex mutex;                    // of the next ones
  bool has_had_handle = false;
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
    if (device.stream == nullptr)
      check(cudaStreamCreateWithFlags(&device.stream, cudaStreamNonBlocking), "cudaStreamCreate");
    device.blas = std::make_unique<CublasHandle>(blas, device.stream);
    device.has_had_handle = true;
  }

  /// Makes the first product of a usual type, if it is the first in this process. With the lock of
  /// the device, which is the current one.
  void load(Device& device, std::size_t type) const {
    if (is_loaded(device.ordinal, type) || any_stream_is_held()) return;
    if (device.blas == nullptr) make_handle(device);
    device.blas->load_kernels(kUsualTypes[type]);
    check(cudaStreamSynchronize(device.stream), "the first product");
    loaded_types(device.ordinal) |= 1U << type;
    ExitGuard::install_again();  // before the handlers that cuBLAS has installed meanwhile
  }

  /// Beside the program: nothing once a call is there.
  void load_all(Device& device) const {
    for (std::size_t type = 0; type < kUsualTypes.size(); ++type) {
      const ExitGuard inside;
      const std::shared_lock loading(under_way());
      const std::lock_guard lock(device.mutex);
      if (device.is_wanted || is_ending) return;
      const DeviceScope scope(device.ordinal);
      load(device, type);
    }
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
  LoadsBeforeExit::wait_in_this_thread();
  // The program's handlers of signals are for its own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    for (Device& device : shared_->devices) {
      if (is_loaded(device.ordinal, kUsualTypes.size() - 1)) continue;  // the last one
      threads_.emplace_back([shared = shared_.get(), &device] {
        try {
          shared->load_all(device);
        } catch (const std::exception&) {
          // The call that needs it says so.
        }
      });
    }
  } catch (const std::exception&) {
    // No thread: kernels are loaded when they are needed.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

std::unique_ptr<CublasHandle> KernelLoader::take(std::size_t index, cudaStream_t stream) {
  LoadsBeforeExit::wait_in_this_thread();
  Device& device = shared_->devices[index];
  device.is_wanted = true;
  const std::lock_guard lock(device.mutex);
  if (device.blas != nullptr) {
    auto taken = std::move(device.blas);
    taken->use(stream);
    return taken;
  }
  auto made = std::make_unique<CublasHandle>(shared_->blas, stream);
  device.has_had_handle = true;
  return made;
}

void KernelLoader::finish(std::size_t index) {
  Device& device = shared_->devices[index];
  device.is_wanted = true;
  const std::shared_lock loading(under_way());  // no other context holds a stream meanwhile
  const std::lock_guard lock(device.mutex);
  const DeviceScope scope(device.ordinal);
  if (!device.has_had_handle) shared_->make_handle(device);
  for (std::size_t type = 0; type < kUsualTypes.size(); ++type) shared_->load(device, type);
  if (shared_->solver != nullptr && device.solver == nullptr)
    device.solver = CusolverHandle::make(shared_->solver, nullptr);
}

std::unique_lock<std::shared_timed_mutex> KernelLoader::wait_for_all() {
  return std::unique_lock(under_way());
}

}  // namespace fleet::cuda
