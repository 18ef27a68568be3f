// SPDX-License-Identifier: BSD-3-Clause
// nvl72.hpp: a machine with 72 devices, as GB200 NVL72 would be if it were one node. Public
// figures, nothing measured; what has no public figure is assumed as on the H200 nodes.
#pragma once
#include <string>

#include "machine/machine.hpp"

namespace fleet::test {

/// Per GPU, from NVIDIA's data sheet of GB200 NVL72: 186 GB of memory at 8 TB/s, 40 TFLOPS of FP64,
/// NVLink at 900 GB/s each way over switches. Two GPUs share the NVLink-C2C of a Grace, 450 GB/s
/// each way. Assumed: rates of small products, latencies, the price of issuing.
inline Machine nvl72() {
  constexpr int kGpus = 72, kGpusPerGrace = 2;
  constexpr double kNvlink = 900e9, kC2c = 450e9;
  Machine machine{.name = "nvl72", .source = "public figures, not measured", .issue_s = 2e-6};
  for (const char* place : {"host", "pageable"})
    machine.devices.push_back({.name = place, .memory_bytes = std::int64_t{17} << 40});
  const auto add_port = [&](const std::string& name, double capacity) {
    machine.ports.push_back({name, capacity});
    return static_cast<PortId>(machine.ports.size()) - 1;
  };
  const auto add_link = [&](DeviceId source, DeviceId target, double latency_s, double bytes_per_s,
                            std::vector<PortShare> ports) {
    machine.links.push_back({.source = source,
                             .target = target,
                             .latency_s = latency_s,
                             .bytes_per_s = bytes_per_s,
                             .ports = std::move(ports)});
  };
  add_link(kPageable, kHost, 10e-6, 80e9, {});
  add_link(kHost, kPageable, 10e-6, 80e9, {});
  std::vector<PortId> out, in;
  PortId to_gpus = 0, from_gpus = 0;
  for (int gpu = 0; gpu < kGpus; ++gpu) {
    const std::string name = std::to_string(gpu);
    machine.devices.push_back({.name = name,
                               .memory_bytes = 186'000'000'000,
                               .launch_s = 3.6e-6,
                               .memory_bytes_per_s = 8e12,
                               .kernels = {{DataType::f64, 256, 8e12},
                                           {DataType::f64, 1024, 30e12},
                                           {DataType::f64, 2048, 38e12},
                                           {DataType::f64, 4096, 40e12}}});
    out.push_back(add_port(name + " out", kNvlink));
    in.push_back(add_port(name + " in", kNvlink));
    if (gpu % kGpusPerGrace == 0) {
      to_gpus = add_port("c2c to " + name, kC2c);
      from_gpus = add_port("c2c from " + name, kC2c);
    }
    add_link(kHost, kFirstDevice + gpu, 22e-6, kC2c, {{to_gpus, 1}});
    add_link(kFirstDevice + gpu, kHost, 22e-6, kC2c, {{from_gpus, 1}});
  }
  for (int from = 0; from < kGpus; ++from)
    for (int to = 0; to < kGpus; ++to)
      if (from != to)
        add_link(kFirstDevice + from, kFirstDevice + to, 11.2e-6, kNvlink,
                 {{out[static_cast<std::size_t>(from)], 1}, {in[static_cast<std::size_t>(to)], 1}});
  return machine;
}

}  // namespace fleet::test
