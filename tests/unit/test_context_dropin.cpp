// SPDX-License-Identifier: BSD-3-Clause
// test_context_dropin.cpp: the core as the preload library sees it, each time in a program of its
// own. It knows no symbol names.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <thread>
#include <vector>

#include "blas/dropin.h"
#include "fleetblas/fleetblas.h"
#include "support/host_context.hpp"
#include "support/processes.hpp"

namespace fleet {
namespace {

using test::Ended;
using test::run_program;

/// A product of ones as the preload library hands it over.
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

/// Runs `program` with these settings in its environment, besides two virtual devices whose rates
/// are `speed` times the CPU's.
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
  const std::string file = test::temporary_file("dropin.json");
  std::ofstream(file) << to_json(machine);
  return run_program([&] {
    setenv("FLEETBLAS_MACHINE", file.c_str(), 1);
    setenv("FLEETBLAS_BACKEND", "host", 1);
    for (const auto& [name, value] : settings) setenv(name.c_str(), value.c_str(), 1);
    return program();
  });
}

TEST(TheDropin, NeverTakesACallWithoutDevices) {
  const Ended ended = run_program([] {
    const fleet_dropin_core* core = fleet_dropin();
    Offer offer(64);
    const fleet_dropin_call call = offer.call();
    const bool refused = core->offer(&call) == 0 && offer.untouched();
    return refused && core->version == FLEET_DROPIN_VERSION && std::isinf(core->min_flops) &&
                   core->wants_all == 0
               ? 0
               : 1;
  });
  EXPECT_EQ(ended.code, 0) << ended.output;
}

TEST(TheDropin, ComputesOnTheCpuWhatNoBlasBehindCanAndCountsItOnce) {
  const Ended ended = run_program([] {
    setenv("FLEETBLAS_SUMMARY", "/dev/null", 1);
    const fleet_dropin_core* core = fleet_dropin();
    Offer product(64);
    const fleet_dropin_call call = product.call();
    const bool computed = core->offer(&call) == 0 && core->compute(&call) == 1 && product.done();
    core->note_host(&call, 1.0);
    char* stats = nullptr;
    fleet_stats_json(nullptr, &stats);
    const bool once = std::string(stats).find("\"calls\":1,") != std::string::npos;
    fleet_free_text(stats);
    return computed && once ? 0 : 1;
  });
  EXPECT_EQ(ended.code, 0) << ended.output;
}

TEST(TheDropin, ReadsTheFlagsOfATriangularSolve) {
  const Ended ended = run_program([] {
    // From the right: X*A = 2*B with A upper and ones on its diagonal, whatever is stored there.
    const std::vector<double> a = {9, 9, 3, 9};
    std::vector<double> b = {1, 2, 5, 8};
    const double alpha = 2;
    const fleet_dropin_call call = {.symbol = "dtrsm_",
                                    .routine = fleet_dropin_trsm,
                                    .type = 'd',
                                    .side = 'r',
                                    .uplo = 'u',
                                    .transa = 'n',
                                    .transb = 0,
                                    .diag = 'u',
                                    .m = 2,
                                    .n = 2,
                                    .k = 2,
                                    .alpha = &alpha,
                                    .a = a.data(),
                                    .lda = 2,
                                    .b = nullptr,
                                    .ldb = 0,
                                    .beta = nullptr,
                                    .c = b.data(),
                                    .ldc = 2};
    const bool computed = fleet_dropin()->compute(&call) == 1;
    return computed && b == std::vector<double>{2, 4, 4, 4} ? 0 : 1;
  });
  EXPECT_EQ(ended.code, 0) << ended.output;
}

TEST(TheDropin, TakesEverythingWhenTold) {
  for (const auto& [name, value] : std::map<std::string, std::string>{
           {"FLEETBLAS_OFFLOAD", "always"}, {"FLEETBLAS_MIN_FLOPS", "1"}}) {
    const Ended ended = with_settings({{name, value}}, 0.01, [] {
      const fleet_dropin_core* core = fleet_dropin();
      Offer offer(20);
      const fleet_dropin_call call = offer.call();
      return core->min_flops == 0 && core->offer(&call) == 1 && offer.done() ? 0 : 1;
    });
    EXPECT_EQ(ended.code, 0) << name << ": " << ended.output;
  }
}

TEST(TheDropin, TakesNothingWhenToldSo) {
  const Ended ended = with_settings({{"FLEETBLAS_OFFLOAD", "never"}}, 100, [] {
    const fleet_dropin_core* core = fleet_dropin();
    Offer offer(512);
    const fleet_dropin_call call = offer.call();
    return std::isinf(core->min_flops) && core->offer(&call) == 0 && offer.untouched() ? 0 : 1;
  });
  EXPECT_EQ(ended.code, 0) << ended.output;
}

TEST(TheDropin, FindsByTheModelFromWhichSizeOnDevicesPay) {
  // Latencies of 0.1 ms and 1 GFLOPS on the CPU: cubes of a few hundred pay, cubes of 32 do not.
  const Ended ended = with_settings({}, 100, [] {
    const fleet_dropin_core* core = fleet_dropin();
    Offer small(32), large(512);
    const fleet_dropin_call small_call = small.call(), large_call = large.call();
    if (core->min_flops < 2.0 * 32 * 32 * 32) return 1;
    if (core->min_flops > 2.0 * 512 * 512 * 512) return 2;
    if (core->offer(&small_call) != 0 || !small.untouched()) return 3;
    return core->offer(&large_call) == 1 && large.done() ? 0 : 4;
  });
  EXPECT_EQ(ended.code, 0) << ended.output;
}

TEST(TheDropin, NeverPaysWithDevicesThatAreSlowerThanTheCpu) {
  const Ended ended =
      with_settings({}, 0.1, [] { return std::isinf(fleet_dropin()->min_flops) ? 0 : 1; });
  EXPECT_EQ(ended.code, 0) << ended.output;
}

TEST(TheDropin, BooksWhatTheBlasBehindDid) {
  const Ended ended =
      with_settings({{"FLEETBLAS_SUMMARY", "1"}, {"FLEETBLAS_VERBOSE", "1"}}, 0.1, [] {
        const fleet_dropin_core* core = fleet_dropin();
        if (core->wants_all != 1) return 1;
        Offer offer(64);
        const fleet_dropin_call call = offer.call();
        core->note_host(&call, 0.25);
        if (core->offer(&call) != 0) return 2;
        core->note_host(&call, 0.5);
        return 0;
      });

  EXPECT_EQ(ended.code, 0);
  EXPECT_NE(ended.output.find("cblas_dgemm64_(N,T,64,64,64,1,A,64,B,64,2,C,64) 250ms gpus:0"),
            std::string::npos)
      << ended.output;
  EXPECT_NE(ended.output.find("cpu (below min_flops)"), std::string::npos) << ended.output;
  EXPECT_NE(ended.output.find("cpu (the model: the CPU is faster)"), std::string::npos)
      << ended.output;
  EXPECT_NE(ended.output.find("fleetblas: 2 calls, 750ms in all"), std::string::npos)
      << ended.output;
}

TEST(TheDropin, LeavesAForkedChildToItsOwnBlas) {
  const Ended ended = with_settings({{"FLEETBLAS_OFFLOAD", "always"}}, 1, [] {
    Offer offer(40);
    const fleet_dropin_call call = offer.call();
    if (fleet_dropin()->offer(&call) != 1) return 1;
    const pid_t child = fork();
    if (child == 0) {
      Offer again(40);
      const fleet_dropin_call second = again.call();
      _exit(fleet_dropin()->offer(&second) == 0 && again.untouched() ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    return status == 0 ? 0 : 2;
  });
  EXPECT_EQ(ended.code, 0) << ended.output;
}

/// A call of another thread during which the process begins to exit.
struct LateCall {
  Offer offer{512};
  fleet_dropin_call call = offer.call();
  std::atomic<bool> begun{false};
  int taken = -1;
  std::thread thread;

  void start() {
    thread = std::thread([this] {
      begun = true;
      taken = fleet_dropin()->offer(&call);
    });
    while (!begun) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
};
LateCall* late_call = nullptr;

// Runs after the handlers of the core, so the call went on without devices.
void judge_late_call() {
  late_call->thread.join();
  const bool right = late_call->taken == 1 ? late_call->offer.done() : late_call->offer.untouched();
  _exit(late_call->taken >= 0 && right ? 7 : 1);
}

TEST(TheDropin, LeavesACallThatTheExitOvertakesToTheBlasBehind) {
  // 64^3 tile products take much longer to plan than the exit takes to begin.
  const Ended ended =
      with_settings({{"FLEETBLAS_OFFLOAD", "always"}, {"FLEETBLAS_TILE", "8"}}, 1, [] {
        std::atexit(judge_late_call);
        fleet_dropin();
        late_call = new LateCall;
        late_call->start();
        std::exit(2);
        return 3;
      });
  EXPECT_EQ(ended.code, 7) << ended.output;
}

TEST(TheDropin, FinishesWhatAFaultLeft) {
  const Ended ended =
      with_settings({{"FLEETBLAS_OFFLOAD", "always"}, {"FLEETBLAS_INJECT", "lost:0@1"}}, 1, [] {
        for (int i = 0; i < 3; ++i) {
          Offer offer(100);
          const fleet_dropin_call call = offer.call();
          if (fleet_dropin()->offer(&call) != 1 || !offer.done()) return 1;
        }
        return 0;
      });
  EXPECT_EQ(ended.code, 0) << ended.output;
}

}  // namespace
}  // namespace fleet
