// SPDX-License-Identifier: BSD-3-Clause
// backend.cpp: memory as numbers, runs by simulate(). It must not touch an operand.
#include "backend/sim/backend.hpp"

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/sizes.hpp"
#include "sim/simulate.hpp"

namespace fleet {
namespace {

/// Addresses of one location: arenas from its base, allocations above them. The spans are so large
/// that no two locations meet.
constexpr std::uintptr_t kLocationSpan = std::uintptr_t{1} << 42;
constexpr std::uintptr_t kArenaSpan = std::uintptr_t{1} << 41;

struct Location {
  std::int64_t capacity = 0;  ///< 0: no limit
  std::int64_t arena = 0;
  std::int64_t allocated = 0;
  std::uintptr_t next = 0;
  std::map<std::uintptr_t, std::int64_t> blocks;

  std::int64_t available() const {
    constexpr auto kEndless = static_cast<std::int64_t>(kArenaSpan);
    return (capacity > 0 ? capacity : kEndless) - arena - allocated;
  }
};

std::uintptr_t base_of(DeviceId device) {
  return (static_cast<std::uintptr_t>(device) + 1) * kLocationSpan;
}

class SimExecution final : public Execution {
 public:
  SimExecution(const Plan& plan, const Machine& machine) : plan_(plan), machine_(machine) {}

  void* slot(const Where& where) override {
    return reinterpret_cast<void*>(base_of(where.device) +
                                   static_cast<std::uintptr_t>(plan_.slot(where).offset_bytes));
  }

  void copy(TaskId, const View&, const View&) override { ++enqueued_; }
  void launch(TaskId, const Launch&) override { ++enqueued_; }

  Trace finish() override {
    Trace trace;
    try {
      if (enqueued_ != plan_.tasks.size())
        throw Error(Status::internal, "only " + std::to_string(enqueued_) + " of " +
                                          std::to_string(plan_.tasks.size()) +
                                          " tasks were enqueued");
      trace = simulate(plan_, machine_);
    } catch (const Error& error) {
      trace.source = CostSource::simulated;
      trace.status = error.status();
      trace.message = error.what();
      trace.spans.assign(plan_.tasks.size(), Span{});
    }
    return trace;
  }

 private:
  const Plan& plan_;
  const Machine& machine_;
  std::size_t enqueued_ = 0;
};

class SimBackend final : public Backend {
 public:
  explicit SimBackend(const Machine& machine)
      : machine_(machine), locations_(machine.devices.size()) {
    for (std::size_t d = 0; d < locations_.size(); ++d) {
      locations_[d].capacity = machine.devices[d].memory_bytes;
      locations_[d].next = base_of(static_cast<DeviceId>(d)) + kArenaSpan;
    }
  }

  const Machine& machine() const override { return machine_; }

  std::unique_ptr<Execution> begin(const Plan& plan, const Binding&, std::uint64_t) override {
    const std::lock_guard lock(mutex_);
    for (std::size_t d = 0; d < plan.arena_bytes.size(); ++d) {
      Location& location = locations_.at(d);
      if (plan.arena_bytes[d] > location.available() + location.arena)
        throw no_memory(static_cast<DeviceId>(d), plan.arena_bytes[d]);
    }
    for (std::size_t d = 0; d < plan.arena_bytes.size(); ++d)
      locations_[d].arena = plan.arena_bytes[d];
    return std::make_unique<SimExecution>(plan, machine_);
  }

  void* allocate(DeviceId where, std::int64_t bytes) override {
    const std::lock_guard lock(mutex_);
    Location& location = locations_.at(static_cast<std::size_t>(where));
    if (bytes > location.available()) location.arena = 0;  // pooled since the last run only
    if (bytes < 0 || bytes > location.available()) throw no_memory(where, bytes);
    const std::uintptr_t address = location.next;
    const auto length = static_cast<std::uintptr_t>(bytes) + 1;  // empty ones are distinct too
    location.next += round_up(length, kAlignmentBytes);
    location.allocated += bytes;
    location.blocks[address] = bytes;
    return reinterpret_cast<void*>(address);
  }

  void release(DeviceId where, void* data) override {
    const std::lock_guard lock(mutex_);
    Location& location = locations_.at(static_cast<std::size_t>(where));
    const auto block = location.blocks.find(reinterpret_cast<std::uintptr_t>(data));
    if (block == location.blocks.end()) return;
    location.allocated -= block->second;
    location.blocks.erase(block);
  }

  void transfer(DeviceId, const View&, DeviceId, const View&, std::int64_t) override {}

  void trim() override {
    const std::lock_guard lock(mutex_);
    for (Location& location : locations_) location.arena = 0;
  }

  std::int64_t available_bytes(DeviceId where) override {
    const std::lock_guard lock(mutex_);
    // Arenas are reused by the next plan, so they count as free.
    const Location& location = locations_.at(static_cast<std::size_t>(where));
    return location.available() + location.arena;
  }

 private:
  Error no_memory(DeviceId device, std::int64_t bytes) const {
    return Error(Status::no_memory, "no " + std::to_string(bytes) +
                                        " bytes left on simulated device " +
                                        machine_.devices[static_cast<std::size_t>(device)].name);
  }

  Machine machine_;
  std::mutex mutex_;
  std::vector<Location> locations_;
};

}  // namespace

std::unique_ptr<Backend> make_sim_backend(const Machine& machine) {
  return std::make_unique<SimBackend>(machine);
}

}  // namespace fleet
