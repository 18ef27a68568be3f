// SPDX-License-Identifier: BSD-3-Clause
// settings.cpp: arguments of the form --name=value.
#include "hpl/settings.hpp"

#include <array>
#include <sstream>

namespace fleet::lu {
namespace {

/// Cores or ranks.
constexpr int kMost = 1 << 20;

constexpr std::array kOverlaps = {Overlap::none, Overlap::lookahead, Overlap::dedicated,
                                  Overlap::full};

[[noreturn]] void refuse(const std::string& name, const std::string& value,
                         const std::string& wanted) {
  throw Failure(name + "=" + value + ": " + wanted + " is needed");
}

Overlap overlap_of(const std::string& name, const std::string& value) {
  for (const Overlap overlap : kOverlaps)
    if (value == to_string(overlap)) return overlap;
  refuse(name, value, "none, lookahead, dedicated or full");
}

MatrixPlace matrix_of(const std::string& name, const std::string& value) {
  if (value == "auto") return MatrixPlace::best;
  if (value == "host") return MatrixPlace::host;
  if (value == "devices") return MatrixPlace::devices;
  refuse(name, value, "auto, host or devices");
}

DeviceComm device_comm_of(const std::string& name, const std::string& value) {
  if (value == "auto") return DeviceComm::best;
  if (value == "nccl") return DeviceComm::nccl;
  if (value == "host") return DeviceComm::host;
  refuse(name, value, "auto, host or nccl");
}

bool either(const std::string& name, const std::string& value, const char* yes, const char* no) {
  if (value == yes) return true;
  if (value == no) return false;
  refuse(name, value, std::string(yes) + " or " + no);
}

template <typename Number>
Number number(const std::string& name, const std::string& value, Number least, Number most) {
  std::istringstream text(value);
  Number found{};
  if (!(text >> found) || !text.eof() || !(found >= least && found <= most))
    refuse(name, value,
           (std::ostringstream() << "a number from " << least << " to " << most).str());
  return found;
}

/// Nothing: auto.
std::optional<double> share_of(const std::string& name, const std::string& value) {
  if (value == "auto") return {};
  return number(name, value, 0.0, 1.0);
}

}  // namespace

const char* to_string(Overlap overlap) {
  switch (overlap) {
    case Overlap::none:
      return "none";
    case Overlap::lookahead:
      return "lookahead";
    case Overlap::dedicated:
      return "dedicated";
    case Overlap::full:
      return "full";
  }
  return "";
}

bool Settings::has_progress_thread(Overlap overlap) const {
  return progress_thread.value_or(overlap >= Overlap::dedicated);
}

Settings parse_settings(std::span<const char* const> arguments) {
  Settings settings;
  DeviceMeans devices{.which = "none"};
  for (const std::string argument : arguments) {
    if (argument == "--help" || argument == "-h") {
      settings.asks_for_help = true;
      continue;
    }
    const std::size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    const std::string value = equals == argument.npos ? "" : argument.substr(equals + 1);
    if (name == "--input")
      settings.input = value;
    else if (name == "--overlap")
      settings.schedule.overlap = overlap_of(name, value);
    else if (name == "--progress")
      settings.progress_thread = either(name, value, "thread", "none");
    else if (name == "--pivot")
      settings.schedule.pivoting =
          either(name, value, "partial", "none") ? Pivoting::partial : Pivoting::none;
    else if (name == "--matrix")
      settings.matrix = matrix_of(name, value);
    else if (name == "--device-comm")
      settings.device_comm = device_comm_of(name, value);
    else if (name == "--cores")
      settings.cores = number(name, value, 0, kMost);
    else if (name == "--ranks")
      settings.ranks = number(name, value, 0, kMost);
    else if (name == "--patience")
      settings.patience_s = number(name, value, 0.0, kForever);
    else if (name == "--devices")
      devices.which = value;
    else if (name == "--cpu-share")
      devices.cpu_share = share_of(name, value);
    else if (name == "--transfer-overlap")
      devices.overlaps_transfers = either(name, value, "on", "off");
    else if (name == "--trace")
      settings.trace = value;
    else
      throw Failure(argument + ": there is no such argument (--help lists them)");
  }
  if (devices.which == "none" && (devices.cpu_share || !devices.overlaps_transfers))
    throw Failure(
        "--cpu-share and --transfer-overlap say how --devices compute, which are missing");
  if (devices.which != "none") {
    if (settings.matrix == MatrixPlace::devices)
      throw Failure(
          "--devices is for matrices in host memory, and --matrix=devices asks for another one");
    settings.devices = devices;
    settings.matrix = MatrixPlace::host;
  }
  return settings;
}

const char* usage() {
  return R"(usage: mpirun -n RANKS fleetblas-linpack [--name=value ...]

Solves the random systems that HPL.dat in the current folder asks for, by LU with partial pivoting over
a grid of MPI ranks, and prints HPL's lines. Ends with 0 where all residuals pass, 1 where one does not
or a test was skipped, and 2 where nothing could be run or the run could not go on.

  --input=HPL.dat       the file
  --overlap=full        how far messages are hidden under products: none; lookahead (the next panel is
                        factored and sent before the rest of a step is updated); dedicated (the same,
                        with a core of its own for messages); full (that core takes part in products
                        while no message is under way)
  --progress=thread     what drives messages: a thread, or none (whoever computes looks after them
                        between tasks). Default: thread with dedicated and full, else none
  --pivot=partial       none: without pivots, for timing messages and products; no Linpack result
  --matrix=auto         where the matrix is: in memory of the host, or of devices (one for each rank, all for a
                        single one); auto: of devices where all ranks have one, and these have room
  --device-comm=auto    how panels go between devices of different processes: by nccl, which has to be found, with a
                        GPU for each rank, or over memory of the host; auto: by nccl where it starts
  --cores=0             cores of a rank; 0: those that it may use, shared with ranks that may too
  --ranks=0             this many ranks as threads of one process, without mpirun; 0: MPI's ranks
  --devices=none        devices that take part in products: all, auto, a count (2), ids (0,2) or split
                        (between the ranks of a node), as FLEETBLAS_DEVICES; the matrix is in host memory then
  --cpu-share=auto      R, the cores' part of products beside devices: by what both took before, or a
                        number from 0 to 1
  --transfer-overlap=on off: operands are copied to devices, computed with and copied back in turn
  --patience=600        seconds that a rank waits for another one before all end
  --trace=FILE          the timeline of all ranks (Chrome trace JSON)
)";
}

}  // namespace fleet::lu
