// SPDX-License-Identifier: BSD-3-Clause
// execution.hpp: runs of plans on virtual devices: which thread works on which queues. It must not
// know how plans are made.
#pragma once
#include <cstdint>
#include <memory>

#include "backend/host/memory.hpp"
#include "base/options.hpp"
#include "base/worker_crew.hpp"
#include "cpu/blas.hpp"
#include "run/backend.hpp"
#include "run/faults.hpp"

namespace fleet::host {

struct Workplace;

/// The state that the runs of a backend share.
struct Devices {
  Devices(const Machine& shape, std::shared_ptr<CpuBlas> cpu_blas, const Options& options);
  int locations() const { return static_cast<int>(machine.devices.size()); }
  /// Throws Error(device_failed) in a forked child, and while the process exits.
  void require_threads() const;

  const Machine machine;
  const Inject inject;
  const std::shared_ptr<CpuBlas> blas;
  const std::shared_ptr<Faults> faults;
  Memory memory;
  const std::shared_ptr<Workplace> place;
  WorkerCrew crew;  ///< a thread per location
  bool is_running = false;
  std::uint64_t runs_alone = 0;
};

/// See Backend::begin. Throws Error(no_memory, device_failed).
std::unique_ptr<Execution> begin_run(Devices& devices, const Plan& plan);

}  // namespace fleet::host
