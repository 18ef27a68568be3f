// SPDX-License-Identifier: BSD-3-Clause
// execution.hpp: runs of plans on virtual devices: which thread works on which queues. It must not
// know how plans are made.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "backend/host/memory.hpp"
#include "base/options.hpp"
#include "base/worker_crew.hpp"
#include "cpu/blas.hpp"
#include "run/backend.hpp"
#include "run/faults.hpp"
#include "run/places.hpp"

namespace fleet::host {

struct Workplace;

/// Who works in which run.
struct Roster {
  /// By worker, who is told of a new one by an invitation.
  std::vector<std::shared_ptr<Workplace>> workplaces;
};

/// The state that the runs of a backend share.
struct Devices {
  Devices(const Machine& shape, std::shared_ptr<CpuBlas> cpu_blas, const Options& options);
  int locations() const { return static_cast<int>(machine.devices.size()); }
  /// Throws Error(device_failed) in a forked child, and while the process exits.
  void require_threads() const;
  bool is_busy(DeviceId location) const;

  const Machine machine;
  const Inject inject;
  const std::shared_ptr<CpuBlas> blas;
  const std::shared_ptr<Faults> faults;
  Memory memory;
  const std::shared_ptr<Roster> roster;
  WorkerCrew crew;  ///< a thread per location
  std::atomic<std::uint64_t> runs_alone{0};
  mutable std::mutex mutex;                             ///< of the next three
  Places busy;                                          ///< runs are under way there
  std::vector<std::shared_ptr<Workplace>> free_places;  ///< of earlier runs; with room for all
  std::size_t places_made = 0;
};

/// See Backend::begin. By one thread at a time, while other threads may be at runs that have begun.
/// Throws Error(no_memory, device_failed).
std::unique_ptr<Execution> begin_run(Devices& devices, const Plan& plan);

}  // namespace fleet::host
