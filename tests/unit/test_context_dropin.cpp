// SPDX-License-Identifier: BSD-3-Clause
// test_context_dropin.cpp: the core as the preload library calls it; each test is a separate
// program. It knows no symbol names.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <thread>
#include <vector>

#include "api/dropin.h"
#include "fleetblas/fleetblas.h"
#include "support/dropin_calls.hpp"
#include "support/failing_new.hpp"
#include "support/processes.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using test::Ended;
using test::Offer;
using test::run_program;
using test::with_settings;

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

void start_devices() {
  void* memory = nullptr;
  fleet_alloc(nullptr, 0, 64, &memory);
  fleet_free(nullptr, memory);
}

/// The block size for an update of 4096 x 4096 doubles, more than 64.
std::int64_t block_size(std::int64_t most = 1024) {
  return fleet_dropin()->block_size('d', 4096, 4096, 64, most);
}

TEST(TheDropin, KnowsNoBlockSizeBeforeDevicesHaveStarted) {
  const Ended ended = with_settings({{"FLEETBLAS_OFFLOAD", "always"}}, 1, [] {
    const std::int64_t before = block_size();
    start_devices();
    return before == 0 && block_size() == 128 && block_size(127) == 0 ? 0 : 1;
  });
  EXPECT_EQ(ended.code, 0) << ended.output;
}

TEST(TheDropin, TakesBlocksWithWhichDevicesAreClearlyFaster) {
  // Two devices: together 1.8 times as fast as the CPU, and 20 times.
  const Ended slow = with_settings({}, 0.9, [] { return block_size() == 0 ? 0 : 1; });
  const Ended fast = with_settings({}, 10, [] { return block_size() == 128 ? 0 : 1; });

  EXPECT_EQ(slow.code, 0) << slow.output;
  EXPECT_EQ(fast.code, 0) << fast.output;
}

TEST(TheDropin, TakesBlocksWhoseUpdatesHaveMinFlops) {
  const std::string flops = std::to_string(2LL * 4096 * 4096 * 200);
  const Ended ended = with_settings({{"FLEETBLAS_MIN_FLOPS", flops}}, 0.1, [] {
    start_devices();
    return block_size() == 256 && block_size(128) == 0 ? 0 : 1;
  });
  EXPECT_EQ(ended.code, 0) << ended.output;
}

TEST(TheDropin, KnowsNoBlockSizeWhereNothingIsOffloaded) {
  const Ended ended =
      with_settings({{"FLEETBLAS_OFFLOAD", "never"}}, 10, [] { return block_size() == 0 ? 0 : 1; });
  EXPECT_EQ(ended.code, 0) << ended.output;
}

/// Offers one reflector, e1 with tau = 1, for 100 columns of ones, as a call of so many flops. A
/// wrong result ends the program.
bool takes_reflectors(double flops) {
  std::vector<double> v(100, 0.0), c(100 * 100, 1.0);
  double tau = 1;
  fleet_dropin_lapack_call call{};
  call.symbol = "dormqr_";
  call.routine = fleet_dropin_ormqr;
  call.type = 'd';
  call.side = 'l';
  call.trans = 'n';
  call.int_bits = 32;
  call.flops = flops;
  call.m = call.n = call.lda = call.ldc = 100;
  call.k = 1;
  call.a = v.data();
  call.c = c.data();
  call.tau = &tau;
  std::int64_t info = -7;
  const bool is_taken = fleet_dropin()->offer_lapack(&call, &info) == 1;
  for (std::size_t i = 0; i < c.size(); ++i)
    if (c[i] != (is_taken && i % 100 == 0 ? 0 : 1)) _exit(3);
  return is_taken;
}

TEST(TheDropin, LeavesSmallReflectorsToTheLapackBehindUnlessASettingSaysMore) {
  const Ended by_model = with_settings(
      {}, 10, [] { return !takes_reflectors(1e10) && takes_reflectors(1e11) ? 0 : 1; });
  const Ended by_setting = with_settings({{"FLEETBLAS_MIN_FLOPS", "1e6"}}, 10,
                                         [] { return takes_reflectors(1e7) ? 0 : 1; });

  EXPECT_EQ(by_model.code, 0) << by_model.output;
  EXPECT_EQ(by_setting.code, 0) << by_setting.output;
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
    // From the right: X*A = 2*B with A upper and unit diagonal; the stored diagonal must be
    // ignored.
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

/// A call in another thread that is under way when the process begins to exit.
struct LateCall {
  Offer offer{test::test_scale() < 1 ? 256 : 512};
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

// Runs after the exit handlers of the core, so the call continued without devices.
void judge_late_call() {
  late_call->thread.join();
  const bool right = late_call->taken == 1 ? late_call->offer.done() : late_call->offer.untouched();
  _exit(late_call->taken >= 0 && right ? 7 : 1);
}

TEST(TheDropin, LeavesACallThatTheExitOvertakesToTheBlasBehind) {
  // Planning 64^3 tile products, or 32^3 under sanitizers, takes much longer than the exit takes to
  // begin.
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

/// One of the two ways in which the core takes a call.
using Way = int (*)(const fleet_dropin_core&, const fleet_dropin_call&);

/// A call in which a kernel fails, and then the n-th allocation and all later ones. Returns 0 if
/// the core took it or C is untouched, 2 if in addition no allocation failed, 1 otherwise.
int take_with_failure(Way way, long n) {
  Offer product(40);
  const fleet_dropin_call call = product.call();
  const fleet_dropin_core* core = fleet_dropin();
  char* plan = nullptr;
  if (fleet_plan_json(nullptr, "dgemm size=40 transb=t a@p b@p c@p", &plan) != FLEET_OK) return 3;
  fleet_free_text(plan);

  int taken = 0;
  const bool failed = test::with_failure(n, false, [&] { taken = way(*core, call); });

  if (taken == 0 && !product.untouched()) return 1;  // the BLAS behind would begin from this C
  return failed ? 0 : 2;
}

void expect_no_changed_call_handed_on(Way way) {
  const std::map<std::string, std::string> settings = {
      {"FLEETBLAS_OFFLOAD", "always"}, {"FLEETBLAS_TILE", "16"}, {"FLEETBLAS_INJECT", "launch:20"}};
  const auto step = static_cast<long>(std::max(1.0, 1 / test::test_scale()));
  constexpr long kMost = 2000;
  int code = 0;
  for (long n = 1; code == 0 && n < kMost; n += step) {
    const Ended ended = with_settings(settings, 1, [&] { return take_with_failure(way, n); });
    code = ended.code;
    ASSERT_TRUE(code == 0 || code == 2) << "allocation " << n << ": " << code << ended.output;
  }
  EXPECT_EQ(code, 2) << "too many allocations";
}

TEST(TheDropin, HandsNoCallOnOnceCWasChanged) {
  expect_no_changed_call_handed_on([](const fleet_dropin_core& core,
                                      const fleet_dropin_call& call) { return core.offer(&call); });
}

TEST(TheDropin, ComputesNoCallAgainOnceCWasChanged) {
  expect_no_changed_call_handed_on(
      [](const fleet_dropin_core& core, const fleet_dropin_call& call) {
        return core.compute(&call);
      });
}

}  // namespace
}  // namespace fleet
