// SPDX-License-Identifier: BSD-3-Clause
// workshop.hpp: the cores of a rank, set up for a way to hide messages. It knows no matrices.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "schedule/tasks.hpp"
#include "work/context.hpp"
#include "work/rank.hpp"

namespace fleet::lu {

/// How panels go from device to device of different processes.
enum class DeviceComm { best, host, nccl };

/// What a rank computes with.
struct Means {
  int cores = 1;
  bool progress_thread = false;
  double patience_s = 600;
  /// That a rank may take; 0: not known.
  double memory_bytes = 0;
  bool keeps_spans = false;
  /// Devices that take part in products; the matrix is in host memory.
  std::optional<DeviceMeans> devices;
  /// Numbers of the devices in whose memory the rank's part of the matrix is; none: it is on the
  /// host.
  std::vector<int> matrix_devices;
  DeviceComm device_comm = DeviceComm::best;
  double most_flops_per_s = 0;  ///< of a core at products, for tests; 0: as fast as it is
};

/// A context of the library, whose CPU BLAS has so many threads.
class CpuContext {
 public:
  /// Throws Failure.
  explicit CpuContext(int threads);
  fleet_context* get() const { return context_.get(); }
  /// The CPU BLAS that it uses, as the library words it.
  std::string blas() const;

 private:
  Context context_;
};

/// The cores of a rank at work. With `full`, the thread that drives messages is one of the crew
/// when it has nothing to drive; with `dedicated` it keeps its core (paper 3, Fig. 10).
class Workshop {
 public:
  /// Throws Failure where the system gives no threads or the library no context.
  Workshop(const Means& means, Overlap overlap);
  const Rank& rank() const { return *rank_; }

 private:
  Recorder recorder_;
  const bool shares_core_, keeps_core_;
  Crew crew_;
  CpuContext one_;
  std::optional<CpuContext> all_;
  std::optional<Devices> devices_;
  Engine engine_;
  Blas one_core_, all_cores_;
  std::optional<Rank> rank_;
};

}  // namespace fleet::lu
