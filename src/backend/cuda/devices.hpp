// SPDX-License-Identifier: BSD-3-Clause
// devices.hpp: what a backend starts once, and its runs share. It must not know how plans are made.
#pragma once
#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <vector>

#include "backend/cuda/blas.hpp"
#include "backend/cuda/graphs.hpp"
#include "backend/cuda/kernel_loader.hpp"
#include "backend/cuda/machine.hpp"
#include "backend/cuda/memory.hpp"
#include "backend/cuda/ranges.hpp"
#include "backend/cuda/run.hpp"
#include "backend/cuda/stager.hpp"
#include "backend/cuda/streams.hpp"
#include "base/options.hpp"
#include "base/phases.hpp"
#include "run/faults.hpp"
#include "run/issuers.hpp"
#include "run/places.hpp"

namespace fleet::cuda {

/// The state that the runs of a backend share.
struct Devices {
  /// `cuda_ordinals`: CUDA's numbers of the devices from kFirstDevice on.
  Devices(const Options& options, const std::vector<int>& cuda_ordinals, Phases& of_start);
  /// `contexts` are done when the devices' contexts are made.
  Devices(const Options& options, const std::vector<int>& cuda_ordinals, Phases& of_start,
          std::future<void> contexts);
  Devices(const Devices&) = delete;
  Devices& operator=(const Devices&) = delete;
  /// The stream's handle, made for the first that asks, with its device as the current one.
  CublasHandle& blas_of(Stream& stream);
  int ordinal(DeviceId device) const {
    return ordinals[static_cast<std::size_t>(device - kFirstDevice)];
  }

  Phases& phases;
  const std::vector<int> ordinals;
  const std::shared_ptr<const CublasLibrary> cublas;
  const std::shared_ptr<const CusolverLibrary> cusolver;  ///< none: it is not there, or not wanted
  const std::vector<std::vector<Peer>> peers;
  const Machine whole;  ///< with the links that a test takes away
  Machine machine;
  const Inject inject;
  std::atomic<bool> graphs_wanted;
  bool is_timed = false;
  Faults faults;
  Memory memory;
  Streams streams;
  std::unique_ptr<Stager> stager;  ///< made for the first plan with pageable memory
  Graphs graphs;
  const Ranges ranges;
  KernelLoader loader;
  Issuers issuers;                              ///< by CUDA's numbers
  std::mutex mutex;                             ///< of the next two
  Places busy;                                  ///< runs are under way there
  std::vector<std::unique_ptr<Run>> free_runs;  ///< earlier ones, whose events are used again
};

/// Whether cuSOLVER is looked for. Variables that change what cuBLAS computes change what cuSOLVER
/// does with it, and nothing keeps that native.
bool wants_cusolver(const Options& options);

/// The threads of the CPU that copy between pageable memory and the pinned ring.
int copy_threads();

}  // namespace fleet::cuda
