// SPDX-License-Identifier: BSD-3-Clause
// devices.cpp: the start of GPUs: libraries, contexts, peers. It must not know runs.
#include "backend/cuda/devices.hpp"

#include <gnu/libc-version.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "backend/cuda/device_scope.hpp"
#include "base/exit_guard.hpp"
#include "cpu/blas.hpp"

namespace fleet::cuda {
namespace {

/// By another thread, if there is one and if libraries can be loaded beside it: glibc before 2.34
/// may abort where threads start while a library with thread-local data is loaded (its bug 19329).
std::future<void> begin_contexts(const std::vector<int>& ordinals, Phases& phases) {
  int major = 0, minor = 0;
  std::sscanf(gnu_get_libc_version(), "%d.%d", &major, &minor);
  const bool is_safe = major > 2 || (major == 2 && minor >= 34);
  return std::async(is_safe ? std::launch::async | std::launch::deferred : std::launch::deferred,
                    [&] { phases.time("contexts", [&] { start_contexts(ordinals); }); });
}

/// Where there is none, nobody needs the contexts.
std::shared_ptr<const CublasLibrary> load_cublas(std::future<void>& contexts,
                                                 const std::vector<int>& ordinals) {
  try {
    return CublasLibrary::load();
  } catch (...) {
    if (contexts.wait_for(std::chrono::seconds(0)) != std::future_status::deferred) {
      contexts.get();
      for (const int ordinal : ordinals) release_context(ordinal);
    }
    throw;
  }
}

std::vector<std::vector<Peer>> connected(std::future<void>& contexts,
                                         const std::vector<int>& ordinals, Phases& phases) {
  contexts.get();
  return phases.time("peer access", [&] { return connect(ordinals); });
}

std::shared_ptr<const CusolverLibrary> load_cusolver(const Options& options,
                                                     const CublasLibrary& cublas) {
  return wants_cusolver(options) ? CusolverLibrary::load(cublas.version()) : nullptr;
}

}  // namespace

int copy_threads() {
  // Copies of host memory gain from every core up to here; runs need few of them for more.
  constexpr int kMost = 32;
  return std::clamp(core_count() - 2, 2, kMost);
}

bool wants_cusolver(const Options& options) {
  return options.cusolver && !environment_changes_cublas();
}

Devices::Devices(const Options& options, const std::vector<int>& cuda_ordinals, Phases& of_start)
    : Devices(options, cuda_ordinals, of_start, begin_contexts(cuda_ordinals, of_start)) {}

Devices::Devices(const Options& options, const std::vector<int>& cuda_ordinals, Phases& of_start,
                 std::future<void> contexts)
    : phases(of_start),
      ordinals(cuda_ordinals),
      cublas(phases.time("libraries", [&] { return load_cublas(contexts, ordinals); })),
      cusolver(phases.time("libraries", [&] { return load_cusolver(options, *cublas); })),
      peers(connected(contexts, ordinals, phases)),
      whole(
          shape_of(ordinals, peers, cusolver ? CholeskyPanels::cusolver : CholeskyPanels::kernels)),
      machine(without_peers(whole, options.inject)),
      inject(options.inject),
      graphs_wanted(options.graphs),
      faults(inject, machine, whole),
      memory({.ordinals = ordinals,
              .limit_bytes = options.device_memory,
              .failing_allocation = inject.alloc,
              .poison = inject.poison}),
      streams(ordinals),
      loader(cublas, cusolver, ordinals),
      issuers(std::ranges::max(ordinals) + 1) {
  for (std::size_t d = kFirstDevice; d < machine.devices.size(); ++d) {
    std::int64_t& bytes = machine.devices[d].memory_bytes;
    if (options.device_memory > 0) bytes = std::min(bytes, options.device_memory);
  }
  // After CUDA has installed its own: what is installed last is called first.
  ExitGuard::install();
  loader.begin();
}

CublasHandle& Devices::blas_of(Stream& stream) {
  if (!stream.blas) {
    const auto at = std::ranges::find(ordinals, stream.ordinal) - ordinals.begin();
    stream.blas = loader.take(static_cast<std::size_t>(at), stream.stream);
  }
  return *stream.blas;
}

}  // namespace fleet::cuda
