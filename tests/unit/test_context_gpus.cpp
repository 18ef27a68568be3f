// SPDX-License-Identifier: BSD-3-Clause
// test_context_gpus.cpp: contexts with GPUs, from the first call on. Each test is a separate
// program (support/programs_on_gpus.hpp); it knows nothing below the C API.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "api/dropin.h"
#include "backend/host/machine.hpp"
#include "fleetblas/fleetblas.h"
#include "support/dropin_calls.hpp"
#include "support/fake_gpus.hpp"
#include "support/host_context.hpp"
#include "support/processes.hpp"
#include "support/programs_on_gpus.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using Json = nlohmann::json;
using test::at_once;
using test::Ended;
using test::FakeGpus;
using test::gives_text;
using test::gpu_options;
using test::gpus;
using test::HostContext;
using test::in_a_program_of_its_own;
using test::kGpus;
using test::multiply;
using test::multiply_by_ones;
using test::nobodys_memory;
using test::OnGpu;
using test::run_program;
using test::set_environment;

/// First calls that a program may make, each for a thread of its own; `context` may be nullptr,
/// which is the default one.
std::vector<std::function<bool()>> first_calls(fleet_context* context, FakeGpus& gpus) {
  constexpr std::int64_t kEdge = 48;
  const auto calls_on_devices = [=] {
    return multiply(context, kEdge) && multiply(context, kEdge);
  };
  const auto asks = [=] {
    for (int round = 0; round < 50; ++round)
      if (!gives_text(context, fleet_config_json) || !gives_text(context, fleet_stats_json))
        return false;
    return true;
  };
  const auto plans = [=] { return gives_text(context, fleet_plan_json, "dgemm size=64"); };
  const auto allocates = [=] {
    for (const int location : {FLEET_HOST, 0, 1}) {
      void* data = nullptr;
      if (fleet_alloc(context, location, 4096, &data) != FLEET_OK) return false;
      if (fleet_free(context, data) != FLEET_OK) return false;
    }
    return true;
  };
  const auto registers = [=] {
    std::vector<char> memory(1 << 16);
    return fleet_host_register(context, memory.data(), 1 << 16) == FLEET_OK &&
           fleet_host_unregister(context, memory.data()) == FLEET_OK;
  };
  const auto uses_memory_of_its_own = [=, &gpus] {
    const OnGpu a(gpus, 1, kEdge * kEdge);
    std::vector<double> c, copy(kEdge * kEdge);
    return fleet_copy(context, copy.data(), a.data(), kEdge * kEdge * 8) == FLEET_OK &&
           copy == std::vector<double>(copy.size(), 1.0) &&
           multiply_by_ones(context, kEdge, a.data(), c) == FLEET_OK &&
           c == std::vector<double>(c.size(), kEdge + 2.0);
  };
  return {calls_on_devices,       calls_on_devices,      asks, asks, plans, allocates, registers,
          uses_memory_of_its_own, uses_memory_of_its_own};
}

/// Creates and destroys contexts, and with them their statistics.
bool come_and_go(const std::string& options) {
  for (int round = 0; round < 4; ++round) {
    fleet_context* context = nullptr;
    if (fleet_context_create(options.c_str(), &context) != FLEET_OK) return false;
    const bool right = round % 2 == 0 || multiply(context, 40);
    if (fleet_context_destroy(context) != FLEET_OK || !right) return false;
  }
  return true;
}

void race_on_one_context(FakeGpus& fake, const std::string& backend) {
  fake.opened = 0;
  fake.open_ms = 2;
  const std::string others = gpu_options(backend) + ";summary=" + test::temporary_file("others");
  const HostContext context(gpu_options(backend) + ";summary=" + test::temporary_file("one"));
  auto jobs = first_calls(context, fake);
  for (int thread = 0; thread < 2; ++thread) jobs.push_back([&] { return come_and_go(others); });

  EXPECT_EQ(at_once(jobs), "");

  EXPECT_EQ(fake.opened, 1 + 2 * 2);  // every second one of the others computes
  const Json config = Json::parse(context.text(fleet_config_json));
  EXPECT_EQ(config["runs_on"], "devices");
  EXPECT_EQ(config["devices"], Json({0, 1}));
}

TEST(TheFirstCallOnGpus, MayComeFromManyThreadsAtOnce) {
  in_a_program_of_its_own([](FakeGpus& fake) {
    for (const std::string backend : {"auto", "cuda"})
      for (int round = 0; round < static_cast<int>(test::scaled(20)); ++round)
        race_on_one_context(fake, backend);
  });
}

TEST(TheFirstCallOnGpus, MayComeFromManyThreadsToTheDefaultContext) {
  for (const std::string backend : {"auto", "cuda"})
    for (int round = 0; round < static_cast<int>(test::scaled(10)); ++round)
      in_a_program_of_its_own(
          [&](FakeGpus& fake) {
            set_environment(backend);
            setenv("FLEETBLAS_SUMMARY", "1", 1);
            fake.open_ms = 2;
            const std::string others = gpu_options(backend);
            auto jobs = first_calls(nullptr, fake);
            jobs.push_back([&] { return come_and_go(others); });

            EXPECT_EQ(at_once(jobs), "");
          },
          "(offload=always)");
}

TEST(GpusThatDoNotStart, LeaveTheCpuToAllWhoComeAtOnce) {
  in_a_program_of_its_own([](FakeGpus& fake) {
    fake.refuses_to_open = true;
    fake.open_ms = 2;
    for (const std::string backend : {"auto", "cuda"}) {
      const HostContext context(gpu_options(backend));
      const std::vector<std::function<bool()>> jobs(8, [&] {
        return multiply(context, 48) && gives_text(context, fleet_config_json) &&
               multiply(context, 48);
      });

      EXPECT_EQ(at_once(jobs), "") << backend;

      EXPECT_EQ(Json::parse(context.text(fleet_config_json))["runs_on"], "cpu");
    }
  });
}

TEST(GpusThatDoNotStart, LeaveAReasonToWhoAsksForThem) {
  in_a_program_of_its_own([](FakeGpus& fake) {
    fake.refuses_to_open = true;
    const HostContext context(gpu_options("cuda"));
    char* text = nullptr;
    for (int again = 0; again < 2; ++again) {
      EXPECT_EQ(fleet_machine_json(context, &text), FLEET_DEVICE_FAILED);
      EXPECT_STREQ(fleet_message(), "fake GPUs do not start");
    }
    EXPECT_EQ(fake.opened, 1);
    void* data = nullptr;
    EXPECT_EQ(fleet_alloc(context, 0, 64, &data), FLEET_UNSUPPORTED);
    EXPECT_STREQ(fleet_message(),
                 "no backend runs here (fake GPUs do not start): there is no memory on a device");
    const HostContext unnamed("backend=cuda;device_library=" FLEETBLAS_FAKE_GPUS);
    for (int again = 0; again < 2; ++again) {
      EXPECT_EQ(fleet_alloc(unnamed, 0, 64, &data), FLEET_DEVICE_FAILED);
      EXPECT_STREQ(fleet_message(), "fake GPUs do not start");
    }
  });
}

TEST(GpusThatDoNotStart, AreLeftOutUnlessTheyAreNamed) {
  in_a_program_of_its_own(
      [](FakeGpus& fake) {
        fake.full = 0;
        for (const std::string backend : {"auto", "cuda"}) {
          const HostContext context(gpu_options(backend) + ";log_level=2");

          EXPECT_TRUE(multiply(context, 48)) << fleet_message();

          EXPECT_EQ(Json::parse(context.text(fleet_config_json))["devices"], Json({1}));
          EXPECT_EQ(Json::parse(context.text(fleet_stats_json))["last"]["where"], "devices");
          void* data = nullptr;
          EXPECT_EQ(fleet_alloc(context, 0, 64, &data), FLEET_BAD_ARGUMENT);
          EXPECT_STREQ(fleet_message(),
                       "there is no device 0 (this context has 1): of the GPUs 0, 1 only 1 can be "
                       "used now: a fake GPU is full");
        }
        const HostContext first(gpu_options("cuda"));
        void* none = nullptr;
        EXPECT_EQ(fleet_alloc(first, 0, 64, &none), FLEET_BAD_ARGUMENT) << "the first call";
        EXPECT_EQ(fleet_alloc(first, 1, 64, &none), FLEET_OK) << fleet_message();
        EXPECT_EQ(fleet_free(first, none), FLEET_OK);
        const HostContext named(gpu_options("cuda") + ";devices=0,1");
        EXPECT_TRUE(multiply(named, 48)) << fleet_message();
        EXPECT_EQ(Json::parse(named.text(fleet_config_json))["runs_on"], "cpu");
      },
      "fleetblas: of the GPUs 0, 1 only 1 can be used now: a fake GPU is full");
}

TEST(GpusThatAreNotThere, AreNoErrorForAutoAndAReasonForCuda) {
  in_a_program_of_its_own([](FakeGpus& fake) {
    fake.count = 0;
    const HostContext automatic(gpu_options("auto")), cuda(gpu_options("cuda"));

    EXPECT_TRUE(multiply(automatic, 48)) << fleet_message();
    EXPECT_TRUE(multiply(cuda, 48)) << fleet_message();

    char* text = nullptr;
    EXPECT_EQ(fleet_machine_json(cuda, &text), FLEET_UNSUPPORTED);
    EXPECT_STREQ(fleet_message(), "no usable GPU: there are no fake GPUs");
  });
}

TEST(GpusThatAreNotThere, AreAnErrorForWhoNamesThem) {
  in_a_program_of_its_own([](FakeGpus&) {
    const std::string options = "backend=cuda;offload=always;devices=0,5;device_library=";
    const HostContext context(options + FLEETBLAS_FAKE_GPUS);

    EXPECT_FALSE(multiply(context, 48));

    EXPECT_STREQ(fleet_message(), "devices: there are 2 GPUs, not a device 5");
  });
}

TEST(GpusThatAreNotThere, AreLeftOutOfACount) {
  in_a_program_of_its_own([](FakeGpus&) {
    const HostContext context(gpu_options("cuda") + ";devices=5");

    EXPECT_TRUE(multiply(context, 48)) << fleet_message();

    EXPECT_EQ(Json::parse(context.text(fleet_config_json))["devices"], Json({0, 1}));
  });
}

TEST(AFaultOfAGpu, IsMadeGoodForAllCallers) {
  in_a_program_of_its_own([](FakeGpus&) {
    for (const std::string fault : {"launch:9", "copy:5", "alloc:2", "lost:1@4"}) {
      const HostContext context(gpu_options("cuda") + ";inject=" + fault);
      const std::vector<std::function<bool()>> jobs(
          4, [&] { return multiply(context, 100) && multiply(context, 90); });

      EXPECT_EQ(at_once(jobs), "") << fault;

      EXPECT_EQ(Json::parse(context.text(fleet_stats_json))["last"]["where"], "devices") << fault;
    }
  });
}

TEST(MemoryOfTheProgramOnAGpu, IsUsedWhereItLies) {
  in_a_program_of_its_own([](FakeGpus& fake) {
    const OnGpu a(fake, 1, 48 * 48);
    const HostContext context(gpu_options("cuda"));
    std::vector<double> c;

    EXPECT_EQ(multiply_by_ones(context, 48, a.data(), c), FLEET_OK) << fleet_message();

    EXPECT_EQ(c, std::vector<double>(c.size(), 50.0));
    EXPECT_EQ(Json::parse(context.text(fleet_stats_json))["last"]["place"], "1,p,p");
  });
}

TEST(MemoryOfTheProgramOnAGpu, MustHoldTheWholeOperand) {
  in_a_program_of_its_own([](FakeGpus& fake) {
    const OnGpu a(fake, 1, 48 * 48 - 1);  // one element too few
    const HostContext context(gpu_options("cuda"));
    std::vector<double> c;

    EXPECT_EQ(multiply_by_ones(context, 48, a.data(), c), FLEET_BAD_ARGUMENT);

    EXPECT_STREQ(fleet_message(), "a matrix reaches beyond its memory on a device");
    EXPECT_EQ(c, std::vector<double>(c.size(), 1.0));
  });
}

TEST(MemoryOfTheProgramOnAGpu, IsRefusedWhereNoGpuAnswersAndTheCpuCannotReadIt) {
  in_a_program_of_its_own([](FakeGpus& fake) {
    constexpr std::int64_t kEdge = 48;
    const HostContext context(gpu_options("cuda"));
    EXPECT_TRUE(multiply(context, kEdge));
    const double* const nobodys = nobodys_memory(kEdge * kEdge);
    fake.answers = false;
    std::vector<double> c;

    EXPECT_EQ(multiply_by_ones(context, kEdge, nobodys, c), FLEET_UNSUPPORTED);

    EXPECT_STREQ(fleet_message(),
                 "the CPU cannot reach an operand, and no GPU of the program answers");
    EXPECT_EQ(c, std::vector<double>(c.size(), 1.0));
    EXPECT_TRUE(multiply(context, kEdge)) << "memory of the host";
  });
}

TEST(MemoryOfTheProgramOnAGpu, MustBeOfAGpuThatTheContextUses) {
  in_a_program_of_its_own([](FakeGpus& fake) {
    fake.count = 3;
    const OnGpu a(fake, 2, 48 * 48);
    const HostContext context(gpu_options("cuda") + ";devices=0,1");
    std::vector<double> c;

    EXPECT_EQ(multiply_by_ones(context, 48, a.data(), c), FLEET_BAD_ARGUMENT);

    EXPECT_EQ(c, std::vector<double>(c.size(), 1.0));
  });
}

TEST(MemoryOfTheProgramOnAGpu, IsNotLeftToABlasThatCannotReadIt) {
  for (const bool answers : {true, false})
    in_a_program_of_its_own(
        [&](FakeGpus& fake) {
          set_environment("cuda");
          setenv("FLEETBLAS_LOG_LEVEL", "1", 1);
          const OnGpu too_short(fake, 1, 48 * 48 - 1);
          fake.answers = answers;
          test::Offer offer(48);
          fleet_dropin_call call = offer.call();
          call.a = answers ? too_short.data() : nobodys_memory(48 * 48);

          EXPECT_EQ(fleet_dropin()->offer(&call), 1);

          EXPECT_TRUE(offer.untouched());
        },
        answers ? "a matrix reaches beyond its memory on a device"
                : "the CPU cannot reach an operand, and no GPU of the program answers");
}

// A kernel that cannot reach pageable memory would end the process, so a file is not believed
// there.
TEST(SharedMemory, OfGpusIsPinnedMemoryUnlessTheBackendReachesMore) {
  in_a_program_of_its_own([](FakeGpus&) {
    Machine machine = host_machine(kGpus, 2, std::int64_t{1} << 30);
    for (Device& device : std::span(machine.devices).subspan(kFirstDevice)) {
      device.shares_host = true;
      device.in_place_share = 1;
    }
    const std::string file = test::temporary_file("shared.json");
    std::ofstream(file) << to_json(machine);
    const HostContext context(
        "backend=cuda;offload=always;online=off;cpu_share=off;device_library=" FLEETBLAS_FAKE_GPUS
        ";machine=" +
        file);
    const auto in_place = [&](const char* problem) {
      return Json::parse(context.text(fleet_plan_json, problem)).at("in_place");
    };
    EXPECT_EQ(in_place("dgemm m=4000 n=16 k=48 a@h b@h c@h"), Json({"a", "b", "c"}));
    EXPECT_EQ(in_place("dgemm m=4000 n=16 k=48 a@p b@p c@p"), Json::array());
    EXPECT_TRUE(multiply(context, 96));
  });
}

/// A product of ones that is queued after what is in a stream, which goes on after the product.
struct BetweenStreams {
  explicit BetweenStreams(fleet_context* context) {
    std::ranges::fill(a, 1.0);
    is_queued =
        fleet_matrix_wrap(context, FLEET_F64, kEdge, kEdge, a.data(), kEdge, &of_a) == FLEET_OK &&
        fleet_matrix_wrap(context, FLEET_F64, kEdge, kEdge, c.data(), kEdge, &of_c) == FLEET_OK &&
        fleet_event_record(context, 1, nullptr, &before) == FLEET_OK &&
        fleet_matrix_after(of_a, before) == FLEET_OK &&
        fleet_dgemm_async(context, FLEET_NO_TRANS, FLEET_NO_TRANS, 1.0, of_a, of_a, 0.0, of_c,
                          nullptr) == FLEET_OK &&
        fleet_matrix_read_async(of_c, 0, 0, kEdge, kEdge, &product) == FLEET_OK &&
        fleet_stream_after(context, 0, nullptr, product) == FLEET_OK;
  }
  ~BetweenStreams() {
    for (fleet_matrix* matrix : {of_a, of_c}) fleet_matrix_destroy(matrix);
    for (fleet_event* event : {before, product}) fleet_event_destroy(event);
  }
  BetweenStreams(const BetweenStreams&) = delete;
  BetweenStreams& operator=(const BetweenStreams&) = delete;
  static constexpr std::int64_t kEdge = 64;
  std::array<double, kEdge * kEdge> a{}, c{};
  fleet_matrix *of_a = nullptr, *of_c = nullptr;
  fleet_event *before = nullptr, *product = nullptr;
  bool is_queued = false;
};

/// The thread that finishes an event lets go of streams a moment after it has woken others.
bool all_go_on(const FakeGpus& fake) {
  for (int ms = 0; fake.held > 0 && ms < 10'000; ++ms)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return fake.held == 0;
}

TEST(StreamsOfTheProgram, AreHeldUntilTheCallIsDoneThatWaitsForThem) {
  const Ended ended = run_program([] {
    FakeGpus& fake = gpus();
    const HostContext context(gpu_options("cuda"));
    const BetweenStreams calls(context);
    if (!calls.is_queued || fake.recorded.size() != 1) return 1;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    int done = -1;
    if (fleet_event_query(calls.product, &done) != FLEET_OK || done != 0 || fake.held != 1)
      return 2;
    fake.recorded.front()(nullptr);
    if (fleet_event_wait(calls.product) != FLEET_OK || calls.c.back() != calls.kEdge) return 3;
    if (fleet_stream_after(context, 0, nullptr, calls.product) != FLEET_OK) return 4;
    return all_go_on(fake) ? 0 : 5;
  });
  EXPECT_EQ(ended.code, 0) << ended.output;
}

TEST(StreamsOfTheProgram, AreHeldOnceTheFirstCallOfAKindIsDone) {
  in_a_program_of_its_own([](FakeGpus& fake) {
    fake.loads_kernels = true;
    const HostContext context(gpu_options("cuda") + ";inject=delay:host->0+0.08");
    constexpr std::int64_t kEdge = 64;
    std::vector<double> a(kEdge * kEdge, 1.0), c = a;
    fleet_matrix *of_a = nullptr, *of_c = nullptr;
    fleet_matrix_wrap(context, FLEET_F64, kEdge, kEdge, a.data(), kEdge, &of_a);
    fleet_matrix_wrap(context, FLEET_F64, kEdge, kEdge, c.data(), kEdge, &of_c);
    fleet_event *go = nullptr, *event = nullptr;
    fleet_event_create(&go);
    const auto is_done_when_held = [&](fleet_op op) {
      int done = -1;
      EXPECT_EQ(fleet_dgemm_async(context, op, FLEET_NO_TRANS, 1.0, of_a, of_a, 0.0, of_c, &event),
                FLEET_OK);
      EXPECT_EQ(fleet_stream_after(context, 0, nullptr, event), FLEET_OK);
      EXPECT_EQ(fleet_event_query(event, &done), FLEET_OK);
      return done == 1;
    };
    const auto wait = [&] {
      EXPECT_EQ(fleet_event_wait(event), FLEET_OK) << fleet_message();
      fleet_event_destroy(event);
    };

    EXPECT_TRUE(is_done_when_held(FLEET_NO_TRANS)) << "it may have kernels to load";
    wait();
    fleet_matrix_wrote(of_a, 0, 0, kEdge, kEdge);  // it is brought again
    EXPECT_FALSE(is_done_when_held(FLEET_NO_TRANS)) << "it has none";
    wait();
    fleet_matrix_after(of_a, go);
    EXPECT_FALSE(is_done_when_held(FLEET_TRANS)) << "it waits for this thread";
    fleet_event_set(go, FLEET_OK);
    wait();

    EXPECT_TRUE(all_go_on(fake));
    for (fleet_matrix* matrix : {of_a, of_c}) fleet_matrix_destroy(matrix);
    fleet_event_destroy(go);
  });
}

TEST(StreamsOfTheProgram, MayWaitForACallWhileMemoryIsUnpinned) {
  in_a_program_of_its_own([](FakeGpus& fake) {
    const HostContext context(gpu_options("cuda"));
    std::vector<double> data(48 * 48);
    EXPECT_TRUE(multiply(context, 48));
    EXPECT_EQ(fleet_host_register(context, data.data(), data.size() * sizeof(double)), FLEET_OK);
    std::atomic<bool> is_unpinning{false}, is_multiplied{false};
    fake.unpins = [&]() -> bool {  // when streams are let go, which a call does
      is_unpinning = true;
      return is_multiplied;
    };
    std::thread gives_back(
        [&] { EXPECT_EQ(fleet_host_unregister(context, data.data()), FLEET_OK); });
    while (!is_unpinning) std::this_thread::yield();

    EXPECT_TRUE(multiply(context, 48));

    is_multiplied = true;
    gives_back.join();
  });
}

TEST(StreamsOfTheProgram, GoOnAfterACallThatFails) {
  const Ended ended = run_program([] {
    FakeGpus& fake = gpus();
    const HostContext context(gpu_options("cuda"));
    const BetweenStreams calls(context);
    if (!calls.is_queued || fake.held != 1) return 1;
    fake.recorded.front()("the kernel before it failed");
    if (fleet_event_wait(calls.product) != FLEET_DEVICE_FAILED) return 2;
    const std::string why = fleet_message();
    return why.find("the kernel before it failed") != why.npos && all_go_on(fake) ? 0 : 3;
  });
  EXPECT_EQ(ended.code, 0) << ended.output;
}

}  // namespace
}  // namespace fleet
