// SPDX-License-Identifier: BSD-3-Clause
// backend.cpp: GPUs, as a Backend. It must not know how plans are made.
#include "backend/cuda/backend.hpp"

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "backend/cuda/copies.hpp"
#include "backend/cuda/device_scope.hpp"
#include "backend/cuda/energy.hpp"
#include "backend/cuda/execution.hpp"
#include "backend/cuda/known_kernels.hpp"
#include "backend/cuda/mark.hpp"
#include "backend/cuda/program_streams.hpp"
#include "backend/cuda/stream_memory.hpp"
#include "backend/device_library.hpp"
#include "base/exit_guard.hpp"
#include "cpu/blas.hpp"
#include "cpu/copies.hpp"
#include "machine/corrections.hpp"

namespace fleet::cuda {
namespace {

/// The CPU has no part of products that take GPUs less than this.
constexpr double kLeastBesideCpuS = 1e-3;

class CudaBackend final : public Backend {
 public:
  CudaBackend(const Options& options, const std::vector<int>& ordinals)
      : options_(options), devices_(options, ordinals, phases()) {}

  const Machine& machine() const override { return devices_.machine; }

  std::unique_ptr<Execution> begin(const Plan& plan, const Binding& binding,
                                   std::uint64_t serial) override {
    return begin_run(devices_, plan, binding, serial);
  }

  /// Waits at once: a transfer may come next as well as a run, and the handle of a stream does not
  /// tell its device.
  void wait_for_stream(DeviceId device, void* stream) override {
    const ExitGuard inside;
    const DeviceScope scope(devices_.ordinal(device));
    wait_for_program(stream);
  }

  void when_stream_done(DeviceId device, void* stream,
                        const std::function<void(const char*)>& then) override {
    const ExitGuard inside;
    const DeviceScope scope(devices_.ordinal(device));
    when_program_done(stream, then);
  }

  std::function<void()> hold_stream(DeviceId device, void* stream) override {
    const ExitGuard inside;
    devices_.loader.finish(static_cast<std::size_t>(device - kFirstDevice));
    const DeviceScope scope(devices_.ordinal(device));
    return hold_program(stream);
  }

  bool overlaps_launches() const override { return true; }
  bool loads_kernels() const override { return true; }
  /// Grace Hopper and Grace Blackwell: the GPU goes through the page tables of the host.
  bool reaches_pageable() const override {
    const ExitGuard inside;
    return std::ranges::all_of(devices_.ordinals, [](int ordinal) {
      int reaches = 0;
      return works(cudaDeviceGetAttribute(
                 &reaches, cudaDevAttrPageableMemoryAccessUsesHostPageTables, ordinal)) &&
             reaches != 0;
    });
  }
  void keep_times(bool wanted) override { devices_.is_timed = wanted; }

  std::optional<DeviceId> locate(const void* data, std::int64_t bytes) override {
    const ExitGuard inside;
    DeviceScope device;
    const auto* last = static_cast<const char*>(data) + std::max<std::int64_t>(bytes, 1) - 1;
    // One that has failed answers nothing any more, and knows the memory of all.
    for (const int ordinal : devices_.ordinals) {
      cudaPointerAttributes of_first{}, of_last{};
      if (device.try_use(ordinal) && works(cudaPointerGetAttributes(&of_first, data)) &&
          works(cudaPointerGetAttributes(&of_last, last)))
        return location_of_piece(location(of_first), location(of_last));
    }
    return std::nullopt;
  }

  bool pin(void* data, std::int64_t bytes) override {
    const ExitGuard inside;
    DeviceScope device;
    return device.try_use(devices_.ordinals.front()) &&
           works(cudaHostRegister(data, static_cast<std::size_t>(bytes), cudaHostRegisterPortable));
  }
  bool pin_piece(void* data, std::int64_t bytes) override {
    note_piece(data, bytes);
    return pin(data, bytes);
  }
  bool unpin(void* data) override {
    const NoNewHold as_it_is;
    if (any_stream_is_held()) return false;
    const ExitGuard inside;
    // They copy by what the driver has found out about the memory.
    devices_.graphs.clear();
    DeviceScope device;
    if (device.try_use(devices_.ordinals.front())) works(cudaHostUnregister(data));
    return true;
  }
  bool may_unpin() const override { return !any_stream_is_held(); }

  void* allocate(DeviceId location, std::int64_t bytes) override {
    const ExitGuard inside;
    devices_.faults.require_alive(location);
    return devices_.memory.allocate(location, bytes);
  }
  void release(DeviceId location, void* data) override {
    const ExitGuard inside;
    devices_.memory.release(location, data);
  }

  void transfer(DeviceId to_location, const View& to, DeviceId from_location, const View& from,
                std::int64_t element_bytes) override {
    devices_.faults.require_alive(to_location);
    devices_.faults.require_alive(from_location);
    if (from.rows == 0 || from.cols == 0) return;
    const ExitGuard inside;
    if (on_host(to_location) && on_host(from_location))
      return copy_columns(from, to, element_bytes, 0, from.cols);
    const DeviceId location = on_host(to_location) ? from_location : to_location;
    if (!on_host(to_location) && !on_host(from_location) && to_location != from_location) {
      if (is_one_piece(to) && is_one_piece(from))
        return transfer_piece(to_location, to, from_location, from, element_bytes);
      return transfer_by_host(to_location, to, from_location, from, element_bytes);
    }
    copy_now(location, to, from, element_bytes);
  }

  void transfer_within(std::span<const CopyWithin> copies, std::int64_t element_bytes) override {
    side_by_side(copies, "copies within a device", [&](const CopyWithin& copy, Stream& stream) {
      copy_columns({.from = copy.from,
                    .to = copy.to,
                    .element_bytes = element_bytes,
                    .last = copy.from.cols},
                   stream.stream);
    });
  }

  void compute(std::span<const DeviceLaunch> launches) override {
    side_by_side(
        launches, "kernels outside of a plan", [&](const DeviceLaunch& of_device, Stream& stream) {
          if (devices_.faults.next_launch_fails())
            throw Error(Status::device_failed, "failed on purpose");
          const Launch& launch = of_device.launch;
          const bool in_two = can_update_in_two(launch);
          Stream& first = in_two ? rows_beside_runs(of_device.device) : stream;
          const Handles handles = handles_of(first);
          if (factors(launch.kernel)) first.workspace.grow(factoring_bytes(launch, handles));
          if (in_two)
            put_if_loaded(launch, stream.ordinal, stream.known_kernels, [&] {
              run_update_in_two(launch, handles, first.workspace.data(), handles_of(stream));
            });
          else
            Run::compute(launch, stream);
          devices_.faults.note_kernel(of_device.device);
        });
  }

  /// A core for each device may issue, or one does while others copy pageable memory: the copy
  /// threads and the two that hand them tiles. The threads of a CPU BLAS may sleep, which no model
  /// knows: waking them takes a part of the time of short products. Rates are known of products
  /// alone: a few columns beside a triangle took 1.7 (trmm) and 2 times as long (trsm) on 16 cores.
  CpuBeside cpu_beside(const Problem& problem) const override {
    const bool stages = std::ranges::any_of(
        problem.operands, [](const Operand& operand) { return operand.home == kPageable; });
    const int busy = stages ? 3 + copy_threads() : static_cast<int>(devices_.ordinals.size());
    constexpr double kFarOffBesideTriangles = 2.5;
    return {.cores = cores_beside(core_count(), busy),
            .margin = problem.traits().triangular ? kFarOffBesideTriangles : kFarOff,
            .least_s = kLeastBesideCpuS};
  }

  std::optional<double> joules(DeviceId device) override {
    const ExitGuard inside;
    std::call_once(counters_made_, [this] { counters_.emplace(devices_.ordinals); });
    return counters_->joules(static_cast<std::size_t>(device - kFirstDevice));
  }

  std::vector<Finding> examine() override {
    const ExitGuard inside;
    std::vector<Finding> found = describe(devices_.ordinals, devices_.peers);
    found.insert(found.begin() + 1, {of_library("cuBLAS", *devices_.cublas), of_cusolver()});
    return found;
  }

  void trim() override {
    const ExitGuard inside;
    devices_.graphs.clear();
    devices_.memory.trim();
  }

  std::int64_t available_bytes(DeviceId location) override {
    const ExitGuard inside;
    return devices_.faults.is_lost(location) ? 0 : devices_.memory.available_bytes(location);
  }

 private:
  template <typename Library>
  static Finding of_library(const std::string& name, const Library& library) {
    return {name, Finding::Verdict::ok,
            library.file() + " (version " + std::to_string(library.version()) + ")", ""};
  }

  Finding of_cusolver() const {
    if (devices_.cusolver != nullptr) return of_library("cuSOLVER", *devices_.cusolver);
    if (!wants_cusolver(options_))
      return {"cuSOLVER", Finding::Verdict::ok,
              "not used, as the environment or the options ask for", ""};
    return {"cuSOLVER", Finding::Verdict::slow,
            "not found beside this cuBLAS: panels of Cholesky take twice as long",
            "pip install 'fleetblas[linalg]'"};
  }

  DeviceId location(const cudaPointerAttributes& attributes) const {
    if (attributes.type == cudaMemoryTypeHost) return kHost;
    if (attributes.type != cudaMemoryTypeDevice) return kPageable;
    const auto found = std::ranges::find(devices_.ordinals, attributes.device);
    if (found == devices_.ordinals.end())
      throw Error(Status::bad_argument, "an operand lies on device " +
                                            std::to_string(attributes.device) +
                                            ", which this context does not use");
    return kFirstDevice + static_cast<DeviceId>(found - devices_.ordinals.begin());
  }

  /// `is_ahead`: its kernels go before those of others, which need them.
  Stream& stream_beside_runs(DeviceId device, bool is_ahead = false) {
    return devices_.streams.of({Queue::Kind::lane, device, kHost, 0, is_ahead});
  }

  Stream& rows_beside_runs(DeviceId device) {
    return devices_.streams.of({Queue::Kind::lane, device, kHost, kRowsLane});
  }
  Handles handles_of(Stream& stream) { return {devices_.blas_of(stream), stream.stream}; }

  static bool is_ahead(const CopyWithin&) { return false; }
  /// A panel is what the updates of all other columns wait for; other processes, rows.
  static bool is_ahead(const DeviceLaunch& of_device) {
    const Kernel kernel = of_device.launch.kernel;
    return kernel == Kernel::factor || kernel == Kernel::adopt || kernel == Kernel::pack;
  }

  /// All items are in streams before any is waited for, and all are waited for whatever fails.
  template <typename Item, typename Put>
  void side_by_side(std::span<const Item> items, const char* what, Put put) {
    const ExitGuard inside;
    DeviceScope scope;
    std::vector<Stream*> used;
    std::exception_ptr failure;
    try {
      for (const Item& item : items) {
        devices_.faults.require_alive(item.device);
        Stream& stream = stream_beside_runs(item.device, is_ahead(item));
        scope.use(stream.ordinal);
        if (std::ranges::find(used, &stream) == used.end()) used.push_back(&stream);
        put(item, stream);
      }
    } catch (...) {
      failure = std::current_exception();
    }
    for (const Stream* stream : used)
      if (!scope.try_use(stream->ordinal) || !works(cudaStreamSynchronize(stream->stream)))
        failure = std::make_exception_ptr(
            Error(Status::device_failed, std::string(what) + " have failed"));
    if (failure) std::rethrow_exception(failure);
  }

  /// For copies by the current device: the default stream, in which they come after what the
  /// program has put there, unless a stream of the program makes that one wait, perhaps for a call
  /// that waits for this copy.
  cudaStream_t copy_stream(DeviceId location) {
    return is_default_stream_free() ? nullptr : stream_beside_runs(location).stream;
  }

  /// Waits for the copy alone: the default stream would wait for streams that are held since then.
  void copy_now(DeviceId location, const View& to, const View& from, std::int64_t element_bytes) {
    const DeviceScope device(devices_.ordinal(location));
    const Mark end;
    {
      const NoNewHold as_it_is;
      const cudaStream_t stream = copy_stream(location);
      copy_columns({.from = from, .to = to, .element_bytes = element_bytes, .last = from.cols},
                   stream);
      end.put(stream);
    }
    end.wait();
  }

  static bool is_one_piece(const View& view) {
    return view.fill == Fill::full && (view.cols == 1 || view.ld == view.rows);
  }

  /// Between devices, over their link where they have one. As copy_now, on both.
  void transfer_piece(DeviceId to_location, const View& to, DeviceId from_location,
                      const View& from, std::int64_t element_bytes) {
    {
      const DeviceScope source(devices_.ordinal(from_location));
      std::optional<Mark> before;
      {
        const NoNewHold as_it_is;
        if (is_default_stream_free()) before.emplace().put(nullptr);
      }
      if (before) before->wait();
    }
    const DeviceScope target(devices_.ordinal(to_location));
    const Mark end;
    {
      const NoNewHold as_it_is;
      const cudaStream_t stream = copy_stream(to_location);
      check(cudaMemcpyPeerAsync(
                to.data, devices_.ordinal(to_location), from.data, devices_.ordinal(from_location),
                static_cast<std::size_t>(from.rows * from.cols * element_bytes), stream),
            "a copy between devices");
      end.put(stream);
    }
    end.wait();
  }

  /// Between devices: CUDA copies columns in no other way between pairs without peer access.
  void transfer_by_host(DeviceId to_location, const View& to, DeviceId from_location,
                        const View& from, std::int64_t element_bytes) {
    std::vector<char> bytes(static_cast<std::size_t>(from.rows * from.cols * element_bytes));
    const View between{bytes.data(), from.rows, from.cols, from.rows, from.fill};
    copy_now(from_location, between, from, element_bytes);
    copy_now(to_location, to, between, element_bytes);
  }

  const Options options_;
  Devices devices_;
  std::once_flag counters_made_;
  std::optional<EnergyCounters> counters_;
};

}  // namespace

std::unique_ptr<Backend> make_backend(const Options& options, const std::vector<int>& ordinals) {
  const ExitGuard inside;
  return std::make_unique<CudaBackend>(options, ordinals);
}

}  // namespace fleet::cuda

extern "C" __attribute__((visibility("default"))) const fleet::DeviceLibrary*
fleet_device_library() {
  static const fleet::DeviceLibrary library{.version = fleet::kDeviceLibraryVersion,
                                            .count = fleet::cuda::visible_devices,
                                            .usable = fleet::cuda::usable_devices,
                                            .open = fleet::cuda::make_backend,
                                            .identity = fleet::cuda::identity_of,
                                            .before_exit = fleet::cuda::KernelLoader::end_all};
  return &library;
}
