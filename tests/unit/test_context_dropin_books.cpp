// SPDX-License-Identifier: BSD-3-Clause
// test_context_dropin_books.cpp: what the core books of the calls that the preload library left to
// the BLAS behind; each test is a separate program. It knows no symbol names.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "api/dropin.h"
#include "fleetblas/fleetblas.h"
#include "problem/problem.hpp"
#include "support/dropin_calls.hpp"

namespace fleet {
namespace {

using test::Ended;
using test::Offer;
using test::with_settings;

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

}  // namespace
}  // namespace fleet
