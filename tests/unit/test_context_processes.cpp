// SPDX-License-Identifier: BSD-3-Clause
// test_context_processes.cpp: first calls, forks and exits, each in a separate program. The test
// program itself never calls the library, so that each of them starts without its state.
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <regex>
#include <thread>
#include <vector>

#include "fleetblas/fleetblas.h"
#include "support/host_context.hpp"
#include "support/processes.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using Json = nlohmann::json;
using test::child_succeeds;
using test::Ended;
using test::host_options;
using test::run_program;

/// A product of ones with beta = 2: every element must become k + 2. Simple enough for a forked
/// child.
bool multiply(fleet_context* context, std::int64_t edge) {
  const auto elements = static_cast<std::size_t>(edge * edge);
  const std::vector<double> ones(elements, 1.0);
  std::vector<double> c(elements, 1.0);
  const fleet_status status =
      fleet_dgemm(context, FLEET_NO_TRANS, FLEET_NO_TRANS, edge, edge, edge, 1.0, ones.data(), edge,
                  ones.data(), edge, 2.0, c.data(), edge);
  return status == FLEET_OK && c == std::vector<double>(elements, static_cast<double>(edge) + 2);
}

fleet_context* make(const std::string& options) {
  fleet_context* context = nullptr;
  return fleet_context_create(options.c_str(), &context) == FLEET_OK ? context : nullptr;
}

/// A context that its program never destroys: it stays reachable, so it is no leak.
fleet_context* kept_context = nullptr;

/// Starts threads that compute until the process ends.
void compute_for_ever(fleet_context* context, int threads, std::int64_t edge) {
  for (int t = 0; t < threads; ++t)
    std::thread([context, edge] {
      for (;;) multiply(context, edge);
    }).detach();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
}

TEST(TheFirstCall, MayComeFromManyThreadsAtOnce) {
  for (int round = 0; round < static_cast<int>(test::scaled(5)); ++round) {
    const Ended ended = run_program([] {
      std::atomic<bool> go{false};
      std::atomic<int> right{0};
      std::vector<std::thread> threads;
      for (int t = 0; t < 16; ++t)
        threads.emplace_back([&] {
          while (!go) std::this_thread::yield();
          right += multiply(nullptr, 40);
        });
      go = true;
      for (std::thread& thread : threads) thread.join();
      return right == 16 ? 0 : 1;
    });
    ASSERT_EQ(ended.code, 0) << ended.output;
  }
}

TEST(ABadEnvironment, IsReportedIfAskedForAndOtherwiseIgnored) {
  const Ended ended = run_program([] {
    setenv("FLEETBLAS_BACKEND", "moon", 1);
    setenv("FLEETBLAS_MACHINE", "/nonexistent.json", 1);
    setenv("FLEETBLAS_LOG_LEVEL", "2", 1);
    return multiply(nullptr, 40) ? 0 : 1;
  });

  EXPECT_EQ(ended.code, 0);
  EXPECT_NE(ended.output.find("FLEETBLAS_BACKEND: backend=moon: expected auto, cuda, host, sim"),
            std::string::npos)
      << ended.output;
  EXPECT_NE(ended.output.find("/nonexistent.json"), std::string::npos) << ended.output;
}

TEST(ABadEnvironment, IsAnErrorForThoseWhoMakeAContext) {
  const Ended ended = run_program([] {
    setenv("FLEETBLAS_TILE", "abc", 1);
    fleet_context* context = nullptr;
    const fleet_status status = fleet_context_create("backend=auto", &context);
    return status == FLEET_BAD_OPTION && context == nullptr ? 0 : 1;
  });
  EXPECT_EQ(ended.code, 0) << ended.output;
}

TEST(AFork, BeforeAnyUseChangesNothing) {
  const Ended ended = run_program([] {
    const bool child = child_succeeds([] {
      fleet_context* context = make(host_options(2));
      return multiply(nullptr, 60) && multiply(context, 60) &&
             child_succeeds([&] { return multiply(nullptr, 60) && multiply(context, 60); });
    });
    return child && multiply(nullptr, 60) ? 0 : 1;
  });
  EXPECT_EQ(ended.code, 0) << ended.output;
}

TEST(AFork, AfterUseLeavesTheChildTheCpuAndTheParentEverything) {
  const Ended ended = run_program([] {
    fleet_context* context = make(host_options(2));
    void* on_device = nullptr;
    if (!multiply(nullptr, 60) || !multiply(context, 60)) return 1;
    if (fleet_alloc(context, 0, 8000, &on_device) != FLEET_OK) return 2;
    const auto use_everything = [&] {
      char* text = nullptr;
      void* data = nullptr;
      const bool fine = fleet_plan_json(context, "dgemm size=64", &text) == FLEET_OK &&
                        fleet_stats_json(context, &text) == FLEET_OK &&
                        fleet_config_json(context, &text) == FLEET_OK &&
                        fleet_alloc(context, FLEET_HOST, 100, &data) == FLEET_OK &&
                        fleet_free(context, data) == FLEET_OK &&
                        fleet_alloc(context, 0, 100, &data) == FLEET_UNSUPPORTED &&
                        fleet_free(context, on_device) == FLEET_OK &&
                        fleet_trim(context) == FLEET_OK;
      return fine && multiply(nullptr, 60) && multiply(context, 60);
    };
    const bool child = child_succeeds([&] {
      return use_everything() && child_succeeds([&] { return multiply(context, 60); }) &&
             fleet_context_destroy(context) == FLEET_OK;
    });
    if (!child) return 3;
    if (!multiply(nullptr, 60) || !multiply(context, 60)) return 4;
    return fleet_free(context, on_device) == FLEET_OK && fleet_context_destroy(context) == FLEET_OK
               ? 0
               : 5;
  });
  EXPECT_EQ(ended.code, 0) << ended.output;
}

TEST(AFork, RefusesOperandsThatTheChildCannotReach) {
  const Ended ended = run_program([] {
    if (!multiply(nullptr, 60)) return 1;
    // Looks like GPU memory to the CPU: an address of this process without a page.
    constexpr std::int64_t kEdge = 60;
    constexpr std::size_t kBytes = kEdge * kEdge * sizeof(double);
    void* far = mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const auto refuses = [&] {
      std::vector<double> near(kEdge * kEdge, 1.0);
      const auto gemm = [&](double alpha, const void* a, void* c) {
        return fleet_dgemm(nullptr, FLEET_NO_TRANS, FLEET_NO_TRANS, kEdge, kEdge, kEdge, alpha,
                           static_cast<const double*>(a), kEdge, near.data(), kEdge, 2.0,
                           static_cast<double*>(c), kEdge);
      };
      return gemm(1.0, far, near.data()) == FLEET_UNSUPPORTED &&
             gemm(1.0, near.data(), far) == FLEET_UNSUPPORTED &&
             fleet_copy(nullptr, near.data(), far, kBytes) == FLEET_UNSUPPORTED &&
             near == std::vector<double>(kEdge * kEdge, 1.0) &&
             gemm(0.0, far, near.data()) == FLEET_OK;  // A is not read
    };
    return child_succeeds(refuses) ? 0 : 2;
  });
  EXPECT_EQ(ended.code, 0) << ended.output;
}

void fork_under_load(const std::string& options) {
#if defined(__SANITIZE_ADDRESS__) && __GNUC__ < 14
  // Its allocator does not take its locks around a fork: a child that allocates waits forever for a
  // thread that it does not have (observed in StackDepotBase::Put). Newer versions use
  // pthread_atfork.
  GTEST_SKIP() << "this AddressSanitizer cannot fork beside threads that allocate";
#endif
  const Ended ended = run_program(
      [&] {
        fleet_context* context = options.empty() ? nullptr : make(options);
        if (!multiply(context, 60)) return 1;
        compute_for_ever(context, 3, 150);
        for (int child = 0; child < static_cast<int>(test::scaled(30)); ++child)
          if (!child_succeeds([&] {
                char* text = nullptr;
                return fleet_stats_json(context, &text) == FLEET_OK && multiply(context, 60) &&
                       fleet_context_destroy(context) == FLEET_OK;
              }))
            return 2;
        return multiply(context, 60) ? 0 : 3;
      },
      120);
  EXPECT_EQ(ended.code, 0) << ended.output;
}

TEST(AFork, DuringCallsOfOtherThreadsHarmsNobodyOnDevices) {
  fork_under_load(host_options(2) + ";tile=32");
}

TEST(AFork, DuringCallsOfOtherThreadsHarmsNobodyOnTheCpu) { fork_under_load(""); }

/// A tree of forks of depth `depth` with two children at each node, each of which computes beside
/// threads of its own. True if all processes end.
bool grows_a_tree(fleet_context* context, int depth) {
  const auto node = [&] {
    std::atomic<bool> stop{false};
    std::thread beside([&] {
      while (!stop) multiply(context, 20);
    });
    const bool right = multiply(context, 60) && multiply(nullptr, 60) &&
                       (depth == 0 || grows_a_tree(context, depth - 1));
    stop = true;
    beside.join();
    return right;
  };
  return child_succeeds(node) && child_succeeds(node);
}

void fork_trees_under_load(const std::string& options) {
#if defined(__SANITIZE_ADDRESS__) && __GNUC__ < 14
  GTEST_SKIP() << "this AddressSanitizer cannot fork beside threads that allocate";  // see above
#elif defined(__SANITIZE_THREAD__)
  // This includes threads that the CPU BLAS starts.
  GTEST_SKIP() << "ThreadSanitizer takes threads of a child for those of its parent, and ends it";
#endif
  const Ended ended = run_program(
      [&] {
        fleet_context* context = make(options);
        if (!multiply(context, 60) || !multiply(nullptr, 60)) return 1;
        compute_for_ever(context, 2, 150);
        compute_for_ever(nullptr, 2, 20);
        std::atomic<int> grown{0};
        const int trees = std::max(1, static_cast<int>(test::scaled(6)));
        std::vector<std::thread> gardeners;
        for (int thread = 0; thread < 2; ++thread)
          gardeners.emplace_back([&] {
            for (int tree = 0; tree < trees; ++tree) grown += grows_a_tree(context, 2);
          });
        for (std::thread& gardener : gardeners) gardener.join();
        return grown == 2 * trees && multiply(context, 60) ? 0 : 2;
      },
      120);
  EXPECT_EQ(ended.code, 0) << ended.output;
}

TEST(ATreeOfForks, UnderLoadComesToItsEndOnDevices) {
  fork_trees_under_load(host_options(2) + ";tile=32");
}

TEST(ATreeOfForks, UnderLoadComesToItsEndOnTheCpu) { fork_trees_under_load("offload=never"); }

/// Expects that the program ends within the limit, without output, with its own status.
void expect_quiet_end(const Ended& ended) {
  EXPECT_EQ(ended.code, 7);
  EXPECT_LT(ended.seconds, 10);
  EXPECT_EQ(ended.output, "");
}

TEST(TheEnd, MayComeWhileOtherThreadsCompute) {
  for (const std::string& options : {host_options(2), std::string()})
    for (int round = 0; round < static_cast<int>(test::scaled(8)); ++round) {
      expect_quiet_end(run_program([&] {
        compute_for_ever(options.empty() ? nullptr : make(options), 3, 200);
        return 7;
      }));
    }
}

TEST(TheEnd, MayComeFromAnyThread) {
  expect_quiet_end(run_program([] {
    fleet_context* context = make(host_options(2));
    compute_for_ever(context, 2, 200);
    std::thread([] { std::exit(7); }).join();
    return 1;
  }));
}

void call_late() {
  if (!multiply(kept_context, 60) || !multiply(nullptr, 60)) _exit(8);
}

TEST(TheEnd, StillTakesCallsFromExitHandlers) {
  for (const bool busy : {false, true})
    expect_quiet_end(run_program([&] {
      std::atexit(call_late);  // runs after all handlers of the library
      kept_context = make(host_options(2));
      if (!multiply(kept_context, 60) || !multiply(nullptr, 60)) return 1;
      if (busy) compute_for_ever(kept_context, 2, 200);
      return 7;
    }));
}

std::string contents(const std::string& file) {
  std::ifstream stream(file);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

TEST(TheSummary, IsWrittenAtTheEndAsTextOrJson) {
  const std::string text = test::temporary_file("summary.txt");
  const std::string json = test::temporary_file("summary.json");
  for (const std::string& file : {text, json}) {
    const Ended ended = run_program([&] {
      fleet_context* context = make(host_options(2) + ";summary=" + file);
      if (!multiply(context, 64) || !multiply(context, 64)) return 1;
      return fleet_context_destroy(context) == FLEET_OK ? 7 : 2;
    });
    expect_quiet_end(ended);
  }

  EXPECT_NE(contents(text).find("fleetblas: 2 calls"), std::string::npos) << contents(text);
  EXPECT_NE(contents(text).find("devices: 2 (offload=always)"), std::string::npos);
  EXPECT_EQ(Json::parse(contents(json))["calls"], 2);
  std::filesystem::remove(text);
  std::filesystem::remove(json);
}

TEST(TheSummary, GoesToStderrWhenItIsOneAndCountsAllContexts) {
  const Ended ended = run_program([] {
    setenv("FLEETBLAS_SUMMARY", "1", 1);
    kept_context = make(host_options(2));
    return multiply(kept_context, 64) && multiply(nullptr, 64) ? 7 : 1;
  });

  EXPECT_EQ(ended.code, 7);
  EXPECT_NE(ended.output.find("fleetblas: 2 calls"), std::string::npos) << ended.output;
  EXPECT_NE(ended.output.find("cpu: 1 (no usable device)"), std::string::npos) << ended.output;
}

TEST(TheSummary, OfAParentIsNotWrittenByItsChildren) {
  const Ended ended = run_program([] {
    setenv("FLEETBLAS_SUMMARY", "1", 1);
    if (!multiply(nullptr, 64)) return 1;
    const pid_t child = fork();
    if (child == 0) std::exit(0);
    waitpid(child, nullptr, 0);
    return 7;
  });

  EXPECT_EQ(ended.code, 7);
  EXPECT_EQ(ended.output.find("1 call,"), ended.output.rfind("1 call,")) << ended.output;
  EXPECT_NE(ended.output.find("1 call,"), std::string::npos) << ended.output;
}

TEST(TheTimeline, OfAllRunsIsWrittenAtTheEnd) {
  const std::string file = test::temporary_file("trace.json");
  const Ended ended = run_program([&] {
    kept_context = make(host_options(2) + ";trace=" + file);
    for (int call = 0; call < 3; ++call)
      if (!multiply(kept_context, 64)) return 1;
    return 7;
  });

  expect_quiet_end(ended);
  const Json trace = Json::parse(contents(file));
  EXPECT_EQ(trace["fleetblas"]["calls"].size(), 3u);
  double last_us = 0;
  for (const Json& event : trace["traceEvents"])
    if (event.contains("ts")) last_us = std::max(last_us, event["ts"].get<double>());
  EXPECT_GT(last_us, 0);
  std::filesystem::remove(file);
}

TEST(TheTimeline, OfContextsThatAreGoneIsWrittenAtTheEnd) {
  const std::string file = test::temporary_file("gone.json");
  const Ended ended = run_program([&] {
    for (int round = 0; round < 70; ++round) {
      fleet_context* context = make(host_options(1) + ";trace=" + file);
      if (!multiply(context, 16 + round)) return 1;
      if (fleet_context_destroy(context) != FLEET_OK) return 2;
    }
    return 7;
  });

  expect_quiet_end(ended);
  const Json calls = Json::parse(contents(file))["fleetblas"]["calls"];
  ASSERT_EQ(calls.size(), 64u);  // the most recent calls
  EXPECT_NE(calls.back().dump().find("85"), std::string::npos) << calls.back().dump();
  std::filesystem::remove(file);
}

TEST(TheSummary, OfContextsThatAreGoneTakesNoPlansWithIt) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the allocator of sanitizers does not report the memory in use";
#endif
  const std::string file = test::temporary_file("gone.txt");
  const Ended ended = run_program([&] {
    std::size_t before = 0;
    constexpr int kWarm = 3, kContexts = 13;
    for (int round = 0; round < kContexts; ++round) {
      fleet_context* context = make(host_options(2) + ";tile=16;summary=" + file);
      if (!multiply(context, 160)) return 1;  // a plan of more than 1000 tasks
      if (fleet_context_destroy(context) != FLEET_OK) return 2;
      if (round + 1 == kWarm) before = mallinfo2().uordblks;
    }
    const std::size_t after = mallinfo2().uordblks;
    std::cerr << before << " bytes in use, and after more contexts " << after << "\n";
    constexpr std::size_t kOnePlan = std::size_t{1} << 17;  // a plan takes more than this
    return after < before + kOnePlan ? 7 : 3;
  });

  EXPECT_EQ(ended.code, 7) << ended.output;
  EXPECT_NE(contents(file).find("fleetblas: 13 calls"), std::string::npos) << contents(file);
  std::filesystem::remove(file);
}

TEST(StandardStreams, MayBeClosedOrBroken) {
  const auto loud = [] {
    setenv("FLEETBLAS_VERBOSE", "1", 1);
    setenv("FLEETBLAS_LOG_LEVEL", "5", 1);
    setenv("FLEETBLAS_SUMMARY", "1", 1);
  };
  const Ended closed = run_program([&] {
    loud();
    for (int descriptor = 0; descriptor < 3; ++descriptor) close(descriptor);
    return multiply(nullptr, 64) ? 7 : 1;
  });
  const Ended broken = run_program([&] {
    loud();
    int ends[2];
    if (pipe(ends) != 0) return 1;
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    return multiply(nullptr, 64) ? 7 : 1;
  });

  EXPECT_EQ(closed.code, 7);
  EXPECT_EQ(broken.code, 7);
}

TEST(VerboseLines, SayWhatRanWhereAndWhy) {
  const Ended ended = run_program([] {
    kept_context = make(host_options(2) + ";verbose=1;tile=32");
    return multiply(kept_context, 64) ? 7 : 1;
  });

  EXPECT_EQ(ended.code, 7);
  const std::regex shape(
      R"(fleet_dgemm\(N,N,64,64,64,1,A,64,B,64,2,C,64\) [0-9.]+(us|ms|s) )"
      R"(\([0-9.]+(us|ms|s) to prepare\) predicted [0-9.]+(us|ms|s) gpus:2 tile:32 )"
      R"([0-9.e-]+/[0-9.e-]+/[0-9.e-]+GB h2d/p2p/d2h [0-9.e-]+TFLOPS devices \(offload=always\)( started: [^\n]*)?\n)");
  EXPECT_TRUE(std::regex_match(ended.output, shape)) << ended.output;
}

TEST(VerboseLines, GiveTheMeasuredTimeAloneBesideThePredictionOfAPlanAtHand) {
  const Ended ended = run_program([] {
    kept_context = make(host_options(2) + ";verbose=1;tile=32");
    return multiply(kept_context, 64) && multiply(kept_context, 64) ? 7 : 1;
  });

  EXPECT_EQ(ended.code, 7);
  const std::string second = ended.output.substr(ended.output.find('\n') + 1);
  const std::regex shape(R"(fleet_dgemm\([^)]*\) ([0-9.]+(us|ms|s)) predicted )"
                         R"(([0-9.]+(us|ms|s)) gpus:2 .*\n)");
  EXPECT_TRUE(std::regex_match(second, shape)) << ended.output;
}

TEST(VerboseLines, PredictNothingForCallsOnTheCpu) {
  const Ended ended = run_program([] {
    kept_context = make(host_options(2) + ";verbose=1;offload=never");
    return multiply(kept_context, 64) ? 7 : 1;
  });

  EXPECT_EQ(ended.code, 7);
  EXPECT_NE(ended.output.find("cpu (offload=never)"), std::string::npos) << ended.output;
  EXPECT_EQ(ended.output.find("predicted"), std::string::npos) << ended.output;
}

TEST(WithoutHomeAndFolders, ContextsWork) {
  const Ended ended = run_program([] {
    for (const char* name : {"HOME", "XDG_CACHE_HOME", "TMPDIR"}) unsetenv(name);
    setenv("TMPDIR", "/dev/null", 1);
    kept_context = make("backend=host;devices=1;offload=always");
    return multiply(kept_context, 64) ? 7 : 1;
  });
  expect_quiet_end(ended);
}

}  // namespace
}  // namespace fleet
