// SPDX-License-Identifier: BSD-3-Clause
// engine.hpp: from options to what a context computes on: a machine, and a backend where there is
// one. It knows no call.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/options.hpp"
#include "cpu/blas.hpp"
#include "machine/machine.hpp"
#include "run/backend.hpp"
#include "tune/tune.hpp"

namespace fleet {

/// A machine that the options name, with the devices that they ask for.
struct NamedMachine {
  Machine machine;
  std::vector<int> users;  ///< user-facing numbers of its devices
};

/// Nothing where the options name none. Throws Error(bad_file) for the file, Error(bad_option) for
/// devices that it does not have.
std::optional<NamedMachine> named_machine(const Options& options);

/// User-facing numbers of the devices, in the order of Machine::devices; empty where GPUs have to
/// be looked for.
std::vector<int> user_devices(const Options& options, const std::optional<NamedMachine>& named);

/// Where machines that come with the library lie: next to it, as the package or the build tree has
/// it. Empty when there is no such folder.
std::string shipped_folder();

struct Engine {
  std::shared_ptr<const Machine> machine;  ///< what plans are made for
  std::unique_ptr<Backend> backend;        ///< none: the CPU, or plans only
  std::vector<int> users;                  ///< user-facing numbers of the devices
};

/// Starts the backend that the options ask for. The machine is `named`, or measured now. With
/// backend=auto, GPUs that cannot be used leave the CPU.
/// Throws Error(unsupported, device_failed) for backend=cuda without a usable GPU.
Engine start_engine(const Options& options, const std::optional<NamedMachine>& named,
                    const std::shared_ptr<CpuBlas>& blas);

/// The host alone, with its measured rates, for a context without devices.
Machine measured_host(const Options& options, const std::shared_ptr<CpuBlas>& blas);

/// Bytes that plans may use at each location (index DeviceId): the option, or 80 % of what is free
/// now.
std::vector<std::int64_t> memory_caps(const Options& options, const Engine& engine);

}  // namespace fleet
