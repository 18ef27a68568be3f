// SPDX-License-Identifier: BSD-3-Clause
// options.hpp: every setting, read once and passed on as a value. The only file (with its .cpp)
// that reads the environment.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/inject.hpp"
#include "base/local_rank.hpp"
#include "base/objective.hpp"

namespace fleet {

enum class BackendKind { automatic, cuda, host, sim };
enum class Offload { automatic, never, always };

/// Where a setting comes from; a later enumerator overrides an earlier one.
enum class Origin { fallback, file, environment, caller };
const char* to_string(Origin origin);  ///< "default", "file", "environment", "caller"

struct Options {
  BackendKind backend = BackendKind::automatic;
  bool selects_devices = true;     ///< `devices=auto`: a call may leave some out
  int device_count = 0;            ///< `devices=4`: 0 = all
  std::vector<int> device_ids;     ///< `devices=0,2` or `devices=2,`: these ids
  std::optional<LocalRank> split;  ///< `devices=split`: this process's share of all devices
  Offload offload = Offload::automatic;
  Objective objective;               ///< what plans are chosen for
  std::string machine;               ///< file or shipped name; empty: measured
  std::int64_t memory_cap = 0;       ///< bytes per device for slots; 0: 80 % of what is free
  std::string device_library;        ///< test hook: file with the GPU backend; empty: the real one
  std::int64_t device_memory = 0;    ///< test hook: bytes per device; 0: its real memory
  std::int64_t tile = 0;             ///< 0: by model
  int grid_rows = 0, grid_cols = 0;  ///< 0: by model
  int max_hops = 1;                  ///< most other devices on the way of a tile
  std::optional<double> cpu_share;   ///< of the work, beside the devices; nothing: by model
  std::string rules = "all";
  std::string preset;          ///< a library whose policies plans follow; empty: our own
  double min_flops = 0;        ///< smallest product offloaded; 0: by model, 1: everything
  bool linalg = true;          ///< the drop-in serves LAPACK's names too
  int verbose = 0;             ///< 1: a line per call on stderr
  int log_level = 0;           ///< 0 silent, 1 errors, 2 warnings, 3 hints, 4 info, 5 trace
  std::string log_file;        ///< instead of stderr
  std::string summary;         ///< "1": at exit on stderr; else a file it is written to
  std::string trace;           ///< file for the Chrome trace of all calls, written at exit
  std::string cpu_blas;        ///< library file with the CPU BLAS to use
  int cpu_threads = 0;         ///< of the CPU BLAS; 0: a thread per core of the process
  std::string cache_dir;       ///< where the measured machine is kept; empty: nowhere
  bool deterministic = false;  ///< devices never multiply operands in place
  bool timeline = false;       ///< each task is measured, as `trace` also asks for
  bool online = true;          ///< runs correct the model of the machine
  bool graphs = true;          ///< a plan used again is replayed as one CUDA graph
  bool cusolver = true;        ///< panels of Cholesky come from cuSOLVER where it is found
  Inject inject;
  std::string inject_text;      ///< `inject` as given
  std::vector<Origin> origins;  ///< by row of option_table(); rows beyond its end: defaults
};

/// One row of the table of settings: `FLEETBLAS_<NAME in capitals>` in the environment, `name` in
/// an option text and on the command line.
struct OptionInfo {
  const char* name;
  const char* fallback;  ///< the default, as text
  const char* meaning;
};
std::span<const OptionInfo> option_table();
std::string environment_name(std::string_view option);

/// Sets one option from text. Throws Error(bad_option) with one line: name, value and the allowed
/// values.
void set_option(Options& options, std::string_view name, std::string_view value,
                Origin origin = Origin::caller);

/// "name=value" lines (or ';' between them). Throws as set_option.
void set_options(Options& options, std::string_view text);

/// The options of this process: defaults, then the file named by FLEETBLAS_CONFIG (name=value
/// lines), then the environment; cache_dir defaults to the user's cache folder. Invalid values are
/// not fatal here: their options keep the defaults, and `complaints` gets one line for each.
Options read_options(std::vector<std::string>& complaints);

/// Do environment variables ask cuBLAS to emulate products or to round their factors
/// (CUBLAS_EMULATE_SINGLE_PRECISION, CUBLAS_EMULATE_DOUBLE_PRECISION, NVIDIA_TF32_OVERRIDE)?
bool environment_changes_cublas();

/// Sizes with the binary suffixes K, M, G ("4K" = 4096). Throws Error(bad_option).
std::int64_t parse_size(std::string_view text);

/// {"devices": {"value": "4", "origin": "environment"}, ...} for fleet_config_json.
std::string to_json(const Options& options);

}  // namespace fleet
