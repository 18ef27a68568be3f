// SPDX-License-Identifier: BSD-3-Clause
// kernel_loader.cpp: a thread for each device launches the usual kernels on whatever is in its
// memory.
#include "backend/cuda/kernel_loader.hpp"

#include <pthread.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <exception>
#include <utility>

#include "backend/cuda/check.hpp"
#include "backend/cuda/stream_memory.hpp"
#include "base/error.hpp"
#include "base/exit_guard.hpp"

namespace fleet::cuda {

namespace {

constexpr std::array kUsualTypes{DataType::f64, DataType::f32};

constexpr std::size_t kUsualLaunches = 10;

/// Products and solutions as tiles ask for them: which kernels cuBLAS takes depends on edges and
/// transposes. The first is small, and loads most. They are of whatever is in this memory, the
/// handle's scratch, in which operands may overlap.
std::array<Launch, kUsualLaunches> usual_launches(DataType type, void* memory) {
  constexpr std::int64_t kSmall = 64, kHalf = 1024, kEdge = 2 * kHalf;
  static_assert(kEdge * kEdge * std::int64_t{sizeof(double)} <= CublasHandle::kScratchBytes);
  // It begins at a quarter of a square of kEdge.
  const auto view = [&](std::int64_t quarter, std::int64_t rows, std::int64_t cols) {
    void* const data =
        static_cast<char*>(memory) + quarter * kHalf * kHalf * bytes_of(type.storage);
    return View{.data = data, .rows = rows, .cols = cols, .ld = rows};
  };
  Launch small{.type = type, .alpha = 1, .beta = 1};
  small.a = view(1, kSmall, kSmall), small.b = view(2, kSmall, kSmall);
  small.c = view(3, kSmall, kSmall);
  Launch plain = small;
  plain.a = view(0, kEdge, kHalf), plain.b = view(2, kHalf, kEdge), plain.c = view(0, kEdge, kEdge);
  Launch left_turned = plain;
  left_turned.op_a = Op::transpose, left_turned.a = view(0, kHalf, kEdge);
  Launch right_turned = plain;
  right_turned.op_b = Op::transpose, right_turned.b = view(2, kEdge, kHalf);
  Launch by_two = right_turned;  // syr2k
  by_two.c.fill = Fill::lower;
  Launch by_itself = by_two;  // syrk
  by_itself.b = by_itself.a;
  // What the handle copies to the first quarter is no operand of these.
  Launch symmetric = small;
  symmetric.a = view(1, kHalf, kHalf), symmetric.b = view(2, kHalf, kHalf);
  symmetric.c = view(3, kHalf, kHalf);
  symmetric.a.fill = Fill::lower;
  Launch in_place = symmetric;  // trmm
  in_place.triangular = true, in_place.b = in_place.c, in_place.beta = 0;
  Launch prepare = symmetric;
  prepare.kernel = Kernel::prepare, prepare.c = prepare.b;
  Launch solve = symmetric;  // trsm by the inverses
  solve.kernel = Kernel::solve;
  return {small,  plain,     right_turned, left_turned, by_itself,
          by_two, symmetric, in_place,     prepare,     solve};
}

void launch(const Launch& what, CublasHandle& blas) {
  switch (what.kernel) {
    case Kernel::prepare:
      return blas.prepare(what);
    case Kernel::solve:
      return blas.solve(what);
    default:
      return blas.multiply(what);
  }
}

/// Shared by those who load beside the program.
std::shared_mutex& under_way() {
  static std::shared_mutex mutex;
  return mutex;
}

/// Kernels are the process's, whatever context of the library asked for them. How many of
/// usual_launches() have been made, by CUDA's number of the device and type.
std::atomic<std::size_t>& launched(int ordinal, std::size_t type) {
  constexpr std::size_t kMostDevices = 64;  // more of them share what is known
  static std::array<std::array<std::atomic<std::size_t>, kUsualTypes.size()>, kMostDevices> all{};
  return all[static_cast<std::size_t>(ordinal) % kMostDevices][type];
}

}  // namespace

struct KernelLoader::Device {
  bool is_done() const {
    for (std::size_t type = 0; type < kUsualTypes.size(); ++type)
      if (launched(ordinal, type) < kUsualLaunches) return false;
    return true;
  }
  ~Device() {
    DeviceScope scope;
    scope.try_use(ordinal);
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

  /// Makes the next of the usual launches of a type, if this process has made fewer than `wanted`.
  /// With the lock of the device, which is the current one.
  bool load_next(Device& device, std::size_t type, std::size_t wanted) const {
    std::atomic<std::size_t>& made = launched(device.ordinal, type);
    std::size_t next = made;
    if (next >= wanted || any_stream_is_held()) return false;
    if (device.blas == nullptr) make_handle(device);
    launch(usual_launches(kUsualTypes[type], device.blas->scratch())[next], *device.blas);
    check(cudaStreamSynchronize(device.stream), "the first product");
    made.compare_exchange_strong(next, next + 1);  // another context may have made it too
    ExitGuard::install_again();  // before the handlers that cuBLAS has installed meanwhile
    return true;
  }

  /// Beside the program: nothing once a call is there. The first launch of each type comes before
  /// all others.
  void load_all(Device& device) const {
    for (const std::size_t wanted : {std::size_t{1}, kUsualLaunches})
      for (std::size_t type = 0; type < kUsualTypes.size(); ++type)
        for (bool more = true; more;) {
          const ExitGuard inside;
          const std::shared_lock loading(under_way());
          const std::lock_guard lock(device.mutex);
          if (device.is_wanted) return;
          const DeviceScope scope(device.ordinal);
          more = load_next(device, type, wanted);
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
  for (Device& device : shared_->devices) device.is_wanted = true;  // no more is
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
  // The program's handlers of signals are for its own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    for (Device& device : shared_->devices) {
      if (device.is_done()) continue;
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
  const std::shared_lock loading(under_way());  // no other context holds a stream meanwhile
  const std::lock_guard lock(device.mutex);
  const DeviceScope scope(device.ordinal);
  if (!device.has_had_handle) shared_->make_handle(device);
  for (std::size_t type = 0; type < kUsualTypes.size(); ++type) shared_->load_next(device, type, 1);
  if (shared_->solver != nullptr && device.solver == nullptr)
    device.solver = CusolverHandle::make(shared_->solver, nullptr);
}

std::unique_lock<std::shared_mutex> KernelLoader::wait_for_all() {
  return std::unique_lock(under_way());
}

}  // namespace fleet::cuda
