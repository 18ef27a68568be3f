// SPDX-License-Identifier: BSD-3-Clause
// cache.cpp: keeps the measured machine of this host in a file between processes. A fault of the
// file or its folder is no error, only a reason to measure again. It must not know plans.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/sizes.hpp"
#include "machine/corrections.hpp"
#include "probe/host_kernels.hpp"
#include "probe/probe.hpp"
#include "probe/watts.hpp"

namespace fleet {

bool same_shape(const Machine& machine, const Machine& shape) {
  const std::size_t ports = shape.ports.size();
  const auto same_ports = [&](std::vector<PortShare> shares, const std::vector<PortShare>& said) {
    std::erase_if(shares, [&](const PortShare& share) { return index(share.port) >= ports; });
    return std::ranges::equal(shares, said, {}, &PortShare::port, &PortShare::port);
  };
  return machine.ports.size() >= ports &&
         std::ranges::equal(std::span(machine.ports).first(ports), shape.ports, {}, &Port::name,
                            &Port::name) &&
         std::ranges::equal(machine.devices, shape.devices,
                            [&](const Device& x, const Device& y) {
                              return x.name == y.name && same_ports(x.ports, y.ports);
                            }) &&
         std::ranges::equal(machine.links, shape.links, [&](const Link& x, const Link& y) {
           return x.source == y.source && x.target == y.target && same_ports(x.ports, y.ports);
         });
}

namespace {

using Json = nlohmann::ordered_json;

/// To be raised whenever a probe measures, or the simulator interprets, a value differently.
constexpr int kProbeVersion = 15;
constexpr double kDevicesBudgetS = 1.2;
constexpr double kHostBudgetS = 0.4;
/// Measurements of one machine: a node that is always busy, or that the model cannot describe, must
/// not be measured at each start of a program.
constexpr int kMostMeasurements = 3;
/// A measurement is steady if at most one value in so many was disturbed.
constexpr std::ptrdiff_t kFewUnsettled = 50;
/// A machine of a hundred devices has ten thousand links of half a kilobyte each.
constexpr std::size_t kLargestFile = std::size_t{32} << 20;
/// Virtual devices with less memory cannot hold all tiles of a probe: their machine is not kept.
constexpr std::int64_t kProbedBytes = std::int64_t{256} << 20;

struct FileHandle {
  explicit FileHandle(int descriptor) : fd(descriptor) {}
  ~FileHandle() {
    if (fd >= 0) close(fd);
  }
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;
  int fd;
};

/// Sixteen hexadecimal digits that differ for different texts; no cryptographic hash.
std::string digest(const std::string& text) {
  std::uint64_t hash = 14695981039346656037U;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  constexpr char kDigits[] = "0123456789abcdef";
  std::string digits;
  for (int shift = 60; shift >= 0; shift -= 4) digits += kDigits[(hash >> shift) & 15U];
  return digits;
}

/// The pairs of places that copy directly. After `nopeer` or a change of the IOMMU settings there
/// are fewer, and the measurements belong to a different machine.
std::string pairs_of(const Machine& shape) {
  std::string pairs;
  for (const Link& link : shape.links)
    pairs += std::to_string(link.source) + ">" + std::to_string(link.target) + " ";
  return pairs;
}

/// Everything that the measured numbers depend on.
std::string key_of(const std::string& devices, const Machine& shape, const CpuBlas& blas) {
  return "probe " + std::to_string(kProbeVersion) + " schema " + std::to_string(kMachineSchema) +
         " " + devices + " cores " + std::to_string(core_count()) + " pairs " +
         digest(pairs_of(shape)) + " blas " + blas.name();
}

std::string file_name(const std::string& key) { return "machine-" + digest(key) + ".json"; }

/// The text of the file, if it is a plain file of this user that no other user can write.
std::optional<std::string> read_text(const std::string& path) {
  const FileHandle file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.fd < 0) return std::nullopt;
  struct stat status {};
  if (fstat(file.fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid() ||
      (status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return std::nullopt;
  std::string text;
  char piece[1 << 14];
  while (text.size() <= kLargestFile) {
    const ssize_t count = read(file.fd, piece, sizeof piece);
    if (count == 0) return text;
    if (count > 0)
      text.append(piece, static_cast<std::size_t>(count));
    else if (errno != EINTR)
      return std::nullopt;
  }
  return std::nullopt;
}

/// A machine as it was measured, perhaps more than once, and corrected since.
struct Measured {
  Machine machine;
  int times = 1;
  bool steady = true;  ///< few values of the last measurement were disturbed
  Json values = Json::array();
};

/// A measurement that should not stay.
enum class Doubt { none, unsteady, contradicted };
bool is_contradicted(const Machine& machine) {
  return std::ranges::any_of(corrections_of(machine), [](const Correction& correction) {
    return distance(correction.factor) > kFarOff;
  });
}
Doubt doubt_in(const Measured& measured) {
  if (measured.times >= kMostMeasurements) return Doubt::none;
  if (is_contradicted(measured.machine)) return Doubt::contradicted;
  return measured.steady ? Doubt::none : Doubt::unsteady;
}

std::optional<Measured> read_machine(const std::string& path, const std::string& key,
                                     const Machine& shape) {
  const auto text = read_text(path);
  if (!text) return std::nullopt;
  try {
    const Json kept = Json::parse(*text);
    if (kept.at("key") != key) return std::nullopt;
    Machine machine = parse_machine(kept.at("machine").dump());
    if (!same_shape(machine, shape)) return std::nullopt;
    // The amount of memory may differ from one process to the next. What makes panels may have
    // changed, and no probe measures it.
    for (std::size_t d = 0; d < shape.devices.size(); ++d) {
      machine.devices[d].memory_bytes = shape.devices[d].memory_bytes;
      machine.devices[d].panels = shape.devices[d].panels;
    }
    const Json& probe = kept.at("machine").at("notes").at("probe");
    return Measured{.machine = std::move(machine),
                    .times = probe.at("times").get<int>(),
                    .steady = probe.at("steady").get<bool>(),
                    .values = probe.at("values")};
  } catch (const Json::exception&) {
    return std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// The number of measurements of the machine in the file; 0: there is none.
int measurements_in(const std::string& path, const std::string& key) {
  const auto text = read_text(path);
  if (!text) return 0;
  try {
    const Json kept = Json::parse(*text);
    if (kept.at("key") != key) return 0;
    return kept.at("machine").at("notes").at("probe").at("times").get<int>();
  } catch (const Json::exception&) {
    return 0;
  }
}

bool write_all(int fd, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t count = write(fd, text.data() + done, text.size() - done);
    if (count < 0 && errno != EINTR) return false;
    if (count > 0) done += static_cast<std::size_t>(count);
  }
  return true;
}

/// Replaces the file atomically: other processes see the old file or the new one. False: the old
/// one stays.
bool write_machine(const std::string& folder, const std::string& path, const std::string& key,
                   const Measured& measured) {
  // Creates at most ".cache" and our folder in it, never a home folder that does not exist.
  const std::filesystem::path leaf(folder);
  mkdir(leaf.parent_path().c_str(), 0700);
  mkdir(leaf.c_str(), 0700);
  std::error_code error;
  if (std::filesystem::is_symlink(path, error)) return false;
  Json machine = Json::parse(to_json(measured.machine));
  machine["notes"]["probe"] = {
      {"times", measured.times}, {"steady", measured.steady}, {"values", measured.values}};
  const std::string text = Json{{"key", key}, {"machine", std::move(machine)}}.dump(1);
  const std::string partial = path + "." + std::to_string(getpid()) + ".partial";
  const FileHandle file(
      open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.fd < 0) {
    unlink(partial.c_str());  // left by a killed process with the same id
    return false;
  }
  const bool done = write_all(file.fd, text) && rename(partial.c_str(), path.c_str()) == 0;
  if (!done) unlink(partial.c_str());
  return done;
}

}  // namespace

bool measure_missing_watts(const Options& options, CpuBlas& blas, Backend& backend,
                           Machine& machine) {
  return !options.objective.is_time() && !machine.knows_watts() &&
         measure_watts(backend, &blas, machine, kWattsBudgetS);
}

namespace {

Measured measure(CpuBlas& blas, Backend& backend) {
  ProbeRequest request;
  request.budget_s = kDevicesBudgetS;
  ProbeReport report;
  Measured measured{.machine = probe(backend, nullptr, request, report)};
  measure_host_kernels(blas, kHostBudgetS, measured.machine.devices[kHost]);
  for (const ProbeValue& value : report.values) {
    measured.values.push_back({{"name", value.name},
                               {"unit", value.unit},
                               {"mean", value.mean},
                               {"repeats", value.repeats},
                               {"settled", value.settled},
                               {"spread", value.spread}});
  }
  // A single value may be disturbed at any time; other load disturbs many.
  const std::ptrdiff_t unsettled = std::ranges::count(report.values, false, &ProbeValue::settled);
  measured.steady = kFewUnsettled * unsettled <= std::ssize(report.values);
  return measured;
}

/// Measures a machine again of which the file is in doubt.
Measured measure_again(const Measured& kept, Doubt doubt, CpuBlas& blas, Backend& backend) {
  Measured again = measure(blas, backend);
  again.times = kept.times + 1;
  const Machine before = uncorrected(kept.machine);
  for (std::size_t d = 0; d < before.devices.size(); ++d) {
    if (doubt == Doubt::unsteady)
      take_faster(again.machine.devices[d].kernels, before.devices[d].kernels);
    again.machine.devices[d].watts = before.devices[d].watts;
  }
  drop_slow_end(again.machine.devices[kHost].kernels);
  return again;
}

KeptMachine cached_machine(const Options& options, const std::string& devices, CpuBlas& blas,
                           Backend& backend) {
  const Machine& shape = backend.machine();
  const std::string key = key_of(devices, shape, blas);
  const std::string path = options.cache_dir + "/" + file_name(key);
  std::optional<Measured> kept;
  if (!options.cache_dir.empty()) kept = read_machine(path, key, shape);
  Doubt doubt = kept ? doubt_in(*kept) : Doubt::none;
  if (doubt != Doubt::none) {
    // Where nothing can be written, each start would measure again.
    Measured counted = *kept;
    ++counted.times;
    if (!write_machine(options.cache_dir, path, key, counted)) doubt = Doubt::none;
  }
  // What slowed the machine down may be gone, and devices that are left out are not measured.
  if (kept && doubt == Doubt::none && is_contradicted(kept->machine))
    kept->machine = uncorrected(kept->machine);
  const bool as_kept = kept && doubt == Doubt::none;
  Measured measured = as_kept ? *std::move(kept)
                      : kept  ? measure_again(*kept, doubt, blas, backend)
                              : measure(blas, backend);
  const bool has_new_watts = measure_missing_watts(options, blas, backend, measured.machine);
  const bool is_new = !as_kept || has_new_watts;
  if (is_new) backend.trim();
  const bool whole = std::ranges::all_of(shape.devices, [](const Device& device) {
    return device.memory_bytes == 0 || device.memory_bytes >= kProbedBytes;
  });
  if (options.cache_dir.empty() || !whole) return {std::move(measured.machine), {}};
  if (is_new) write_machine(options.cache_dir, path, key, measured);
  Machine machine = measured.machine;
  // Users may number devices differently.
  auto keep = [=, folder = options.cache_dir](const Machine& corrected) mutable {
    if (measurements_in(path, key) > measured.times) return;  // measured by another process since
    for (std::size_t d = 0; d < corrected.devices.size(); ++d) {
      const std::string name = measured.machine.devices[d].name;
      measured.machine.devices[d] = corrected.devices[d];
      measured.machine.devices[d].name = name;
    }
    // What other work leaves the CPU today says nothing of tomorrow, and no probe measures it.
    measured.machine.devices[kHost].beside = 1;
    measured.machine.links = corrected.links;
    measured.machine.ports = corrected.ports;
    write_machine(folder, path, key, measured);
  };
  return {std::move(machine), std::move(keep)};
}

}  // namespace

KeptMachine cached_host_machine(const Options& options, int devices, CpuBlas& blas,
                                Backend& backend) {
  return cached_machine(options, "devices " + std::to_string(devices), blas, backend);
}

KeptMachine cached_gpu_machine(const Options& options, const std::string& identity, CpuBlas& blas,
                               Backend& backend) {
  return cached_machine(options, identity, blas, backend);
}

}  // namespace fleet
