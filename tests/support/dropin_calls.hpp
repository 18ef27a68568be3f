// SPDX-License-Identifier: BSD-3-Clause
// dropin_calls.hpp: calls as the preload library passes them to the core, and programs that make
// them on virtual devices. It knows no symbol of the preload library.
#pragma once
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "api/dropin.h"
#include "backend/host/machine.hpp"
#include "support/host_context.hpp"
#include "support/processes.hpp"

namespace fleet::test {

/// A product of ones as the preload library passes it to the core.
struct Offer {
  std::int64_t edge;
  double alpha = 1, beta = 2;
  std::vector<double> ones, c;

  explicit Offer(std::int64_t n)
      : edge(n),
        ones(static_cast<std::size_t>(n * n), 1.0),
        c(static_cast<std::size_t>(n * n), 1.0) {}
  fleet_dropin_call call() {
    return {.symbol = "cblas_dgemm64_",
            .routine = fleet_dropin_gemm,
            .type = 'd',
            .side = 0,
            .uplo = 0,
            .transa = 'n',
            .transb = 't',
            .diag = 0,
            .m = edge,
            .n = edge,
            .k = edge,
            .alpha = &alpha,
            .a = ones.data(),
            .lda = edge,
            .b = ones.data(),
            .ldb = edge,
            .beta = &beta,
            .c = c.data(),
            .ldc = edge};
  }
  bool done() const { return c == std::vector<double>(c.size(), static_cast<double>(edge) + 2); }
  bool untouched() const { return c == std::vector<double>(c.size(), 1.0); }
};

/// Runs `program` with these settings in its environment and two virtual devices whose rates are
/// `speed` times the CPU's.
template <typename Program>
Ended with_settings(const std::map<std::string, std::string>& settings, double speed,
                    Program&& program) {
  Machine machine = host_machine(2, 2, std::int64_t{1} << 30);
  for (Device& device : machine.devices)
    for (const DataType type : {DataType::f32, DataType::f64, DataType::c32, DataType::c64}) {
      std::erase_if(device.kernels, [&](const KernelRate& rate) { return rate.type == type; });
      device.kernels.push_back({type, 64, device.name == "host" ? 1e9 : 1e9 * speed});
    }
  for (Link& link : machine.links) {
    link.bytes_per_s = 1e9;
    link.latency_s = 1e-4;
  }
  for (Port& port : machine.ports) port.capacity = 1e15;
  const std::string file = temporary_file("dropin.json");
  std::ofstream(file) << to_json(machine);
  return run_program([&] {
    setenv("FLEETBLAS_MACHINE", file.c_str(), 1);
    setenv("FLEETBLAS_BACKEND", "host", 1);
    for (const auto& [name, value] : settings) setenv(name.c_str(), value.c_str(), 1);
    return program();
  });
}

}  // namespace fleet::test
