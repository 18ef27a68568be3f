// SPDX-License-Identifier: BSD-3-Clause
// kernel_loader.cpp: a thread for each device multiplies a few numbers in the usual types.
#include "backend/cuda/kernel_loader.hpp"

#include <pthread.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "backend/cuda/check.hpp"
#include "backend/cuda/device_scope.hpp"
#include "backend/cuda/elementwise.hpp"
#include "backend/cuda/known_kernels.hpp"
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

/// Kernels are the process's, whatever context of the library asked for them.
std::uint64_t kernels_of_first(std::size_t type, int ordinal) {
  return kernels_of(OtherKernels::first_product, type, ordinal);
}

/// Memory of the current device like that of a view, undefined.
class Likeness {
 public:
  Likeness(const View& like, Storage storage) : view_(like) {
    if (like.data == nullptr || like.cols == 0) return;
    // Libraries choose kernels by how the data lie, too.
    constexpr std::uintptr_t kAlignment = 256;
    const auto above = reinterpret_cast<std::uintptr_t>(like.data) % kAlignment;
    const std::int64_t bytes = ((like.cols - 1) * like.ld + like.rows) * bytes_of(storage);
    check(cudaMalloc(&memory_, static_cast<std::size_t>(bytes) + above), "cudaMalloc");
    view_.data = static_cast<char*>(memory_) + above;
  }
  ~Likeness() {
    if (memory_ != nullptr) works(cudaFree(memory_));
  }
  Likeness(const Likeness&) = delete;
  Likeness& operator=(const Likeness&) = delete;
  const View& view() const { return view_; }

 private:
  View view_;
  void* memory_ = nullptr;
};

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
    const std::uint64_t kernels = kernels_of_first(type, device.ordinal);
    if (are_known(kernels)) return;
    const bool is_first = puts_loaded(kernels, [&] {
      if (device.blas == nullptr) make_handle(device);
      device.blas->load_kernels(kUsualTypes[type]);
      check(cudaStreamSynchronize(device.stream), "the first product");
    });
    if (is_first)
      ExitGuard::install_again();  // before the handlers that cuBLAS has installed meanwhile
  }

  /// Does what could not be done while a stream was held, with other numbers. With the lock of the
  /// device, which is the current one.
  void load_wanted(Device& device) const {
    if (any_stream_is_held()) return;
    for (const Launch& launch : take_wanted(device.ordinal)) {
      try {
        const Likeness a(launch.a, launch.type.storage), b(launch.b, launch.type.storage),
            c(launch.c, launch.type.storage);
        Launch again = launch;
        again.a = launch.a.data == launch.c.data ? c.view() : a.view();
        again.b = launch.b.data == launch.c.data   ? c.view()
                  : launch.b.data == launch.a.data ? again.a
                                                   : b.view();
        again.c = c.view();
        if (device.blas == nullptr) make_handle(device);
        if (launch.kernel == Kernel::add)
          add_scaled(again, device.stream);
        else if (launch.kernel == Kernel::scale)
          scale(again, device.stream);
        else if (!device.blas->put(again))
          continue;  // of factorizations, which have memory of their own
        check(cudaStreamSynchronize(device.stream), "the first launch of its kind");
        note_known(kernels_of(launch, device.ordinal));
      } catch (const Error&) {
        // No memory for it, or no such kernel: then it is refused again.
      }
    }
  }

  /// Beside the program: nothing once a call is there.
  void load_all(Device& device) const {
    for (std::size_t type = 0; type < kUsualTypes.size(); ++type) {
      const ExitGuard inside;
      const std::shared_lock loading(under_way());
      const NoNewHold as_it_is;
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
  const NoNewHold as_it_is;
  if (!any_stream_is_held()) {
    shared_->devices.clear();
    return;
  }
  for (Device& device : shared_->devices) {
    static_cast<void>(device.blas.release());
    static_cast<void>(device.solver.release());
    device.stream = nullptr;
  }
}

void KernelLoader::end_all() {
  constexpr auto kLongestWait = std::chrono::seconds(2);
  is_ending = true;
  const std::unique_lock none_loads(under_way(), kLongestWait);
}

void KernelLoader::begin() {
  // The program's handlers of signals are for its own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    for (Device& device : shared_->devices) {
      if (are_known(kernels_of_first(kUsualTypes.size() - 1, device.ordinal)))
        continue;  // the last one
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
  const std::shared_lock loading(under_way());
  const NoNewHold as_it_is;
  const std::lock_guard lock(device.mutex);
  const DeviceScope scope(device.ordinal);
  if (!device.has_had_handle) shared_->make_handle(device);
  for (std::size_t type = 0; type < kUsualTypes.size(); ++type) shared_->load(device, type);
  shared_->load_wanted(device);
  if (shared_->solver != nullptr && device.solver == nullptr)
    device.solver = CusolverHandle::make(shared_->solver, nullptr);
}

}  // namespace fleet::cuda
