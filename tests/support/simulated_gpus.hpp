// SPDX-License-Identifier: BSD-3-Clause
// simulated_gpus.hpp: tests of contexts whose GPUs are simulated (fake_gpus.cpp): a run takes what
// the test says, and computes nothing. It knows no call.
#pragma once
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "support/fake_gpus.hpp"
#include "support/host_context.hpp"
#include "support/random_plans.hpp"

namespace fleet::test {

/// A node of four GPUs with rates of kernels at two edges.
inline Machine four_gpus() {
  Machine machine = node(4);
  machine.name = "four simulated GPUs";
  for (std::size_t d = kFirstDevice; d < machine.devices.size(); ++d)
    machine.devices[d].kernels = {{DataType::f64, 512, 15e12}, {DataType::f64, 1024, 20e12}};
  return machine;
}

class SimulatedGpus : public ::testing::Test {
 protected:
  /// The GPUs that contexts find from now on.
  void make_real(const Machine& machine) {
    gpus = fake_gpus();
    ASSERT_NE(gpus, nullptr);
    gpus->count = machine.device_count();
    gpus->simulated = to_json(machine);
    gpus->later.clear();
    gpus->pace.clear();
    gpus->disturbed = false;
    gpus->beside = {};
    gpus->runs = gpus->timed_runs = 0;
  }
  void TearDown() override { gpus->simulated.clear(); }

  static std::string measured() {
    return "backend=cuda;offload=always;device_library=" FLEETBLAS_FAKE_GPUS;
  }
  /// Options of a context that believes in this machine.
  static std::string believing(const Machine& said) {
    const std::string file = temporary_file("said.json");
    std::ofstream(file) << to_json(said);
    return measured() + ";machine=" + file;
  }

  FakeGpus* gpus = nullptr;
};

}  // namespace fleet::test
