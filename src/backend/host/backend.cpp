// SPDX-License-Identifier: BSD-3-Clause
// backend.cpp: virtual devices on the CPU, as a Backend. It must not know how plans are made.
#include "backend/host/backend.hpp"

#include <string>
#include <utility>

#include "backend/host/execution.hpp"
#include "base/error.hpp"
#include "cpu/copies.hpp"
#include "cpu/kernels.hpp"

namespace fleet {
namespace {

class HostBackend final : public Backend {
 public:
  HostBackend(const Machine& machine, std::shared_ptr<CpuBlas> blas, const Options& options)
      : devices_(machine, std::move(blas), options) {}

  const Machine& machine() const override { return devices_.machine; }

  std::unique_ptr<Execution> begin(const Plan& plan, const Binding&, std::uint64_t) override {
    return host::begin_run(devices_, plan);
  }

  void* allocate(DeviceId location, std::int64_t bytes) override {
    devices_.require_threads();
    devices_.faults->require_alive(location);
    return devices_.memory.allocate(location, bytes);
  }

  void release(DeviceId location, void* data) override {
    // A child's copy goes with the child; its locks may be held for ever.
    if (devices_.crew.present()) devices_.memory.release(location, data);
  }

  void transfer(DeviceId to_location, const View& to, DeviceId from_location, const View& from,
                std::int64_t element_bytes) override {
    devices_.faults->require_alive(to_location);
    devices_.faults->require_alive(from_location);
    copy_columns(from, to, element_bytes, 0, from.cols);
  }

  void compute(std::span<const DeviceLaunch> launches) override {
    devices_.require_threads();
    const CpuBlas::Lease lease(*devices_.blas, 1);
    for (const auto& [device, launch] : launches) {
      devices_.faults->require_alive(device);
      if (devices_.faults->next_launch_fails())
        throw Error(Status::device_failed, "failed on purpose");
      run_kernel(launch, *devices_.blas);
      devices_.faults->note_kernel(device);
    }
  }

  /// Kernels of devices have one thread each, and the CPU BLAS has one number of threads.
  CpuBeside cpu_beside(const Problem&) const override { return {.cores = 1}; }
  bool reaches_pageable() const override { return true; }

  void trim() override {
    if (!devices_.crew.present()) return;
    for (DeviceId d = 0; d < devices_.locations(); ++d)
      if (!devices_.is_busy(d)) devices_.memory.let_go(d);  // after a failed run
    devices_.memory.trim();
  }

  std::int64_t available_bytes(DeviceId location) override {
    return devices_.faults->is_lost(location) ? 0 : devices_.memory.available_bytes(location);
  }

  std::vector<Finding> examine() override {
    const int devices = devices_.machine.device_count(), cores = core_count();
    std::vector<Finding> findings = {
        {"virtual devices", devices > cores ? Finding::Verdict::slow : Finding::Verdict::ok,
         std::to_string(devices) + " on " + std::to_string(cores) +
             (cores == 1 ? " core" : " cores"),
         devices > cores ? "more devices than cores only wait for each other: --devices " +
                               std::to_string(cores)
                         : ""}};
    for (DeviceId d = kFirstDevice; d < devices_.locations(); ++d)
      if (devices_.faults->is_lost(d))
        findings.push_back({"device " + devices_.machine.devices[static_cast<std::size_t>(d)].name,
                            Finding::Verdict::broken, "it was lost",
                            "start again; FLEETBLAS_INJECT loses devices on purpose"});
    return findings;
  }

 private:
  host::Devices devices_;
};

}  // namespace

std::unique_ptr<Backend> make_host_backend(const Machine& machine, std::shared_ptr<CpuBlas> blas,
                                           const Options& options) {
  return std::make_unique<HostBackend>(machine, std::move(blas), options);
}

}  // namespace fleet
