// SPDX-License-Identifier: BSD-3-Clause
// options.cpp: the table of settings, and their values as text. The only code that reads the
// environment; it opens no file but the one named by FLEETBLAS_CONFIG.
#include "base/options.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>

#include "base/cpu_share.hpp"
#include "base/error.hpp"
#include "base/json_text.hpp"
#include "base/text.hpp"

namespace fleet {
namespace {

constexpr int kMostCpuThreads = 4096;

constexpr std::array<OptionInfo, 30> kTable = {{
    {"backend", "auto", "auto, cuda, host (virtual devices on the CPU) or sim (plans only)"},
    {"devices", "auto",
     "auto (of all, those with which a call is fastest), all, a count (4), ids (0,2 or 2,) or "
     "split (between MPI ranks); all are 4 on the host backend"},
    {"offload", "auto", "auto (the model decides), never or always"},
    {"objective", "time",
     "what plans are chosen for: time, edp (energy x time), energy (or pdp), or energy@X (least "
     "energy within X times the least time)"},
    {"machine", "", "machine file, or the name of a shipped one; empty: the measured one"},
    {"memory_cap", "0", "bytes per device for staging (suffixes K, M, G); 0: 80 % of what is free"},
    {"tile", "0",
     "edge of square tiles in elements; 0: by model, longer than wide where that pays"},
    {"grid", "0",
     "rows x columns of the workers over C, as in 2x4; 0, and with another number of workers: by "
     "model"},
    {"max_hops", "1",
     "most other devices that a tile passes through where that is faster: 0, 1 or 2"},
    {"cpu_share", "auto",
     "the part of a product that the CPU computes beside the devices: auto (the model decides), "
     "off "
     "or a number (0.25)"},
    {"rules", "all", "planner rules: all, none or a comma-joined list"},
    {"preset", "",
     "plans follow another library as far as its paper tells: cublasxt, blasx, xkblas, paralia or "
     "uncut; empty: our own"},
    {"min_flops", "0", "smallest product offloaded, in flops; 0: by model, 1: everything"},
    {"linalg", "1", "0: the drop-in leaves LAPACK's routines alone, and serves level 3 in them"},
    {"verbose", "0", "1: one line per call on stderr"},
    {"log_level", "0", "0 silent, 1 errors, 2 warnings, 3 hints, 4 information, 5 everything"},
    {"log_file", "", "file for the log; empty: stderr"},
    {"summary", "", "1: a summary on stderr at exit; else a file (.json: as JSON; %p: process id)"},
    {"trace", "",
     "file for the timeline of the last calls, at exit (Chrome trace JSON; %p: process id); 0: "
     "none"},
    {"timeline", "0", "1: measure each task for fleet_trace_json, which costs time on GPUs"},
    {"cpu_blas", "", "library file of the CPU BLAS; empty: searched for"},
    {"cpu_threads", "0", "threads of the CPU BLAS; 0: one for each core that the process may use"},
    {"cache_dir", "",
     "folder for measured machines; not set: ~/.cache/fleetblas, or fleetblas in $XDG_CACHE_HOME; "
     "empty: nothing is kept"},
    {"deterministic", "0",
     "1: devices multiply copies only, so that the alignment of operands changes no bits"},
    {"online", "on",
     "off: what runs take does not correct the model of the machine (deterministic: off)"},
    {"graphs", "1", "0: GPUs never replay a plan as one graph"},
    {"cusolver", "1", "0: GPUs factor panels of Cholesky by kernels of ours, cuSOLVER or not"},
    {"device_library", "", "test hook: library with the GPU backend; empty: the one beside this"},
    {"device_memory", "0", "test hook: memory of a device in bytes (suffixes K, M, G); 0: its own"},
    {"inject", "", "test hook: comma-joined faults, see docs/reference/testing.md"},
}};

[[noreturn]] void refuse(std::string_view name, std::string_view value, std::string_view allowed) {
  throw Error(Status::bad_option,
              std::string(name) + "=" + std::string(value) + ": expected " + std::string(allowed));
}

int integer_in(std::string_view name, std::string_view value, int low, int high) {
  const auto number = number_of<int>(value);
  if (!number || *number < low || *number > high)
    refuse(name, value, "a number from " + std::to_string(low) + " to " + std::to_string(high));
  return *number;
}

std::int64_t size_for(std::string_view name, std::string_view value) {
  try {
    return parse_size(value);
  } catch (const Error&) {
    refuse(name, value, "a size such as 0, 4096, 512M or 16G");
  }
}

template <typename Enum, std::size_t N>
Enum word_in(std::string_view name, std::string_view value,
             const std::array<std::pair<std::string_view, Enum>, N>& words) {
  std::string allowed;
  for (const auto& [word, meaning] : words) {
    if (word == value) return meaning;
    allowed += (allowed.empty() ? "" : ", ") + std::string(word);
  }
  refuse(name, value, allowed);
}

constexpr std::array<std::pair<std::string_view, BackendKind>, 4> kBackends = {
    {{"auto", BackendKind::automatic},
     {"cuda", BackendKind::cuda},
     {"host", BackendKind::host},
     {"sim", BackendKind::sim}}};
constexpr std::array<std::pair<std::string_view, Offload>, 3> kOffloads = {
    {{"auto", Offload::automatic}, {"never", Offload::never}, {"always", Offload::always}}};

template <typename Enum, std::size_t N>
std::string word_of(Enum value, const std::array<std::pair<std::string_view, Enum>, N>& words) {
  for (const auto& [word, meaning] : words)
    if (meaning == value) return std::string(word);
  return {};
}

/// Empty in a setuid program, since its caller must not choose the libraries that it loads.
std::string environment(const std::string& name) {
  const char* value = secure_getenv(name.c_str());
  return value == nullptr ? std::string() : std::string(value);
}

/// Set, if only to nothing; nor that in a setuid program.
bool is_in_environment(const std::string& name) { return secure_getenv(name.c_str()) != nullptr; }

void set_devices(Options& options, std::string_view value) {
  constexpr std::string_view kAllowed = "auto, all, a count (4), ids (0,2 or 2,) or split";
  constexpr int kMost = 4096;
  const bool selects = value.empty() || value == "auto";
  int count = 0;
  std::vector<int> ids;
  std::optional<LocalRank> rank;
  if (value == "split") {
    rank = local_rank(environment);
  } else if (value.find(',') != std::string_view::npos) {
    auto words = split(value, ',');
    if (words.back().empty()) words.pop_back();
    for (const std::string_view word : words) {
      const auto id = number_of<int>(trimmed(word));
      if (!id || *id < 0 || *id >= kMost || std::ranges::count(ids, *id) > 0)
        refuse("devices", value, kAllowed);
      ids.push_back(*id);
    }
    if (ids.empty()) refuse("devices", value, kAllowed);
  } else if (!selects && value != "all") {
    const auto number = number_of<int>(value);
    if (!number || *number < 1 || *number > kMost) refuse("devices", value, kAllowed);
    count = *number;
  }
  options.selects_devices = selects;
  options.device_count = count;
  options.device_ids = ids;
  options.split = rank;
}

std::string devices_text(const Options& options) {
  if (options.split) return "split";
  if (options.device_count > 0) return std::to_string(options.device_count);
  if (options.device_ids.empty()) return options.selects_devices ? "auto" : "all";
  std::string text;
  for (const int id : options.device_ids) text += std::to_string(id) + ",";
  if (options.device_ids.size() > 1) text.pop_back();
  return text;
}

void set_inject(Options& options, std::string_view value) {
  options.inject = parse_inject(value);
  options.inject_text = value;
}

void set_min_flops(Options& options, std::string_view value) {
  const auto number = number_of<double>(value);
  if (!number || !(*number >= 0)) refuse("min_flops", value, "a number of flops such as 0 or 1e9");
  options.min_flops = *number;
}

/// "2x4". The model chooses the grid of a call whose number of workers does not match.
void set_grid(Options& options, std::string_view value) {
  const std::size_t at = value.find('x');
  const auto rows = number_of<int>(value.substr(0, at));
  const auto cols = at == std::string_view::npos ? rows : number_of<int>(value.substr(at + 1));
  const bool none = value.empty() || value == "0";
  if (!none && (at == std::string_view::npos || !rows || !cols || *rows < 1 || *cols < 1))
    refuse("grid", value, "rows x columns such as 2x4, or 0");
  options.grid_rows = none ? 0 : *rows;
  options.grid_cols = none ? 0 : *cols;
}

bool flag_of(std::string_view name, std::string_view value) {
  if (value == "1" || value == "on" || value == "true" || value == "yes") return true;
  if (value == "0" || value == "off" || value == "false" || value == "no") return false;
  refuse(name, value, "on or off, 1 or 0");
}

void set_value(Options& options, std::string_view name, std::string_view value) {
  if (name == "backend") {
    options.backend = word_in(name, value, kBackends);
  } else if (name == "devices") {
    set_devices(options, value);
  } else if (name == "offload") {
    options.offload = word_in(name, value, kOffloads);
  } else if (name == "objective") {
    options.objective = value.empty() ? Objective{} : parse_objective(value);
  } else if (name == "machine") {
    options.machine = value;
  } else if (name == "memory_cap") {
    options.memory_cap = size_for(name, value);
  } else if (name == "tile") {
    options.tile = size_for(name, value);
  } else if (name == "grid") {
    set_grid(options, value);
  } else if (name == "max_hops") {
    options.max_hops = integer_in(name, value, 0, 2);
  } else if (name == "cpu_share") {
    options.cpu_share = parse_cpu_share(value);
  } else if (name == "rules") {
    options.rules = value.empty() ? "all" : value;
  } else if (name == "preset") {
    options.preset = value;
  } else if (name == "min_flops") {
    set_min_flops(options, value);
  } else if (name == "linalg") {
    options.linalg = flag_of(name, value);
  } else if (name == "verbose") {
    options.verbose = value == "2" || flag_of(name, value) ? 1 : 0;  // 2 was a number that it took
  } else if (name == "log_level") {
    options.log_level = integer_in(name, value, 0, 5);
  } else if (name == "log_file") {
    options.log_file = value;
  } else if (name == "summary") {
    options.summary = value == "0" ? std::string_view() : value;
  } else if (name == "trace") {
    options.trace = value == "0" ? std::string_view() : value;
  } else if (name == "cpu_blas") {
    options.cpu_blas = value;
  } else if (name == "cpu_threads") {
    options.cpu_threads = integer_in(name, value, 0, kMostCpuThreads);
  } else if (name == "cache_dir") {
    options.cache_dir = value;
  } else if (name == "deterministic") {
    options.deterministic = flag_of(name, value);
  } else if (name == "timeline") {
    options.timeline = flag_of(name, value);
  } else if (name == "online") {
    options.online = flag_of(name, value);
  } else if (name == "graphs") {
    options.graphs = flag_of(name, value);
  } else if (name == "cusolver") {
    options.cusolver = flag_of(name, value);
  } else if (name == "device_library") {
    options.device_library = value;
  } else if (name == "device_memory") {
    options.device_memory = size_for(name, value);
  } else if (name == "inject") {
    set_inject(options, value);
  }
}

void write_value(JsonText& json, const Options& o, std::string_view name) {
  if (name == "backend") json.value(word_of(o.backend, kBackends));
  if (name == "devices") json.value(devices_text(o));
  if (name == "offload") json.value(word_of(o.offload, kOffloads));
  if (name == "objective") json.value(to_string(o.objective));
  if (name == "machine") json.value(o.machine);
  if (name == "memory_cap") json.value(o.memory_cap);
  if (name == "tile") json.value(o.tile);
  if (name == "grid")
    json.value(o.grid_rows == 0 ? "0"
                                : std::to_string(o.grid_rows) + "x" + std::to_string(o.grid_cols));
  if (name == "max_hops") json.value(o.max_hops);
  if (name == "cpu_share") json.value(cpu_share_text(o.cpu_share));
  if (name == "rules") json.value(o.rules);
  if (name == "preset") json.value(o.preset);
  if (name == "min_flops") json.value(o.min_flops);
  if (name == "linalg") json.value(o.linalg);
  if (name == "verbose") json.value(o.verbose);
  if (name == "log_level") json.value(o.log_level);
  if (name == "log_file") json.value(o.log_file);
  if (name == "summary") json.value(o.summary);
  if (name == "trace") json.value(o.trace);
  if (name == "cpu_blas") json.value(o.cpu_blas);
  if (name == "cpu_threads") json.value(o.cpu_threads);
  if (name == "cache_dir") json.value(o.cache_dir);
  if (name == "deterministic") json.value(o.deterministic);
  if (name == "timeline") json.value(o.timeline);
  if (name == "online") json.value(o.online);
  if (name == "graphs") json.value(o.graphs);
  if (name == "cusolver") json.value(o.cusolver);
  if (name == "device_library") json.value(o.device_library);
  if (name == "device_memory") json.value(o.device_memory);
  if (name == "inject") json.value(o.inject_text);
}

/// Folder for measured machines, by the XDG rules; none without a home folder.
std::string default_cache_dir() {
  const std::string cache = environment("XDG_CACHE_HOME");
  if (cache.starts_with('/')) return cache + "/fleetblas";
  const std::string home = environment("HOME");
  return home.starts_with('/') ? home + "/.cache/fleetblas" : std::string();
}

/// Applies one setting; an invalid value becomes a complaint that begins with `where`.
void apply(Options& options, std::string_view name, std::string_view value, Origin origin,
           const std::string& where, std::vector<std::string>& complaints) {
  try {
    set_option(options, name, value, origin);
  } catch (const Error& error) {
    complaints.push_back(where + error.what());
  }
}

void read_file(Options& options, const std::string& file, std::vector<std::string>& complaints) {
  // A relative path would make the settings depend on the working directory.
  if (!file.starts_with('/')) {
    complaints.push_back("FLEETBLAS_CONFIG=" + file + ": expected an absolute path");
    return;
  }
  std::ifstream stream(file);
  if (!stream) {
    complaints.push_back("FLEETBLAS_CONFIG=" + file + ": cannot be read");
    return;
  }
  int number = 0;
  for (std::string line; std::getline(stream, line);) {
    const std::string where = file + ":" + std::to_string(++number) + ": ";
    const std::string_view text = trimmed(line);
    if (text.empty() || text.front() == '#') continue;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos)
      complaints.push_back(where + "expected name=value");
    else
      apply(options, trimmed(text.substr(0, equals)), trimmed(text.substr(equals + 1)),
            Origin::file, where, complaints);
  }
}

}  // namespace

const char* to_string(Origin origin) {
  switch (origin) {
    case Origin::fallback:
      return "default";
    case Origin::file:
      return "file";
    case Origin::environment:
      return "environment";
    case Origin::caller:
      return "caller";
  }
  return "unknown";
}

std::span<const OptionInfo> option_table() { return kTable; }

std::string environment_name(std::string_view option) {
  std::string name = "FLEETBLAS_";
  for (const char c : option)
    name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

void set_option(Options& options, std::string_view name, std::string_view value, Origin origin) {
  const auto row = std::ranges::find(kTable, name, &OptionInfo::name);
  if (row == kTable.end()) {
    std::string known;
    for (const OptionInfo& info : kTable)
      known += (known.empty() ? "" : ", ") + std::string(info.name);
    throw Error(Status::bad_option,
                std::string(name) + ": no such option; known options: " + known);
  }
  set_value(options, name, value);
  options.origins.resize(kTable.size(), Origin::fallback);
  options.origins[static_cast<std::size_t>(row - kTable.begin())] = origin;
}

void set_options(Options& options, std::string_view text) {
  for (const std::string_view line : split(text, '\n')) {
    for (const std::string_view part : split(line, ';')) {
      const std::string_view setting = trimmed(part);
      if (setting.empty()) continue;
      const std::size_t equals = setting.find('=');
      if (equals == std::string_view::npos)
        throw Error(Status::bad_option, std::string(setting) + ": expected name=value");
      set_option(options, trimmed(setting.substr(0, equals)), trimmed(setting.substr(equals + 1)),
                 Origin::caller);
    }
  }
}

Options read_options(std::vector<std::string>& complaints) {
  Options options;
  options.cache_dir = default_cache_dir();
  const std::string file = environment("FLEETBLAS_CONFIG");
  if (!file.empty()) read_file(options, file, complaints);
  for (const OptionInfo& info : kTable) {
    const std::string variable = environment_name(info.name);
    const std::string value = environment(variable);
    // Nothing is as good as not set, but where nothing is a value and not the default.
    const bool is_no_folder =
        std::string_view(info.name) == "cache_dir" && is_in_environment(variable);
    if (!value.empty() || is_no_folder)
      apply(options, info.name, trimmed(value), Origin::environment, variable + ": ", complaints);
  }
  return options;
}

bool environment_changes_cublas() {
  return std::ranges::any_of(std::array{"CUBLAS_EMULATE_SINGLE_PRECISION",
                                        "CUBLAS_EMULATE_DOUBLE_PRECISION", "NVIDIA_TF32_OVERRIDE"},
                             [](const char* name) {
                               const std::string value = environment(name);
                               return !value.empty() && value != "0";
                             });
}

std::int64_t parse_size(std::string_view text) {
  const std::string_view whole = text;
  std::int64_t unit = 1;
  if (!text.empty()) {
    switch (std::toupper(static_cast<unsigned char>(text.back()))) {
      case 'K':
        unit = std::int64_t{1} << 10;
        break;
      case 'M':
        unit = std::int64_t{1} << 20;
        break;
      case 'G':
        unit = std::int64_t{1} << 30;
        break;
    }
  }
  if (unit > 1) text.remove_suffix(1);
  const auto number = number_of<std::int64_t>(text);
  if (!number || *number < 0 || *number > std::numeric_limits<std::int64_t>::max() / unit)
    throw Error(Status::bad_option,
                std::string(whole) + ": expected a size such as 4096, 512M or 16G");
  return *number * unit;
}

std::string to_json(const Options& options) {
  JsonText json;
  json.open('{');
  for (std::size_t i = 0; i < kTable.size(); ++i) {
    const Origin origin = i < options.origins.size() ? options.origins[i] : Origin::fallback;
    json.key(kTable[i].name).open('{').key("value");
    write_value(json, options, kTable[i].name);
    json.member("origin", to_string(origin)).close('}');
  }
  return json.close('}').text();
}

}  // namespace fleet
