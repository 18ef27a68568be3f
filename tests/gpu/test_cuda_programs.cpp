// SPDX-License-Identifier: BSD-3-Clause
// test_cuda_programs.cpp: random programs of queued calls through the public header, on all GPUs of
// this machine with poisoned memory, beside the same calls one by one on the CPU.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "machine/machine.hpp"
#include "support/host_context.hpp"
#include "support/program_trials.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using fleetblas::Context;
using test::the_cpu;

/// All GPUs, with one machine file for all contexts: none measures, and plans stay as they are.
/// Words that disturb a run have no effect on GPUs.
class CudaPrograms : public testing::Test {
 protected:
  void SetUp() override {
    const std::string cuda = "backend=cuda;offload=always;online=off;devices=all";
    fleet_context* context = nullptr;
    ASSERT_EQ(fleet_context_create(cuda.c_str(), &context), FLEET_OK)
        << "these tests need a GPU: " << fleet_message();
    char* text = nullptr;
    ASSERT_EQ(fleet_machine_json(context, &text), FLEET_OK) << fleet_message();
    const std::string file = test::temporary_file("gpus.json");
    std::ofstream(file) << text;
    gpus_.count = parse_machine(text).device_count();
    fleet_free_text(text);
    ASSERT_EQ(fleet_context_destroy(context), FLEET_OK);
    gpus_.options = [=](int) { return cuda + ";machine=" + file; };
    gpus_.disturbance = [](test::Generator&, int) { return std::string(); };
    gpus_.faults = {"copy", "launch"};
    gpus_.may_lack_room = true;
  }

  test::ProgramDevices gpus_;
};

TEST_F(CudaPrograms, GiveTheResultsOfCallsOneByOneAtAnyTime) {
  const Context cpu = the_cpu();
  gpus_.bits_vary = true;
  for (const std::uint64_t seed : test::program_seeds(500000, test::scaled(60)))
    test::expect_none(test::verdict_on_two_runs(gpus_, seed, cpu));
}

TEST_F(CudaPrograms, GiveTheSameBitsAtAnyTimeWhereTheyAreDeterministic) {
  const Context cpu = the_cpu();
  gpus_.options = [options = gpus_.options](int devices) {
    return options(devices) + ";deterministic=1";
  };
  for (const std::uint64_t seed : test::program_seeds(500000, test::scaled(60)))
    test::expect_none(test::verdict_on_two_runs(gpus_, seed, cpu));
}

TEST_F(CudaPrograms, AfterAFaultGiveThemTooOrSayThatADeviceFailed) {
  const Context cpu = the_cpu();
  for (const std::uint64_t seed : test::program_seeds(600000, test::scaled(30)))
    test::expect_none(test::verdict_after_a_fault(gpus_, seed, cpu));
}

// The tests above see GPUs at work.
TEST_F(CudaPrograms, AreComputedOnTheGpus) {
  const Context cpu = the_cpu();
  const auto made = test::make_program<double>(1, {.devices = gpus_.count}, cpu.handle());
  const test::HostContext context(test::options_of(gpus_, gpus_.count));

  const auto outcome = test::ProgramRunner<double>(made.program, {}, context).run();

  EXPECT_EQ(test::verdict_on(made, outcome, test::FaultsSeen::none), "");
  EXPECT_NE(context.text(fleet_stats_json).find("\"where\":\"devices\""), std::string::npos);
}

}  // namespace
}  // namespace fleet
