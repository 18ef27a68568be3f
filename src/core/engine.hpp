// SPDX-License-Identifier: BSD-3-Clause
// engine.hpp: makes the machine and the backend, if any, of a context from its options. It knows no
// call.
#pragma once
#include <functional>
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

/// Empty if the options name none. Throws Error(bad_file) for the file, Error(bad_option) for
/// devices that the machine does not have.
std::optional<NamedMachine> named_machine(const Options& options);

/// User-facing numbers of the devices, in the order of Machine::devices; empty if GPUs must be
/// counted first.
std::vector<int> user_devices(const Options& options, const std::optional<NamedMachine>& named);

/// The folder of the machines that come with the library, beside it in the package or the build
/// tree. Empty if there is none.
std::string shipped_folder();

struct Engine {
  std::shared_ptr<const Machine> machine;  ///< what plans are made for
  std::unique_ptr<Backend> backend;        ///< none: the CPU, or plans only
  std::vector<int> users;                  ///< user-facing numbers of the devices
  std::string complaint;  ///< why GPUs that could be meant are not used; empty: all are
  /// Replaces the file of the measured machine by this one, corrected; empty: there is no file.
  std::function<void(const Machine&)> keep = {};
};

/// Starts the backend that the options ask for. The machine is `named`, or measured now. With
/// backend=auto, GPUs that cannot be used leave the CPU; those among them that no number asks for
/// leave the others.
/// Throws Error(unsupported, device_failed) for backend=cuda without a usable GPU.
Engine start_engine(const Options& options, const std::optional<NamedMachine>& named,
                    const std::shared_ptr<CpuBlas>& blas);

/// The host alone, with its measured rates, for a context without devices.
Machine measured_host(const Options& options, const std::shared_ptr<CpuBlas>& blas);

/// Bytes that plans may use at each location (index DeviceId): the option, or 80 % of what is free
/// now.
std::vector<std::int64_t> memory_caps(const Options& options, const Engine& engine);

}  // namespace fleet
