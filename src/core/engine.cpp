// SPDX-License-Identifier: BSD-3-Clause
// engine.cpp: looks for machine files, measures the host, starts its virtual devices. It knows no
// call.
#include "core/engine.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "backend/device_library.hpp"
#include "backend/host/backend.hpp"
#include "backend/host/machine.hpp"
#include "base/error.hpp"
#include "probe/probe.hpp"
#include "tune/limits.hpp"

namespace fleet {
namespace {

constexpr int kDefaultDevices = 4;

std::vector<int> first_devices(int count) {
  std::vector<int> ids;
  for (int id = 0; id < count; ++id) ids.push_back(id);
  return ids;
}

/// This rank's part of `devices`: neighbouring ranks have neighbouring devices. If there are more
/// ranks than devices, several share one.
std::vector<int> part_of(const std::vector<int>& devices, const LocalRank& local) {
  if (devices.empty()) return {};
  const auto at = [&](int rank) {
    return static_cast<std::ptrdiff_t>(devices.size()) * rank / local.ranks;
  };
  const std::ptrdiff_t first = at(local.rank);
  const std::ptrdiff_t end = std::max(at(local.rank + 1), first + 1);
  return {devices.begin() + first, devices.begin() + end};
}

/// Numbers that the options ask for, of `all` or more than there are.
std::vector<int> asked_for(const Options& options, int all) {
  if (!options.device_ids.empty()) return options.device_ids;
  if (options.split) return part_of(first_devices(all), *options.split);
  return first_devices(options.device_count > 0 ? options.device_count : all);
}

/// Numbers that the options ask for, of the `count` that there are: an id has to be one of them, a
/// count may be larger. `what_there_is` begins the message of an error.
std::vector<int> chosen(const Options& options, int count, const std::string& what_there_is) {
  for (const int id : options.device_ids)
    if (id >= count)
      throw Error(Status::bad_option,
                  "devices: " + what_there_is + ", not a device " + std::to_string(id));
  std::vector<int> ids = asked_for(options, count);
  std::erase_if(ids, [&](int id) { return id >= count; });
  return ids;
}

/// Bytes that one of `devices` virtual devices gets: half of the memory there is, shared out, so
/// that operands and everything else on this machine have the other half.
std::int64_t share_of_memory(const Options& options, int devices) {
  if (options.device_memory > 0) return options.device_memory;
  const auto pages = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES));
  const auto page_bytes = static_cast<std::int64_t>(sysconf(_SC_PAGESIZE));
  return pages * page_bytes / 2 / std::max(1, devices);
}

/// Probing must see the devices as they are, not the faults that a test asks for.
KeptMachine measure(const Options& options, int devices, const std::shared_ptr<CpuBlas>& blas) {
  Options undisturbed = options;
  undisturbed.inject = {};
  const Machine shape = host_machine(devices, core_count(), share_of_memory(options, devices));
  const std::unique_ptr<Backend> backend = make_host_backend(shape, blas, undisturbed);
  KeptMachine measured = cached_host_machine(undisturbed, devices, *blas, *backend);
  // A cached one may come from a run with other limits.
  for (std::size_t d = 0; d < shape.devices.size(); ++d)
    measured.machine.devices[d].memory_bytes = shape.devices[d].memory_bytes;
  return measured;
}

std::vector<int> gpu_ids(const Options& options, const DeviceLibrary& library) {
  std::string why;
  const int count = library.count(why);
  if (count == 0) throw Error(Status::unsupported, "no usable GPU: " + why);
  return chosen(options, count, "there are " + std::to_string(count) + " GPUs");
}

/// Where in the list each of these is.
std::vector<int> places_in(const std::vector<int>& list, const std::vector<int>& some) {
  std::vector<int> places;
  for (std::size_t at = 0; at < list.size(); ++at)
    if (std::ranges::find(some, list[at]) != some.end()) places.push_back(static_cast<int>(at));
  return places;
}

std::string list_of(const std::vector<int>& ids) {
  std::string text;
  for (const int id : ids) text += (text.empty() ? "" : ", ") + std::to_string(id);
  return text;
}

/// On all GPUs that the options ask for, or on those that work: one that is full, or another
/// process's alone, must not keep a program off the others, unless it is asked for by its number.
void open_gpus(const DeviceLibrary& library, const Options& options, Engine& engine) {
  try {
    engine.backend = library.open(options, engine.users);
  } catch (const Error& error) {
    std::vector<int> usable = library.usable(engine.users);
    if (!options.device_ids.empty() || usable.empty() || usable == engine.users) throw;
    engine.backend = library.open(options, usable);
    engine.complaint = "of the GPUs " + list_of(engine.users) + " only " + list_of(usable) +
                       " can be used now: " + error.what();
    engine.users = std::move(usable);
  }
}

Engine start_gpus(const Options& options, const std::optional<NamedMachine>& named,
                  const std::shared_ptr<CpuBlas>& blas) {
  const double begin_s = now_s();
  const DeviceLibrary& library = device_library(options);
  Engine engine;
  engine.users = gpu_ids(options, library);
  const double driver_s = now_s() - begin_s;
  // Probing must see the devices as they are, not the faults that a test asks for.
  Options undisturbed = options;
  undisturbed.inject = {};
  undisturbed.inject.nopeer = options.inject.nopeer;
  const std::vector<int> wanted = engine.users;
  open_gpus(library, undisturbed, engine);
  engine.backend->phases().add("driver", driver_s);
  const Machine& shape = engine.backend->machine();
  if (named && named->machine.device_count() != static_cast<int>(wanted.size()))
    throw Error(Status::bad_option, "machine: it has " + std::to_string(named->users.size()) +
                                        " devices, and " + std::to_string(wanted.size()) +
                                        " are used");
  KeptMachine kept = engine.backend->phases().time("machine", [&] {
    return named ? KeptMachine{sub_machine(named->machine, places_in(wanted, engine.users)), {}}
                 : cached_gpu_machine(options, library.identity(engine.users), *blas,
                                      *engine.backend);
  });
  engine.keep = std::move(kept.keep);
  Machine machine = std::move(kept.machine);
  std::erase_if(machine.links, [&](const Link& link) {  // what a named one has, and these do not
    return shape.find_link(link.source, link.target) < 0;
  });
  for (std::size_t d = 0; d < shape.devices.size(); ++d) {
    machine.devices[d].memory_bytes = shape.devices[d].memory_bytes;
    machine.devices[d].name = shape.devices[d].name;
    // Whether a library makes them differs from node to node, whatever file is named.
    constexpr auto kCholesky = static_cast<std::size_t>(Factoring::potrf);
    machine.devices[d].panels[kCholesky] = shape.devices[d].panels[kCholesky];
  }
  if (named && measure_missing_watts(options, *blas, *engine.backend, machine))
    engine.backend->trim();
  engine.machine = std::make_shared<Machine>(std::move(machine));
  if (!options.inject_text.empty()) {
    const std::vector<Phase> before = engine.backend->phases().take();
    engine.backend.reset();
    engine.backend = library.open(options, engine.users);
    for (const Phase& phase : before) engine.backend->phases().add(phase.name, phase.seconds);
  }
  engine.backend->keep_times(options.timeline || !options.trace.empty());
  return engine;
}

}  // namespace

std::string shipped_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&shipped_folder), &info) == 0 || info.dli_fname == nullptr)
    return {};
  std::error_code error;
  const auto library = std::filesystem::canonical(info.dli_fname, error);
  if (error) return {};
  for (const char* folder : {"machines", "../machines", "../share/fleetblas/machines",
                             "../../../machines", "../../machines"}) {
    const auto path = library.parent_path() / folder;
    if (std::filesystem::is_directory(path, error)) return path.lexically_normal().string();
  }
  return {};
}

std::optional<NamedMachine> named_machine(const Options& options) {
  if (options.machine.empty()) return std::nullopt;
  const Machine whole = load_machine(options.machine, shipped_folder());
  const int count = whole.device_count();
  std::vector<int> ids = chosen(
      options, count, "machine '" + whole.name + "' has " + std::to_string(count) + " devices");
  Machine machine = sub_machine(whole, ids);
  if (options.device_memory > 0)
    for (std::size_t d = kFirstDevice; d < machine.devices.size(); ++d)
      machine.devices[d].memory_bytes = options.device_memory;
  return NamedMachine{std::move(machine), std::move(ids)};
}

std::vector<int> user_devices(const Options& options, const std::optional<NamedMachine>& named) {
  if (named) return named->users;
  if (options.backend == BackendKind::host) return asked_for(options, kDefaultDevices);
  return options.device_ids;
}

Engine start_engine(const Options& options, const std::optional<NamedMachine>& named,
                    const std::shared_ptr<CpuBlas>& blas) {
  Engine engine;
  if (options.backend == BackendKind::cuda ||
      (options.backend == BackendKind::automatic && may_have_gpus(options))) {
    try {
      return start_gpus(options, named, blas);
    } catch (const Error& error) {
      if (options.backend == BackendKind::cuda || error.status() == Status::bad_option) throw;
      engine.complaint = error.what();
    }
  }
  const std::vector<int> ids = user_devices(options, named);
  engine.users = ids;
  if (options.backend != BackendKind::host) {
    engine.machine =
        std::make_shared<Machine>(named ? named->machine : measured_host(options, blas));
    return engine;
  }
  const double begin_s = now_s();
  KeptMachine kept = named ? KeptMachine{named->machine, {}}
                           : measure(options, static_cast<int>(ids.size()), blas);
  const double machine_s = now_s() - begin_s;
  engine.keep = std::move(kept.keep);
  Machine machine = std::move(kept.machine);
  // Users' device numbers do not change if only some of the devices are used.
  if (!named)
    for (std::size_t i = 0; i < ids.size(); ++i)
      machine.devices[kFirstDevice + i].name = std::to_string(ids[i]);
  engine.backend = make_host_backend(machine, blas, options);
  engine.backend->phases().add("machine", machine_s);
  engine.machine = std::make_shared<Machine>(engine.backend->machine());
  return engine;
}

Machine measured_host(const Options& options, const std::shared_ptr<CpuBlas>& blas) {
  return sub_machine(measure(options, kDefaultDevices, blas).machine, {});
}

std::vector<std::int64_t> memory_caps(const Options& options, const Engine& engine) {
  std::vector<std::int64_t> caps;
  for (DeviceId d = 0; d < static_cast<DeviceId>(engine.machine->devices.size()); ++d) {
    const Device& device = engine.machine->devices[static_cast<std::size_t>(d)];
    std::int64_t bytes = device.memory_bytes;
    if (engine.backend) {
      const std::int64_t free = engine.backend->available_bytes(d);
      bytes = bytes > 0 ? std::min(bytes, free) : free;
    }
    const bool asked_for = options.memory_cap > 0 && !on_host(d);
    caps.push_back(
        asked_for ? options.memory_cap
                  : static_cast<std::int64_t>(limits::kMemoryShare * static_cast<double>(bytes)));
  }
  return caps;
}

}  // namespace fleet
