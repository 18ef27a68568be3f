// SPDX-License-Identifier: BSD-3-Clause
// settings.hpp: the command line of fleetblas-linpack. It knows no ranks.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "factor/factor.hpp"
#include "work/workshop.hpp"

namespace fleet::lu {

/// Where the matrix is: in host memory, in that of a device for each rank, or there where all ranks
/// have one and the grid allows it.
enum class MatrixPlace { host, devices, best };

struct Settings {
  std::string input = "HPL.dat";
  Schedule schedule;
  /// A thread drives messages; nothing: with overlaps that have a core for it.
  std::optional<bool> progress_thread;
  int cores = 0;  ///< of a rank; 0: what the process may use, shared with others on the node
  int ranks = 0;  ///< threads of this process instead of processes; 0: MPI's
  double patience_s = 600;
  /// Devices that take part in products, with the matrix in host memory.
  std::optional<DeviceMeans> devices;
  std::string trace;  ///< file for the timeline of all ranks
  MatrixPlace matrix = MatrixPlace::best;
  DeviceComm device_comm = DeviceComm::best;
  bool asks_for_help = false;

  /// Of trials with this overlap.
  bool has_progress_thread(Overlap overlap) const;
};

/// `arguments`: without the program's name. Throws Failure, which names the argument.
Settings parse_settings(std::span<const char* const> arguments);
/// What --help prints.
const char* usage();
const char* to_string(Overlap overlap);

}  // namespace fleet::lu
