// SPDX-License-Identifier: BSD-3-Clause
// test_capi_errors.cpp: every reason for which the C API refuses a call, and memory by location. It
// knows nothing below the C API.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <vector>

#include "fleetblas/fleetblas.h"
#include "support/host_context.hpp"

namespace fleet {
namespace {

using test::host_options;
using test::HostContext;
using test::temporary_file;

/// A legal 2 x 3 x 4 product; tests make one argument illegal.
struct Call {
  int transa = 'n', transb = 'n';
  std::int64_t m = 2, n = 3, k = 4, lda = 2, ldb = 4, ldc = 2;
  bool no_a = false, no_c = false;
  std::vector<double> a = std::vector<double>(8, 1.0), b = std::vector<double>(12, 1.0),
                      c = std::vector<double>(6, 5.0);

  fleet_status run(fleet_context* context) {
    return fleet_dgemm(context, static_cast<fleet_op>(transa), static_cast<fleet_op>(transb), m, n,
                       k, 1.0, no_a ? nullptr : a.data(), lda, b.data(), ldb, 1.0,
                       no_c ? nullptr : c.data(), ldc);
  }
};

/// The message for `call`, which must be refused with C untouched.
std::string refusal(fleet_context* context, Call call) {
  EXPECT_EQ(call.run(context), FLEET_BAD_ARGUMENT);
  EXPECT_EQ(call.c, std::vector<double>(6, 5.0));
  return fleet_message();
}

TEST(IllegalArguments, AreNamedWithTheirPosition) {
  const HostContext context(host_options(1));

  EXPECT_EQ(refusal(context, {.transa = 'x'}),
            "fleet_dgemm: argument 2 (transa) is 120, expected 'n', 't' or 'c'");
  EXPECT_EQ(refusal(context, {.transb = 0}),
            "fleet_dgemm: argument 3 (transb) is 0, expected 'n', 't' or 'c'");
  EXPECT_EQ(refusal(context, {.m = -1}), "fleet_dgemm: argument 4 (m) is -1, expected at least 0");
  EXPECT_EQ(refusal(context, {.n = -2}), "fleet_dgemm: argument 5 (n) is -2, expected at least 0");
  EXPECT_EQ(refusal(context, {.k = -3}), "fleet_dgemm: argument 6 (k) is -3, expected at least 0");
  EXPECT_EQ(refusal(context, {.lda = 1}),
            "fleet_dgemm: argument 9 (lda) is 1, expected at least 2");
  EXPECT_EQ(refusal(context, {.transa = 't'}),
            "fleet_dgemm: argument 9 (lda) is 2, expected at least 4");
  EXPECT_EQ(refusal(context, {.ldb = 3}),
            "fleet_dgemm: argument 11 (ldb) is 3, expected at least 4");
  EXPECT_EQ(refusal(context, {.ldc = 1}),
            "fleet_dgemm: argument 14 (ldc) is 1, expected at least 2");
  EXPECT_EQ(refusal(context, {.no_a = true}), "fleet_dgemm: argument 8 (a) is NULL");
  EXPECT_EQ(refusal(context, {.no_c = true}), "fleet_dgemm: argument 13 (c) is NULL");
  EXPECT_EQ(refusal(context, {.lda = std::numeric_limits<std::int64_t>::max()}),
            "fleet_dgemm: argument 9 (lda) puts the matrix beyond any address space");
}

TEST(IllegalArguments, LeaveTheMessageOfTheLastCallOnly) {
  const HostContext context(host_options(1));
  refusal(context, {.m = -1});

  Call legal;
  EXPECT_EQ(legal.run(context), FLEET_OK);

  EXPECT_STREQ(fleet_message(), "");
}

TEST(IllegalArguments, OfBatchesAreNamedToo) {
  const HostContext context(host_options(1));
  std::vector<double> x(64, 1.0);
  const auto run = [&](std::int64_t stride_a, std::int64_t stride_c, std::int64_t batch) {
    return fleet_dgemm_strided_batched(context, FLEET_NO_TRANS, FLEET_NO_TRANS, 2, 2, 2, 1.0,
                                       x.data(), 2, stride_a, x.data(), 2, 4, 0.0, x.data() + 32, 2,
                                       stride_c, batch);
  };

  EXPECT_EQ(run(4, 3, 2), FLEET_BAD_ARGUMENT);
  EXPECT_STREQ(fleet_message(),
               "fleet_dgemm_strided_batched: argument 17 (stride_c) lets items of C overlap");
  EXPECT_EQ(run(4, 0, 2), FLEET_BAD_ARGUMENT);
  EXPECT_EQ(run(-1, 4, 2), FLEET_BAD_ARGUMENT);
  EXPECT_EQ(run(4, 4, -1), FLEET_BAD_ARGUMENT);
  EXPECT_STREQ(fleet_message(),
               "fleet_dgemm_strided_batched: argument 18 (batch) is -1, expected at least 0");
  EXPECT_EQ(run(4, 0, 1), FLEET_OK);
  EXPECT_EQ(run(4, 0, 0), FLEET_OK);
}

TEST(NothingToDo, ReadsNoPointerAtAll) {
  const HostContext context(host_options(1));
  const auto run = [&](std::int64_t m, std::int64_t n, std::int64_t k, double alpha, double beta) {
    return fleet_dgemm(context, FLEET_NO_TRANS, FLEET_NO_TRANS, m, n, k, alpha, nullptr, 8, nullptr,
                       8, beta, nullptr, 8);
  };

  EXPECT_EQ(run(0, 5, 5, 1, 1), FLEET_OK);
  EXPECT_EQ(run(5, 0, 5, 1, 1), FLEET_OK);
  EXPECT_EQ(run(5, 5, 0, 1, 1), FLEET_OK);
  EXPECT_EQ(run(5, 5, 5, 0, 1), FLEET_OK);
  EXPECT_EQ(run(5, 5, 0, 1, 2), FLEET_BAD_ARGUMENT);  // C must be scaled
}

TEST(Contexts, RefuseWhatTheirOptionsSayInOneLine) {
  std::ofstream(temporary_file("broken.json")) << R"({"schema": 1, "devices": [)";
  std::ofstream(temporary_file("future.json")) << R"({"schema": 99})";
  const std::vector<std::tuple<std::string, fleet_status, std::string>> wrong = {
      {"tile=abc", FLEET_BAD_OPTION, "tile=abc: expected"},
      {"colour=red", FLEET_BAD_OPTION, "colour: no such option"},
      {"tile", FLEET_BAD_OPTION, "expected name=value"},
      {"rules=speed", FLEET_BAD_OPTION, "speed"},
      {"backend=sim", FLEET_BAD_OPTION, "machine"},
      {"backend=cuda", FLEET_UNSUPPORTED, "backend=cuda: no GPU can be used"},
      {"cpu_blas=/nonexistent/libblas.so", FLEET_BAD_OPTION, "/nonexistent/libblas.so"},
      {"machine=/nonexistent/machine.json", FLEET_BAD_FILE, "/nonexistent/machine.json"},
      {"machine=" + temporary_file("broken.json"), FLEET_BAD_FILE, "broken.json"},
      {"machine=" + temporary_file("future.json"), FLEET_BAD_FILE, "schema"},
      {host_options(2) + ";devices=0,2", FLEET_BAD_OPTION, "has 2 devices, not a device 2"},
  };

  for (const auto& [options, status, words] : wrong) {
    fleet_context* context = reinterpret_cast<fleet_context*>(1);
    EXPECT_EQ(fleet_context_create(options.c_str(), &context), status) << options;
    EXPECT_EQ(context, nullptr) << options;
    const std::string message = fleet_message();
    EXPECT_NE(message.find(words), std::string::npos) << options << ": " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(Contexts, TakeAllDevicesOfAMachineThatHasFewerThanACount) {
  const HostContext context(host_options(2) + ";devices=3");

  const std::string config = context.text(fleet_config_json);

  EXPECT_NE(config.find("\"devices\":[0,1]"), std::string::npos) << config;
}

TEST(Contexts, NeedSomewhereToPutTheHandle) {
  EXPECT_EQ(fleet_context_create(nullptr, nullptr), FLEET_BAD_ARGUMENT);
  EXPECT_STREQ(fleet_message(), "context is NULL");
  EXPECT_EQ(fleet_context_destroy(nullptr), FLEET_OK);
}

TEST(SimContexts, PlanButDoNotCompute) {
  const HostContext context("backend=sim;machine=" FLEETBLAS_SOURCE_DIR "/machines/h200x8.json");
  Call call;

  EXPECT_EQ(call.run(context), FLEET_UNSUPPORTED);

  EXPECT_EQ(call.c, std::vector<double>(6, 5.0));
  EXPECT_NE(context.text(fleet_plan_json, "dgemm size=8192").find(R"("workers":[0,1,2,3,4,5,6,7])"),
            std::string::npos);
}

TEST(Memory, IsGivenAndTakenBackAtEveryLocation) {
  const HostContext context(host_options(2));
  for (const int location : {FLEET_HOST_PAGEABLE, FLEET_HOST, 0, 1}) {
    void* data = nullptr;

    ASSERT_EQ(fleet_alloc(context, location, 1000, &data), FLEET_OK) << fleet_message();

    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % 256, 0u);
    EXPECT_EQ(fleet_free(context, static_cast<char*>(data) + 1), FLEET_BAD_ARGUMENT);
    EXPECT_EQ(fleet_free(context, data), FLEET_OK);
    EXPECT_EQ(fleet_free(context, data), FLEET_BAD_ARGUMENT);
  }
  void* none = &none;
  EXPECT_EQ(fleet_alloc(context, 0, 0, &none), FLEET_OK);
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(fleet_free(context, nullptr), FLEET_OK);
}

TEST(Memory, IsRefusedWhereThereIsNone) {
  const HostContext context(host_options(2, 1 << 20));
  void* data = nullptr;

  EXPECT_EQ(fleet_alloc(context, 2, 8, &data), FLEET_BAD_ARGUMENT);
  EXPECT_STREQ(fleet_message(), "there is no device 2 (this context has 2)");
  EXPECT_EQ(fleet_alloc(context, -3, 8, &data), FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_alloc(context, 0, 8 << 20, &data), FLEET_NO_MEMORY);
  EXPECT_EQ(fleet_alloc(context, FLEET_HOST_PAGEABLE, SIZE_MAX, &data), FLEET_NO_MEMORY);
  EXPECT_EQ(fleet_alloc(context, FLEET_HOST_PAGEABLE, SIZE_MAX / 2, &data), FLEET_NO_MEMORY);
  EXPECT_EQ(fleet_alloc(nullptr, 0, 8, &data), FLEET_BAD_ARGUMENT);
  EXPECT_EQ(data, nullptr);
}

TEST(Memory, OfDevicesIsGivenBackWithItsContext) {
  fleet_context* context = nullptr;
  ASSERT_EQ(fleet_context_create(host_options(1).c_str(), &context), FLEET_OK);
  void* data = nullptr;
  ASSERT_EQ(fleet_alloc(context, 0, 4096, &data), FLEET_OK);
  ASSERT_EQ(fleet_alloc(context, FLEET_HOST_PAGEABLE, 4096, &data), FLEET_OK);

  EXPECT_EQ(fleet_context_destroy(context),
            FLEET_OK);  // the leak checker reports what is still allocated
}

TEST(Memory, IsCopiedBetweenAnyTwoLocations) {
  const HostContext context(host_options(2));
  const std::vector<int> locations = {FLEET_HOST_PAGEABLE, FLEET_HOST, 0, 1};
  for (const int from : locations)
    for (const int to : locations) {
      void *source = nullptr, *target = nullptr;
      std::vector<char> in(1000, static_cast<char>(from + 4 * to)), out(1000, 0);
      ASSERT_EQ(fleet_alloc(context, from, in.size(), &source), FLEET_OK);
      ASSERT_EQ(fleet_alloc(context, to, in.size(), &target), FLEET_OK);

      ASSERT_EQ(fleet_copy(context, source, in.data(), in.size()), FLEET_OK);
      ASSERT_EQ(fleet_copy(context, target, source, in.size()), FLEET_OK);
      ASSERT_EQ(fleet_copy(context, out.data(), target, in.size()), FLEET_OK);

      EXPECT_EQ(in, out);
      fleet_free(context, source);
      fleet_free(context, target);
    }
  EXPECT_EQ(fleet_copy(context, nullptr, nullptr, 0), FLEET_OK);
  EXPECT_EQ(fleet_copy(context, nullptr, &context, 1), FLEET_BAD_ARGUMENT);
}

TEST(Memory, ThatEndsInsideAMatrixOnADeviceIsAnError) {
  const HostContext context(host_options(1));
  void* small = nullptr;
  ASSERT_EQ(fleet_alloc(context, 0, 7 * sizeof(double), &small), FLEET_OK);
  Call call;

  const fleet_status status =
      fleet_dgemm(context, FLEET_NO_TRANS, FLEET_NO_TRANS, 2, 3, 4, 1.0,
                  static_cast<const double*>(small), 2, call.b.data(), 4, 1.0, call.c.data(), 2);

  EXPECT_EQ(status, FLEET_BAD_ARGUMENT);
  EXPECT_STREQ(fleet_message(), "a matrix reaches beyond its memory on a device");
  EXPECT_EQ(call.c, std::vector<double>(6, 5.0));
  fleet_free(context, small);
}

/// The "place" of the last call in the statistics.
std::string last_place(const HostContext& context) {
  const std::string stats = context.text(fleet_stats_json);
  const std::size_t at = stats.find("\"place\":\"") + 9;
  return stats.substr(at, stats.find('"', at) - at);
}

TEST(RegisteredMemory, IsPinnedUntilItIsUnregistered) {
  const HostContext context(host_options(1));
  Call call;
  call.run(context);
  EXPECT_EQ(last_place(context), "p,p,p");

  ASSERT_EQ(fleet_host_register(context, call.a.data(), 64), FLEET_OK);
  ASSERT_EQ(fleet_host_register(context, call.b.data(), 95), FLEET_OK);  // one byte too few
  call.run(context);

  EXPECT_EQ(last_place(context), "h,p,p");
  EXPECT_EQ(fleet_host_register(context, call.a.data() + 1, 8), FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_host_register(context, nullptr, 8), FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_host_register(context, &call, 0), FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_free(context, call.a.data()), FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_host_unregister(context, call.a.data()), FLEET_OK);
  EXPECT_EQ(fleet_host_unregister(context, call.a.data()), FLEET_BAD_ARGUMENT);
  call.run(context);
  EXPECT_EQ(last_place(context), "p,p,p");
}

TEST(StreamsOfTheCaller, AreWaitedForOnDevicesOfTheContextOnly) {
  const HostContext context(host_options(4) + ";devices=1,3");
  int stream = 0;

  EXPECT_EQ(fleet_wait_stream(context, 1, nullptr), FLEET_OK);
  EXPECT_EQ(fleet_wait_stream(context, 3, &stream), FLEET_OK);
  EXPECT_EQ(fleet_wait_stream(context, 0, nullptr), FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_wait_stream(context, -1, nullptr), FLEET_BAD_ARGUMENT);
  const HostContext simulated("backend=sim;machine=h200x4");
  EXPECT_EQ(fleet_wait_stream(simulated, 0, nullptr), FLEET_UNSUPPORTED);
}

TEST(Devices, KeepTheirNumbersWhereOnlySomeAreUsed) {
  const HostContext context(host_options(4) + ";devices=1,3");
  void* data = nullptr;

  EXPECT_EQ(fleet_alloc(context, 0, 8, &data), FLEET_BAD_ARGUMENT);
  ASSERT_EQ(fleet_alloc(context, 3, 6 * sizeof(double), &data), FLEET_OK);
  Call call;
  ASSERT_EQ(fleet_dgemm(context, FLEET_NO_TRANS, FLEET_NO_TRANS, 2, 3, 4, 1.0, call.a.data(), 2,
                        call.b.data(), 4, 0.0, static_cast<double*>(data), 2),
            FLEET_OK)
      << fleet_message();

  EXPECT_EQ(last_place(context), "p,p,3");
  EXPECT_NE(context.text(fleet_plan_json, "dgemm size=512 a@h b@1 c@3").find("\"workers\":[1,3]"),
            std::string::npos);
  char* text = nullptr;
  EXPECT_EQ(fleet_plan_json(context, "dgemm size=512 a@h b@1 c@2", &text), FLEET_BAD_ARGUMENT);
  EXPECT_EQ(text, nullptr);
  fleet_free(context, data);
}

}  // namespace
}  // namespace fleet
