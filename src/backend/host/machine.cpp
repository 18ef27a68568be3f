// SPDX-License-Identifier: BSD-3-Clause
// machine.cpp: the shape of a machine of virtual devices, before it is measured. It must not
// know the CPU that it runs on.
#include "backend/host/machine.hpp"

#include <string>

namespace fleet {
namespace {

// Stand-ins until measured; what a slow laptop does, so that plans made with them are sensible.
constexpr double kCopyBytesPerS = 5e9;
constexpr double kCopyLatencyS = 1e-6;
constexpr double kMemoryBytesPerS = 100e9;
constexpr double kStreamBytesPerS = 10e9;
constexpr double kFlopsPerS = 10e9;
constexpr double kLaunchS = 1e-6;
constexpr double kIssueS = 1e-6;
/// Host memory is the caller's: its size is not ours to count.
constexpr std::int64_t kAnyBytes = std::int64_t{1} << 50;
constexpr std::int64_t kKernelEdges[] = {32, 64, 128, 256, 512, 1024, 2048};

class Shape {
 public:
  Shape(int devices, int cores, std::int64_t memory_bytes) {
    machine_.name = std::to_string(devices) + " virtual devices on " + std::to_string(cores) +
                    (cores == 1 ? " core" : " cores");
    machine_.source = "assumed: not measured yet";
    machine_.issue_s = kIssueS;
    cores_ = port("cores", cores);
    memory_ = port("host memory", kMemoryBytesPerS);
    // The pinned ring is filled by one thread of the host; the two kinds of host memory share it.
    const PortId host_thread = port("thread host", 1);
    add_location("host");
    add_location("pageable");
    link(kPageable, kHost, host_thread);
    link(kHost, kPageable, host_thread);
    // What the CPU computes beside the devices has a thread too.
    machine_.devices[kHost].ports = {{host_thread, 1}, {cores_, 1}};
    for (int d = 0; d < devices; ++d) add_device(std::to_string(d), memory_bytes);
    // A virtual device's thread does the copies into it, and those from it to the host.
    for (DeviceId d = kFirstDevice; d < kFirstDevice + devices; ++d) {
      link(kHost, d, thread_of(d));
      link(d, kHost, thread_of(d));
      for (DeviceId source = kFirstDevice; source < kFirstDevice + devices; ++source)
        if (source != d) link(source, d, thread_of(d));
    }
  }

  Machine take() { return std::move(machine_); }

 private:
  PortId port(const std::string& name, double capacity) {
    machine_.ports.push_back({name, capacity});
    return static_cast<PortId>(machine_.ports.size() - 1);
  }
  PortId thread_of(DeviceId device) const {
    return machine_.devices[static_cast<std::size_t>(device)].ports.front().port;
  }

  void add_location(const std::string& name) {
    machine_.devices.push_back({.name = name,
                                .memory_bytes = kAnyBytes,
                                .lanes = 1,
                                .launch_s = kLaunchS,
                                .memory_bytes_per_s = kStreamBytesPerS,
                                .kernels = {},
                                .ports = {}});
  }

  void add_device(const std::string& name, std::int64_t memory_bytes) {
    add_location(name);
    Device& device = machine_.devices.back();
    device.memory_bytes = memory_bytes;
    device.ports = {{port("thread " + name, 1), 1}, {cores_, 1}};
    for (const DataType type : {DataType::f32, DataType::f64, DataType::c32, DataType::c64,
                                DataType::f16, DataType::bf16})
      for (const std::int64_t edge : kKernelEdges)
        device.kernels.push_back({type, edge, kFlopsPerS});
  }

  void link(DeviceId source, DeviceId target, PortId thread) {
    constexpr double kWholeThread = 1 / kCopyBytesPerS;
    machine_.links.push_back(
        {.source = source,
         .target = target,
         .latency_s = kCopyLatencyS,
         .bytes_per_s = kCopyBytesPerS,
         .ports = {{thread, kWholeThread}, {cores_, kWholeThread}, {memory_, 1}}});
  }

  Machine machine_;
  PortId cores_ = 0;
  PortId memory_ = 0;
};

}  // namespace

Machine host_machine(int devices, int cores, std::int64_t memory_bytes) {
  return Shape(devices, cores, memory_bytes).take();
}

}  // namespace fleet
