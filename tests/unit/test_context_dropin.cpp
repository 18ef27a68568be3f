// SPDX-License-Identifier: BSD-3-Clause
// test_context_dropin.cpp: the core as the preload library calls it; each test is a separate
// program. It knows no symbol names.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "api/dropin.h"
#include "backend/host/machine.hpp"
#include "fleetblas/fleetblas.h"
#include "support/failing_new.hpp"
#include "support/host_context.hpp"
#include "support/processes.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using test::Ended;
using test::run_program;

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

std::string books() {
  char* text = nullptr;
  if (fleet_stats_json(nullptr, &text) != FLEET_OK) return "no statistics";
  std::string kept = text;
  fleet_free_text(text);
  return kept;
}

/// Calls of every routine and type, with flags that vary from call to call.
std::vector<fleet_dropin_call> calls_of_all_routines(const void* scalar, void* matrix) {
  std::vector<fleet_dropin_call> calls;
  for (int routine = fleet_dropin_gemm; routine <= fleet_dropin_trsm; ++routine)
    for (const char type : {'s', 'd', 'c', 'z'})
      for (const bool turned : {false, true}) {
        const RoutineTraits& traits = traits_of(static_cast<Routine>(routine));
        const bool complex = type == 'c' || type == 'z';
        if (traits.hermitian && !complex) continue;
        const char trans = !turned ? 'n' : traits.hermitian || !complex ? 'c' : 't';
        fleet_dropin_call call{.symbol = traits.word,
                               .routine = static_cast<fleet_dropin_routine>(routine),
                               .type = type};
        if (traits.has_side()) call.side = turned ? 'r' : 'l';
        if (routine != fleet_dropin_gemm) call.uplo = turned ? 'u' : 'l';
        if (!traits.symmetric) call.transa = trans;
        if (!traits.has_side() && !traits.by_itself) call.transb = turned ? 'n' : 'c';
        if (traits.triangular) call.diag = turned ? 'u' : 'n';
        call.n = 3;
        call.m = traits.triangle ? call.n : 2;
        call.k = !traits.has_side() ? 4 : turned ? call.n : call.m;
        call.alpha = call.a = call.b = call.beta = scalar;
        call.lda = call.ldb = call.ldc = 4;
        call.c = matrix;
        calls.push_back(call);
      }
  return calls;
}

TEST(TheDropin, BooksASmallCallByItsShapeAsItDoesWithAllThatIsKnown) {
  // A log at the highest level has one line per call, with all of its arguments.
  const auto booked = [](const char* log_level) {
    return with_settings({{"FLEETBLAS_SUMMARY", "/dev/null"},
                          {"FLEETBLAS_LOG_LEVEL", log_level},
                          {"FLEETBLAS_LOG_FILE", "/dev/null"}},
                         0.1, [] {
                           std::vector<double> numbers(16, 1.0);
                           const auto* core = fleet_dropin();
                           double seconds = 0;
                           for (const fleet_dropin_call& call :
                                calls_of_all_routines(numbers.data(), numbers.data())) {
                             core->note_host(&call, seconds += 0.25);
                             std::cerr << books() << "\n";
                           }
                           return 0;
                         });
  };

  const Ended by_shape = booked("0"), whole = booked("5");

  EXPECT_EQ(by_shape.code, 0);
  EXPECT_EQ(by_shape.output, whole.output);
  EXPECT_EQ(std::ranges::count(by_shape.output, '\n'), 2 * (7 * 4 + 3 * 2));
  EXPECT_NE(by_shape.output.find("\"routine\":\"trsm\",\"type\":\"z\",\"m\":2,\"n\":3,\"k\":3,"
                                 "\"batch\":1,\"side\":\"r\",\"uplo\":\"u\",\"diag\":\"u\","
                                 "\"transa\":\"t\""),
            std::string::npos)
      << by_shape.output;
}

TEST(TheDropin, BooksNothingOfACallOnDevicesWithTheSmallOneAfterIt) {
  const Ended ended =
      with_settings({{"FLEETBLAS_SUMMARY", "/dev/null"}, {"FLEETBLAS_OFFLOAD", "always"}}, 1, [] {
        Offer offer(64);
        const fleet_dropin_call call = offer.call();
        if (fleet_dropin()->offer(&call) != 1) return 1;
        std::cerr << books().substr(books().find("\"last\"")) << "\n";
        fleet_dropin()->note_host(&call, 0.25);
        std::cerr << books().substr(books().find("\"last\"")) << "\n";
        return 0;
      });

  EXPECT_EQ(ended.code, 0);
  const std::string devices = ended.output.substr(0, ended.output.find('\n'));
  const std::string small = ended.output.substr(devices.size() + 1);
  EXPECT_NE(devices.find("\"where\":\"devices\""), std::string::npos) << devices;
  EXPECT_EQ(devices.find("\"bytes_by_link\":{}"), std::string::npos) << devices;
  EXPECT_NE(small.find("\"place\":\"p,p,p\",\"where\":\"cpu\",\"reason\":\"below min_flops\","
                       "\"detail\":\"\",\"workers\":0,\"cpu_share\":0,\"tile\":0,"
                       "\"seconds\":0.25,\"prepare_s\":0"),
            std::string::npos)
      << small;
  EXPECT_NE(small.find("\"bytes_by_link\":{}"), std::string::npos) << small;
}

TEST(TheDropin, LeavesTheProgramsMessageAloneWhenItBooksACall) {
  const Ended ended = with_settings({{"FLEETBLAS_SUMMARY", "/dev/null"}}, 0.1, [] {
    Offer offer(64);
    const fleet_dropin_call call = offer.call();
    const auto* core = fleet_dropin();
    if (fleet_stats_json(nullptr, nullptr) == FLEET_OK) return 1;
    const std::string before = fleet_message();
    core->note_host(&call, 0.25);
    return !before.empty() && fleet_message() == before ? 0 : 2;
  });
  EXPECT_EQ(ended.code, 0) << ended.output;
}

TEST(TheDropin, BooksEveryCallOfManyThreadsAndAForkedChildFindsTheBooksWhole) {
  constexpr int kThreads = 4, kForks = 40;
  const Ended ended = with_settings({{"FLEETBLAS_SUMMARY", "/dev/null"}}, 0.1, [] {
    Offer offer(64);
    const fleet_dropin_call call = offer.call();
    // The sum, a quarter of a second per call, does not depend on the order.
    const auto whole = [] {
      const auto stats = nlohmann::json::parse(books());
      return stats["seconds"] == 0.25 * stats["calls"].get<double>();
    };
    fleet_dropin();
    std::atomic<bool> stop = false;
    std::atomic<int> noted = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&] {
        int calls = 0;
        for (; !stop; ++calls) fleet_dropin()->note_host(&call, 0.25);
        noted += calls;
      });
    bool all_whole = true;
    for (int i = 0; i < kForks; ++i) {
      const pid_t child = fork();
      if (child == 0) {
        alarm(20);  // a child that hangs is a failure, not a hanging test
        fleet_dropin()->note_host(&call, 0.25);
        _exit(whole() ? 0 : 1);
      }
      int status = 1;
      all_whole = waitpid(child, &status, 0) == child && status == 0 && whole() && all_whole;
    }
    stop = true;
    for (std::thread& thread : threads) thread.join();
    const auto stats = nlohmann::json::parse(books());
    return all_whole && whole() && stats["calls"] == noted.load() ? 0 : 1;
  });
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
