// SPDX-License-Identifier: BSD-3-Clause
// fake_gpus.cpp: a device library whose GPUs are virtual devices of the host backend, so that the
// GPU paths of contexts run on any machine, and under ThreadSanitizer; or simulated, so that runs
// take as long as a test says. It knows no context.
#include "support/fake_gpus.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>

#include "backend/device_library.hpp"
#include "backend/host/backend.hpp"
#include "backend/host/machine.hpp"
#include "backend/sim/backend.hpp"
#include "cpu/blas.hpp"
#include "cpu/gemm_pieces.hpp"
#include "probe/probe.hpp"
#include "support/wrapped_backend.hpp"

namespace fleet {
namespace {

constexpr std::int64_t kMemoryBytes = std::int64_t{1} << 30;
constexpr int kCores = 2;

/// Memory that the program allocated without the library.
class ProgramMemory {
 public:
  void* allocate(int gpu, std::int64_t bytes) {
    auto* data = static_cast<char*>(std::malloc(static_cast<std::size_t>(bytes)));
    const std::lock_guard lock(mutex_);
    if (data != nullptr) pieces_[data] = {gpu, bytes};
    return data;
  }
  void release(void* data) {
    const std::lock_guard lock(mutex_);
    pieces_.erase(static_cast<char*>(data));
    std::free(data);
  }
  /// The GPU that owns this address, or -1.
  int gpu_of(const void* address) const {
    const auto* at = static_cast<const char*>(address);
    const std::lock_guard lock(mutex_);
    for (const auto& [data, piece] : pieces_)
      if (at >= data && at < data + piece.bytes) return piece.gpu;
    return -1;
  }

 private:
  struct Piece {
    int gpu = -1;
    std::int64_t bytes = 0;
  };
  mutable std::mutex mutex_;
  std::map<const char*, Piece> pieces_;
};

ProgramMemory program_memory;
test::FakeGpus settings{
    .allocate = [](int gpu, std::int64_t bytes) { return program_memory.allocate(gpu, bytes); },
    .release = [](void* data) { program_memory.release(data); }};

Machine shape_of(const std::vector<int>& ids) {
  Machine machine = host_machine(static_cast<int>(ids.size()), kCores, kMemoryBytes);
  for (std::size_t i = 0; i < ids.size(); ++i)
    machine.devices[kFirstDevice + i].name = std::to_string(ids[i]);
  return machine;
}

class FakeBackend final : public test::WrappedBackend {
 public:
  FakeBackend(const Options& options, const std::vector<int>& ids)
      : WrappedBackend(make_host_backend(shape_of(ids), std::make_shared<PlainBlas>(), options)),
        ids_(ids) {}

  std::optional<DeviceId> locate(const void* data, std::int64_t bytes) override {
    if (!settings.answers) return std::nullopt;
    const auto* last = static_cast<const char*>(data) + std::max<std::int64_t>(bytes, 1) - 1;
    return location_of_piece(home_of(data), home_of(last));
  }

  bool loads_kernels() const override { return settings.loads_kernels; }
  bool unpin(void*) override { return !settings.unpins || settings.unpins(); }

  void when_stream_done(DeviceId, void*, const std::function<void(const char*)>& then) override {
    settings.recorded.push_back(then);
  }
  std::function<void()> hold_stream(DeviceId, void*) override {
    ++settings.held;
    return [] { --settings.held; };
  }

 private:
  DeviceId home_of(const void* address) const {
    const int gpu = program_memory.gpu_of(address);
    if (gpu < 0) return kPageable;
    const auto found = std::ranges::find(ids_, gpu);
    if (found == ids_.end())
      throw Error(Status::bad_argument, "an operand lies on device " + std::to_string(gpu) +
                                            ", which this context does not use");
    return kFirstDevice + static_cast<DeviceId>(found - ids_.begin());
  }

  const std::vector<int> ids_;
};

/// Says how long the tasks took, as the settings want it.
class SimulatedRun final : public test::WrappedExecution {
 public:
  SimulatedRun(std::unique_ptr<Execution> inner, bool is_timed, double& clock_s)
      : WrappedExecution(std::move(inner)), is_timed_(is_timed), clock_s_(clock_s) {}

  Trace finish() override {
    Trace trace = WrappedExecution::finish();
    if (settings.beside) settings.beside();
    const double whole_s = trace.seconds, factor = pace();
    const auto later = [&](double at_s) { return factor * disturbed(at_s, whole_s); };
    trace.seconds = later(whole_s);
    for (Span& span : trace.spans)
      span = is_timed_ ? Span{later(span.start_s), later(span.stop_s)} : Span{0, trace.seconds};
    ++settings.runs;
    settings.timed_runs += is_timed_ ? 1 : 0;
    settings.last_s = trace.seconds;
    clock_s_ += trace.seconds;
    return trace;
  }

 private:
  static double pace() {
    const auto turn = static_cast<std::size_t>(settings.runs);
    return settings.pace.empty() ? 1 : settings.pace[turn % settings.pace.size()];
  }
  /// When what was to happen at `at_s` does, if every other stretch of the run takes thrice as
  /// long.
  static double disturbed(double at_s, double whole_s) {
    constexpr double kStretches = 9;
    if (!settings.disturbed || at_s <= 0) return at_s;
    const double stretch_s = whole_s / kStretches;
    const double pairs = std::floor(at_s / (2 * stretch_s));
    const double rest_s = at_s - pairs * 2 * stretch_s;
    return pairs * 4 * stretch_s + rest_s + 2 * std::max(0.0, rest_s - stretch_s);
  }

  const bool is_timed_;
  double& clock_s_;
};

class SimulatedBackend final : public test::WrappedBackend {
 public:
  explicit SimulatedBackend(const Machine& machine) : WrappedBackend(make_sim_backend(machine)) {}

  std::unique_ptr<Execution> begin(const Plan& plan, const Binding& binding,
                                   std::uint64_t serial) override {
    if (!settings.later.empty() && later_ == nullptr)
      later_ = make_sim_backend(parse_machine(settings.later));
    auto run = later_ != nullptr ? later_->begin(plan, binding, serial)
                                 : WrappedBackend::begin(plan, binding, serial);
    return std::make_unique<SimulatedRun>(std::move(run), is_timed_, clock_s_);
  }
  void keep_times(bool wanted) override { is_timed_ = wanted; }
  double clock_s() const override { return clock_s_; }

 private:
  double clock_s_ = 0;  ///< of all runs: what is measured does not depend on the speed of the tests
  bool is_timed_ = false;
  std::unique_ptr<Backend> later_;
};

int count(std::string& why) {
  why = "there are no fake GPUs";
  return settings.count;
}

std::unique_ptr<Backend> open(const Options& options, const std::vector<int>& ids) {
  ++settings.opened;
  std::this_thread::sleep_for(std::chrono::milliseconds(settings.open_ms));
  if (settings.refuses_to_open) throw Error(Status::device_failed, "fake GPUs do not start");
  if (std::ranges::count(ids, settings.full.load()) > 0)
    throw Error(Status::no_memory, "a fake GPU is full");
  if (!settings.simulated.empty())
    return std::make_unique<SimulatedBackend>(sub_machine(parse_machine(settings.simulated), ids));
  return std::make_unique<FakeBackend>(options, ids);
}

std::vector<int> usable(const std::vector<int>& ids) {
  std::vector<int> free = ids;
  std::erase(free, settings.full.load());
  return free;
}

std::string identity(const std::vector<int>& ids) {
  return std::to_string(ids.size()) + " fake GPUs";
}

}  // namespace
}  // namespace fleet

extern "C" __attribute__((visibility("default"))) const fleet::DeviceLibrary*
fleet_device_library() {
  static const fleet::DeviceLibrary library{.version = fleet::kDeviceLibraryVersion,
                                            .count = fleet::count,
                                            .usable = fleet::usable,
                                            .open = fleet::open,
                                            .identity = fleet::identity};
  return &library;
}

extern "C" __attribute__((visibility("default"))) fleet::test::FakeGpus* fleet_fake_gpus() {
  return &fleet::settings;
}
