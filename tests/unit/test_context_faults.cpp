// SPDX-License-Identifier: BSD-3-Clause
// test_context_faults.cpp: calls through the C API while devices, memory and files fail. It knows
// nothing below the C API.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "fleetblas/fleetblas.h"
#include "support/host_context.hpp"
#include "support/reference.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using Json = nlohmann::json;
using test::Guarded;
using test::host_options;
using test::HostContext;
using test::Random;

/// Computes one product with beta = -1; "" if it is right, else the error or the status.
std::string multiply(fleet_context* context, std::int64_t m, std::int64_t n, std::int64_t k,
                     std::uint64_t seed = 1) {
  Random random(seed);
  Guarded<double> a(m, k, m + 1), b(k, n, k + 2), c(m, n, m + 3);
  a.fill_random(random);
  b.fill_random(random);
  c.fill_random(random);
  const auto expected = test::expect_gemm<double>({.m = m,
                                                   .n = n,
                                                   .k = k,
                                                   .alpha = 2,
                                                   .a = a.data(),
                                                   .lda = a.ld(),
                                                   .b = b.data(),
                                                   .ldb = b.ld(),
                                                   .beta = -1,
                                                   .c = c.data(),
                                                   .ldc = c.ld()});
  const fleet_status status = fleet_dgemm(context, FLEET_NO_TRANS, FLEET_NO_TRANS, m, n, k, 2,
                                          a.data(), a.ld(), b.data(), b.ld(), -1, c.data(), c.ld());
  if (status != FLEET_OK) return fleet_message();
  const std::string guard = c.broken_guard();
  return guard.empty() ? test::first_difference(expected, c.data(), c.ld()) : guard;
}

Json last_call(const HostContext& context) {
  return Json::parse(context.text(fleet_stats_json))["last"];
}

TEST(AFailedAllocation, WhicheverItIsLeavesTheRightC) {
  for (int n = 1; n <= 12; ++n) {
    const HostContext context(host_options(2) + ";tile=16;inject=alloc:" + std::to_string(n));

    ASSERT_EQ(multiply(context, 50, 40, 60), "") << "alloc:" << n;
    ASSERT_EQ(multiply(context, 33, 70, 20), "") << "alloc:" << n;
  }
}

TEST(LittleDeviceMemory, LeadsToSmallerPlansAndAtLastToTheCpu) {
  bool on_devices = false, on_cpu = false;
  for (const char* memory : {"1M", "256K", "64K", "16K", "4K", "1K", "100"}) {
    const HostContext context(host_options(2) + ";device_memory=" + memory);

    ASSERT_EQ(multiply(context, 150, 140, 160), "") << memory;

    const Json last = last_call(context);
    (last["where"] == "devices" ? on_devices : on_cpu) = true;
    EXPECT_EQ(last["status"], "ok") << memory;
  }
  EXPECT_TRUE(on_devices);
  EXPECT_TRUE(on_cpu);
}

TEST(MemoryTakenByOthers, IsNoticedAndDoneWithout) {
  // Plans expect 80 % of the megabyte that is free at the first call; then the test takes it.
  constexpr std::size_t kAll = 1 << 20;
  // Of many small tiles where little is left.
  const std::int64_t size = test::test_scale() < 1 ? 160 : 250;
  unsigned turn = 0;
  for (const std::size_t left : {96 << 10, 4 << 10, 256, 0})
    for (const bool trims : {false, true}) {
      if (!test::has_turn(turn++)) continue;
      const HostContext context(host_options(2, kAll));
      ASSERT_EQ(multiply(context, 150, 150, 150), "");
      void* hog[2] = {};
      for (const int device : {0, 1})
        ASSERT_EQ(fleet_alloc(context, device, kAll - left, &hog[device]), FLEET_OK)
            << fleet_message();
      if (trims) {
        ASSERT_EQ(fleet_trim(context), FLEET_OK);
      }

      EXPECT_EQ(multiply(context, size, size, size), "") << left << " bytes left";

      EXPECT_EQ(last_call(context)["status"], "ok");
      for (void* data : hog) EXPECT_EQ(fleet_free(context, data), FLEET_OK);
      EXPECT_EQ(multiply(context, size, size, size), "");
    }
}

TEST(MemoryTakenByOthers, IsUsedAgainWhenTheyAreGone) {
  const HostContext context(host_options(2, 1 << 20));
  void* hog[2] = {};
  for (const int device : {0, 1})
    ASSERT_EQ(fleet_alloc(context, device, 1 << 20, &hog[device]), FLEET_OK);
  ASSERT_EQ(fleet_trim(context), FLEET_OK);
  ASSERT_EQ(multiply(context, 60, 50, 70), "");
  ASSERT_EQ(last_call(context)["reason"], "no device is left");
  for (void* data : hog) ASSERT_EQ(fleet_free(context, data), FLEET_OK);

  for (int call = 0; call < 40; ++call) ASSERT_EQ(multiply(context, 60, 50, 70), "");

  EXPECT_EQ(last_call(context)["where"], "devices");
}

TEST(ALostDevice, IsNotUsedAgain) {
  for (const int tiles : {0, 1, 5, 20}) {
    const HostContext context(host_options(3) + ";tile=16;inject=lost:1@" + std::to_string(tiles));

    for (std::uint64_t call = 0; call < 6; ++call)
      ASSERT_EQ(multiply(context, 60, 50, 70, call), "") << tiles << " tiles, call " << call;

    const Json last = last_call(context);
    EXPECT_EQ(last["where"], "devices");
    EXPECT_EQ(last["workers"], 2) << last.dump();
    for (const auto& [link, bytes] : last["bytes_by_link"].items())
      EXPECT_EQ(link.find('1'), std::string::npos) << link;
  }
}

TEST(ALostDevice, ThatWasTheOnlyOneLeavesTheCpu) {
  const HostContext context(host_options(1) + ";tile=16;inject=lost:0@3");

  ASSERT_EQ(multiply(context, 60, 50, 70), "");
  ASSERT_EQ(multiply(context, 60, 50, 70), "");

  EXPECT_EQ(last_call(context)["reason"], "no device is left");
}

TEST(ALostDevice, TakesWhatItHoldsAndSaysSo) {
  const HostContext context(host_options(2) + ";tile=16;inject=lost:0@2");
  std::vector<double> a(64 * 64, 1.0);
  void* c = nullptr;
  ASSERT_EQ(fleet_alloc(context, 0, a.size() * sizeof(double), &c), FLEET_OK);
  const auto run = [&] {
    return fleet_dgemm(context, FLEET_NO_TRANS, FLEET_NO_TRANS, 64, 64, 64, 1.0, a.data(), 64,
                       a.data(), 64, 0.0, static_cast<double*>(c), 64);
  };

  EXPECT_EQ(run(), FLEET_DEVICE_FAILED);
  EXPECT_STREQ(fleet_message(), "device 0, which holds C, was lost: C is undefined");
  EXPECT_EQ(run(), FLEET_DEVICE_FAILED);
  EXPECT_EQ(last_call(context)["status"], "device_failed");
  EXPECT_EQ(multiply(context, 60, 50, 70), "") << "other calls continue";
}

TEST(AFailedTask, IsFinishedOnTheCpuAndCounted) {
  const HostContext context(host_options(2) + ";tile=16;inject=launch:7");

  EXPECT_EQ(multiply(context, 60, 50, 70), "");

  EXPECT_EQ(last_call(context)["reason"], "finished on the CPU after a fault");
  EXPECT_EQ(multiply(context, 60, 50, 70), "");
  EXPECT_EQ(last_call(context)["reason"], "offload=always");
}

TEST(AFaultInABatch, LeavesEveryItemRight) {
  for (const char* fault : {"copy:9", "launch:5", "lost:1@4", "alloc:2"}) {
    const HostContext context(host_options(2) + ";inject=" + fault);
    constexpr std::int64_t kEdge = 20, kItems = 12;
    std::vector<double> a(kEdge * kEdge * kItems, 1.0), c(a.size(), 3.0);

    const fleet_status status = fleet_dgemm_strided_batched(
        context, FLEET_NO_TRANS, FLEET_NO_TRANS, kEdge, kEdge, kEdge, 1.0, a.data(), kEdge,
        kEdge * kEdge, a.data(), kEdge, kEdge * kEdge, 2.0, c.data(), kEdge, kEdge * kEdge, kItems);

    EXPECT_EQ(status, FLEET_OK) << fault << ": " << fleet_message();
    EXPECT_EQ(c, std::vector<double>(c.size(), 26.0)) << fault;
  }
}

TEST(AFaultInABatch, ThatTakesTheOnlyDeviceLeavesTheItemsOfFurtherPlansToTheCpu) {
  // 66 items of 512 products exceed one plan. The device is lost in the first of the plans.
  const HostContext context(host_options(1) + ";tile=8;inject=lost:0@5000");
  constexpr std::int64_t kEdge = 64, kItems = 66;
  std::vector<double> a(kEdge * kEdge, 1.0), c(kEdge * kEdge * kItems, 3.0);

  const fleet_status status = fleet_dgemm_strided_batched(
      context, FLEET_NO_TRANS, FLEET_NO_TRANS, kEdge, kEdge, kEdge, 1.0, a.data(), kEdge, 0,
      a.data(), kEdge, 0, 2.0, c.data(), kEdge, kEdge * kEdge, kItems);

  EXPECT_EQ(status, FLEET_OK) << fleet_message();
  EXPECT_EQ(c, std::vector<double>(c.size(), 70.0));
  EXPECT_EQ(last_call(context)["reason"], "no memory on the devices");
}

TEST(RegisteredMemory, IsForgottenWhereTheDevicesDoNotStart) {
  // The fault names a device that does not exist, which the first use of the devices detects.
  const HostContext context(host_options(1) + ";inject=lost:9@1");
  std::vector<double> data(100);

  for (int attempt = 0; attempt < 2; ++attempt)
    EXPECT_EQ(fleet_host_register(context, data.data(), 800), FLEET_BAD_OPTION) << fleet_message();

  EXPECT_EQ(fleet_host_unregister(context, data.data()), FLEET_BAD_ARGUMENT);
}

TEST(CacheFolders, ThatCannotBeUsedAreDoneWithout) {
  const std::string file = test::temporary_file("no_folder");
  std::ofstream(file) << "a file, not a folder";
  // Each time the devices are measured.
  for (const std::string& folder :
       test::few({file, file + "/below", std::string("/proc/nothing")})) {
    const HostContext context("backend=host;devices=1;offload=always;cache_dir=" + folder);
    EXPECT_EQ(multiply(context, 60, 50, 70), "") << folder;
  }
  std::filesystem::remove(file);
}

TEST(LogsAndSummaries, ThatCannotBeWrittenDoNoHarm) {
  const HostContext context(host_options(1) +
                            ";log_level=5;log_file=/nonexistent/log;summary=/nonexistent/summary;"
                            "trace=/nonexistent/trace");

  EXPECT_EQ(multiply(context, 60, 50, 70), "");
}

TEST(Logs, SayWhatFailed) {
  const std::string file = test::temporary_file("log");
  {
    const HostContext context(host_options(2) +
                              ";tile=16;log_level=2;inject=lost:1@3;log_file=" + file);
    EXPECT_EQ(multiply(context, 60, 50, 70), "");
  }
  std::ifstream stream(file);
  const std::string log(std::istreambuf_iterator<char>(stream), {});
  EXPECT_NE(log.find("fleetblas: device 1 was lost and is not used any more\n"), std::string::npos)
      << log;
  EXPECT_NE(log.find("finishing on the CPU"), std::string::npos) << log;
  std::filesystem::remove(file);
}

struct Storm {
  fleet_context* context;
  std::atomic<int> wrong{0};
  std::atomic<std::uint64_t> seed{0};
};

void* one_of_the_storm(void* data) {
  auto& storm = *static_cast<Storm*>(data);
  for (int call = 0; call < 5; ++call) {
    Random random(++storm.seed);
    const auto edge = [&] { return random.between(1, 80); };
    if (!multiply(storm.context, edge(), edge(), edge()).empty()) ++storm.wrong;
  }
  return nullptr;
}

void run_storm(fleet_context* context) {
  constexpr std::size_t kStackBytes = 256 * 1024;
  Storm storm{.context = context};
  for (int wave = 0; wave < static_cast<int>(test::scaled(3)); ++wave) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, kStackBytes);
    std::vector<pthread_t> threads(16);
    for (pthread_t& thread : threads)
      ASSERT_EQ(pthread_create(&thread, &attributes, one_of_the_storm, &storm), 0);
    for (const pthread_t thread : threads) pthread_join(thread, nullptr);
    pthread_attr_destroy(&attributes);
  }
  EXPECT_EQ(storm.wrong, 0);
}

TEST(ThreadStorms, OnSmallStacksGetTheRightC) {
  const HostContext context(host_options(2) + ";tile=24");
  run_storm(context);
  EXPECT_EQ(Json::parse(context.text(fleet_stats_json))["failed"], 0);
}

TEST(ThreadStorms, OnTheDefaultContextGetTheRightC) { run_storm(nullptr); }

}  // namespace
}  // namespace fleet
