// SPDX-License-Identifier: BSD-3-Clause
// test_host_faults.cpp: virtual devices when memory runs out, a task fails or a device is lost, and
// the disturbances of FLEETBLAS_INJECT. It recovers nothing.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "backend/host/memory.hpp"
#include "base/error.hpp"
#include "run/faults.hpp"
#include "support/hand_gemm.hpp"
#include "support/host_trial.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using namespace std::chrono_literals;
using test::HandGemm;
using test::HostTrial;
using test::shared_cpu_blas;
using test::virtual_devices;

constexpr DeviceId kD0 = kFirstDevice, kD1 = kFirstDevice + 1;

std::unique_ptr<Backend> backend_of(const Machine& machine, const Options& options) {
  return make_host_backend(machine, shared_cpu_blas(), options);
}

Status status_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.status();
  }
  return Status::ok;
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

const Problem kSquare = make_problem({.m = 24, .n = 24, .k = 12}, {.beta_is_zero = true});

/// Two column blocks of C, one per device; device d has tasks 4d (A), 4d+1 (B), 4d+2, 4d+3 (C).
Plan two_blocks(const Machine& machine, bool second_waits = false) {
  HandGemm plan(machine, kSquare, {24, 12, 12});
  for (int d = 0; d < 2; ++d) {
    const DeviceId device = kFirstDevice + d;
    const TileId a{kA, 0, 0}, b{kB, 0, d}, c{kC, 0, d};
    const Where a_at = plan.slot(device, a), b_at = plan.slot(device, b),
                c_at = plan.slot(device, c);
    std::vector<TaskId> first;
    if (d == 1 && second_waits) first = {3};
    const TaskId a_here = plan.copy({.tile = a, .to = a_at, .after = first});
    const TaskId b_here = plan.copy({.tile = b, .to = b_at});
    const TaskId product = plan.multiply({.a_at = a_at,
                                          .b_at = b_at,
                                          .c = c,
                                          .to = c_at,
                                          .accumulate = Accumulate::overwrite,
                                          .after = {a_here, b_here}});
    plan.copy({.tile = c, .from = c_at, .after = {product}});
  }
  return plan.get();
}

/// Expects that all dependencies of every completed task are completed.
void expect_no_task_ran_before_its_inputs(const Plan& plan, const Trace& trace) {
  for (std::size_t t = 0; t < plan.tasks.size(); ++t)
    for (TaskId earlier : plan.after(plan.tasks[t]))
      EXPECT_TRUE(!trace.spans[t].done() || trace.spans[static_cast<std::size_t>(earlier)].done())
          << t << " without " << earlier;
}

TEST(InjectedAllocFailure, LeavesEverythingUntouchedAndTheNextTryWorks) {
  const Machine machine = virtual_devices(2);
  const Plan plan = two_blocks(machine);
  for (std::int64_t nth : {1, 2}) {
    Options options;
    options.inject.alloc = nth;
    const auto backend = backend_of(machine, options);
    HostTrial<double> trial(kSquare, 1);

    EXPECT_EQ(status_of([&] { trial.run(plan, *backend); }), Status::no_memory);
    EXPECT_TRUE(std::isnan(trial.operand(kC).at(3, 3)));
    HostTrial<double> again(kSquare, 1);
    EXPECT_EQ(again.run(plan, *backend).status, Status::ok);
    EXPECT_EQ(again.verdict(), "");
  }
}

TEST(InjectedAllocFailure, CountsWhatCallersAllocateToo) {
  Options options;
  options.inject.alloc = 2;
  const auto backend = backend_of(virtual_devices(1), options);

  void* first = backend->allocate(kHost, 100);

  EXPECT_EQ(status_of([&] { backend->allocate(kD0, 100); }), Status::no_memory);
  backend->release(kHost, first);
}

TEST(InjectedTaskFailure, NamesTheTaskAndRunsNothingThatWaitsForIt) {
  const Machine machine = virtual_devices(2);
  const Plan plan = two_blocks(machine);
  for (bool random_order : {false, true})
    for (std::int64_t nth = 1; nth <= 6; ++nth) {  // copies in plan order: 0 1 3 4 5 7
      Options options;
      options.inject.copy = nth;
      if (random_order) options.inject.order = static_cast<std::uint64_t>(nth);
      const auto backend = backend_of(machine, options);
      HostTrial<double> trial(kSquare, 2);

      const Trace trace = trial.run(plan, *backend);

      const std::array<TaskId, 6> copies = {0, 1, 3, 4, 5, 7};
      EXPECT_EQ(trace.status, Status::device_failed);
      EXPECT_EQ(trace.failed, copies[static_cast<std::size_t>(nth - 1)]);
      EXPECT_EQ(trace.lost, -1);
      EXPECT_EQ(trace.message, "task " + std::to_string(trace.failed) + ": a copy failed");
      EXPECT_LT(trace.spans[static_cast<std::size_t>(trace.failed)].start_s, 0);  // untouched
      expect_no_task_ran_before_its_inputs(plan, trace);
      HostTrial<double> again(kSquare, 2);
      EXPECT_EQ(again.run(plan, *backend).status, Status::ok);  // it fails once
      EXPECT_EQ(again.verdict(), "");
    }
}

TEST(InjectedTaskFailure, HitsTheNthKernel) {
  const Machine machine = virtual_devices(2);
  const Plan plan = two_blocks(machine, true);
  Options options;
  options.inject.launch = 2;
  const auto backend = backend_of(machine, options);
  HostTrial<double> trial(kSquare, 3);

  const Trace trace = trial.run(plan, *backend);

  EXPECT_EQ(trace.failed, 6);
  EXPECT_EQ(trace.message, "task 6: a kernel failed");
  EXPECT_TRUE(trace.spans[3].done());  // the first block was home before the second began
  EXPECT_FALSE(trace.spans[7].done());
  EXPECT_TRUE(std::isnan(trial.operand(kC).at(0, 20)));
}

TEST(InjectedTaskFailure, EndsTheRunPromptlyAndForGood) {
  const Machine machine = virtual_devices(2);
  const Plan plan = two_blocks(machine);
  Options options;
  options.inject.copy = 4;  // device 1's copy of A
  options.inject.delay = {{.link = "host->0", .seconds = 30}};
  const auto backend = backend_of(machine, options);
  HostTrial<double> trial(kSquare, 4);
  Trace trace;

  const double seconds = seconds_of([&] { trial.run(plan, *backend).spans.swap(trace.spans); });
  std::this_thread::sleep_for(20ms);

  EXPECT_LT(seconds, 5);
  EXPECT_FALSE(trace.spans[2].done());
  EXPECT_TRUE(std::isnan(trial.operand(kC).at(0, 0)));
}

TEST(LostDevice, FailsItsTasksFromThenOnAndForgetsItsMemory) {
  const Machine machine = virtual_devices(2);
  const Plan plan = two_blocks(machine, true);
  Options options;
  options.inject.lost = Inject::Lost{.device = 1, .tiles = 1};
  const auto backend = backend_of(machine, options);
  auto* kept = static_cast<double*>(backend->allocate(kD1, 80));
  std::fill_n(kept, 10, 1.0);
  HostTrial<double> trial(kSquare, 5);

  const Trace trace = trial.run(plan, *backend);

  EXPECT_EQ(trace.status, Status::device_failed);
  EXPECT_EQ(trace.lost, kD1);
  EXPECT_EQ(trace.failed, 7);  // the copy home of the tile that it had just computed
  EXPECT_TRUE(trace.spans[6].done());
  EXPECT_TRUE(std::isnan(kept[0]) && std::isnan(kept[9]));
  EXPECT_TRUE(std::isnan(trial.operand(kC).at(0, 20)));
  EXPECT_EQ(status_of([&] { backend->allocate(kD1, 8); }), Status::device_failed);
  EXPECT_EQ(status_of([&] { backend->transfer(kHost, {}, kD1, {}, 8); }), Status::device_failed);
  EXPECT_EQ(backend->available_bytes(kD1), 0);
  HostTrial<double> again(kSquare, 5);
  EXPECT_EQ(status_of([&] { again.run(plan, *backend); }), Status::device_failed);
  backend->release(kD1, kept);
}

TEST(LostDevice, LeavesTheOthersAtWork) {
  const Machine machine = virtual_devices(2);
  Options options;
  options.inject.lost = Inject::Lost{.device = 0, .tiles = 0};
  const auto backend = backend_of(machine, options);
  HostTrial<double> lost_at_once(kSquare, 6);
  EXPECT_EQ(lost_at_once.run(two_blocks(machine), *backend).lost, kD0);
  HandGemm plan(machine, kSquare, {24, 24, 12});
  const TileId a{kA, 0, 0}, b{kB, 0, 0}, c{kC, 0, 0};
  const Where a_at = plan.slot(kD1, a), b_at = plan.slot(kD1, b), c_at = plan.slot(kD1, c);
  const TaskId a_here = plan.copy({.tile = a, .to = a_at});
  const TaskId b_here = plan.copy({.tile = b, .to = b_at});
  const TaskId product = plan.multiply({.a_at = a_at,
                                        .b_at = b_at,
                                        .c = c,
                                        .to = c_at,
                                        .accumulate = Accumulate::overwrite,
                                        .after = {a_here, b_here}});
  plan.copy({.tile = c, .from = c_at, .after = {product}});
  HostTrial<double> trial(kSquare, 6);

  const Trace trace = trial.run(plan.get(), *backend);

  EXPECT_EQ(trace.status, Status::ok);
  EXPECT_EQ(trial.verdict(), "");
}

TEST(Disturbances, DelayAndSlowDownOneLinkOnly) {
  const Machine machine = virtual_devices(2);
  const Plan plan = two_blocks(machine);
  Options options;
  options.inject.delay = {{.link = "host->1", .seconds = 0.05}};
  const auto backend = backend_of(machine, options);
  HostTrial<double> trial(kSquare, 7);

  const Trace trace = trial.run(plan, *backend);

  const auto length_s = [&](std::size_t t) {
    return trace.spans[t].stop_s - trace.spans[t].start_s;
  };
  EXPECT_EQ(trial.verdict(), "");
  EXPECT_GE(length_s(4), 0.05);
  EXPECT_GE(length_s(5), 0.05);
  EXPECT_LT(length_s(0), 0.05);
}

TEST(Disturbances, MakeACopyTakeAMultipleOfItsTime) {
  const Machine machine = virtual_devices(1, 1 << 28);
  const Problem problem = make_problem({.m = 1024, .n = 1, .k = 1024}, {.beta_is_zero = true});
  HandGemm plan(machine, problem, {1024, 1, 1024});
  const TileId a{kA, 0, 0};
  plan.copy({.tile = a, .to = plan.slot(kD0, a)});
  std::vector<double> data(1024 * 1024, 1.0);
  Arguments arguments{.data = {data.data(), nullptr, nullptr}, .ld = {1024, 1024, 1024}};
  Options options;
  options.inject.slow = {{.link = "host->0", .factor = 20}};
  const auto plain = backend_of(machine, {}), slow = backend_of(machine, options);
  execute(plan.get(), arguments, *plain);  // touches the memory
  execute(plan.get(), arguments, *slow);

  double fastest_s = 1, slowest_s = 1;
  // Even a busy machine disturbs only some of these rounds.
  for (int round = 0; round < 200 && (round < 12 || slowest_s <= 5 * fastest_s); ++round) {
    fastest_s = std::min(fastest_s, execute(plan.get(), arguments, *plain).seconds);
    slowest_s = std::min(slowest_s, execute(plan.get(), arguments, *slow).seconds);
  }

  EXPECT_GT(slowest_s, 5 * fastest_s);
}

TEST(Disturbances, TakePeerLinksOutOfTheMachine) {
  const Machine machine = virtual_devices(3);
  Options pair, all;
  pair.inject.nopeer = {{.a = 0, .b = 2}};
  all.inject.nopeer = {{}};
  const Machine without_pair = backend_of(machine, pair)->machine();
  const Machine without_any = backend_of(machine, all)->machine();

  EXPECT_EQ(without_pair.links.size(), machine.links.size() - 2);
  EXPECT_EQ(without_pair.find_link(kD0, kD0 + 2), -1);
  EXPECT_EQ(without_pair.find_link(kD0 + 2, kD0), -1);
  EXPECT_GE(without_pair.find_link(kD0, kD1), 0);
  EXPECT_EQ(without_any.links.size(), machine.links.size() - 6);
}

TEST(Disturbances, MeanDevicesByTheirNames) {
  const Machine machine = sub_machine(virtual_devices(4), {1, 3});
  Options options;
  options.inject.lost = Inject::Lost{.device = 3, .tiles = 0};
  options.inject.nopeer = {{.a = 3, .b = 1}};
  const auto backend = backend_of(machine, options);
  HostTrial<double> trial(kSquare, 13);

  EXPECT_EQ(backend->machine().links.size(), machine.links.size() - 2);
  EXPECT_EQ(trial.run(two_blocks(machine), *backend).lost, kD1);
}

TEST(Disturbances, RefuseNamesThatAreNotThere) {
  const Machine machine = virtual_devices(2);
  Options link, device;
  link.inject.slow = {{.link = "host->7", .factor = 2}};
  device.inject.lost = Inject::Lost{.device = 2, .tiles = 1};

  EXPECT_EQ(status_of([&] { backend_of(machine, link); }), Status::bad_option);
  EXPECT_EQ(status_of([&] { backend_of(machine, device); }), Status::bad_option);
}

TEST(HostMemory, KeepsToTheLimitOfEachDevice) {
  Options options;
  options.device_memory = 10000;
  const auto backend = backend_of(virtual_devices(2), options);

  void* data = backend->allocate(kD0, 6000);

  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % 256, 0u);
  EXPECT_EQ(backend->available_bytes(kD0), 4000);
  EXPECT_EQ(backend->available_bytes(kD1), 10000);
  EXPECT_EQ(status_of([&] { backend->allocate(kD0, 4001); }), Status::no_memory);
  backend->release(kD0, data);
  EXPECT_EQ(backend->available_bytes(kD0), 10000);
  EXPECT_EQ(backend->allocate(kD0, 0), nullptr);
}

TEST(HostMemory, RefusesAPlanThatDoesNotFitAndTouchesNothing) {
  const Machine machine = virtual_devices(2);
  Options options;
  options.device_memory = 4096;  // the plan's tiles need 2304 + 1152 + 2304, rounded up to 256
  const auto backend = backend_of(machine, options);
  HostTrial<double> trial(kSquare, 8);

  EXPECT_EQ(status_of([&] { trial.run(two_blocks(machine), *backend); }), Status::no_memory);
  EXPECT_TRUE(std::isnan(trial.operand(kC).at(0, 0)));
}

TEST(HostMemory, GivesPooledArenasUpForCallersAndOnTrim) {
  host::Memory memory({.limit_bytes = {0, 0, 1000}});
  memory.reserve({0, 0, 800});
  EXPECT_EQ(status_of([&] { memory.allocate(kD0, 500); }),
            Status::no_memory);  // a run holds the memory
  memory.trim();
  EXPECT_NE(memory.arena(kD0), nullptr);
  memory.let_go(kD0);

  void* data = memory.allocate(kD0, 500);

  EXPECT_NE(data, nullptr);
  EXPECT_EQ(memory.arena(kD0), nullptr);
  EXPECT_EQ(status_of([&] { memory.reserve({0, 0, 800}); }), Status::no_memory);
  memory.release(kD0, data);
  memory.reserve({0, 0, 800});
  memory.let_go(kD0);
  memory.trim();
  EXPECT_EQ(memory.arena(kD0), nullptr);
}

TEST(HostMemory, IsNaNBeforeItIsWrittenWhenPoisoned) {
  Options options;
  options.inject.poison = true;
  const auto backend = backend_of(virtual_devices(1), options);

  auto* data = static_cast<float*>(backend->allocate(kD0, 40));

  for (int i = 0; i < 10; ++i) EXPECT_TRUE(std::isnan(data[i]));
  backend->release(kD0, data);
}

int status_of_child(const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(body() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

TEST(ForkedChild, HasNoVirtualDevicesAndSaysSo) {
  const Machine machine = virtual_devices(2);
  const Plan plan = two_blocks(machine);
  auto backend = backend_of(machine, {});
  HostTrial<double> trial(kSquare, 9);
  ASSERT_EQ(trial.run(plan, *backend).status, Status::ok);

  const int status = status_of_child([&] {
    HostTrial<double> in_child(kSquare, 9);
    const bool refused = status_of([&] { in_child.run(plan, *backend); }) == Status::device_failed;
    backend.reset();  // must not wait for threads that do not exist in this process
    return refused;
  });

  EXPECT_EQ(status, 0);
  HostTrial<double> after(kSquare, 9);
  EXPECT_EQ(after.run(plan, *backend).status, Status::ok);
}

// The process ends while another thread runs plan after plan.
void exit_during_a_run() {
  alarm(20);
  std::atomic<bool> started{false};
  std::thread([&] {
    const Machine machine = virtual_devices(2);
    const Plan plan = two_blocks(machine);
    const auto backend = backend_of(machine, {});
    try {
      for (;; started = true) HostTrial<double>(kSquare, 11).run(plan, *backend);
    } catch (const Error&) {  // a run that began after the exit
      for (;;) pause();
    }
  }).detach();
  while (!started) std::this_thread::yield();
  std::exit(7);
}

TEST(ProcessExit, EndsDuringARun) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the test leaves a thread detached on purpose";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (int round = 0; round < test::scaled(5); ++round)
    EXPECT_EXIT(exit_during_a_run(), testing::ExitedWithCode(7), "");
}

// Exit handlers run in reverse order: this one is installed first, so it runs after the CPU BLAS
// has been closed to other threads.
void multiply_after_the_end() {
  const Machine machine = virtual_devices(2);
  const auto backend = backend_of(machine, {});
  HostTrial<double> trial(kSquare, 12);
  const bool refused =
      status_of([&] { trial.run(two_blocks(machine), *backend); }) == Status::device_failed;
  double a = 2, b = 3, c = 0;
  const CpuBlas::Lease lease(*shared_cpu_blas(), 2);
  shared_cpu_blas()->gemm(
      {.alpha = 1.0, .beta = 0.0, .a = {&a, 1, 1, 1}, .b = {&b, 1, 1, 1}, .c = {&c, 1, 1, 1}});
  _exit(refused && c == 6 ? 0 : 1);
}

void exit_with_a_late_call() {
  alarm(20);
  static const std::shared_ptr<CpuBlas>* kept;  // outlives the handlers
  std::atexit(multiply_after_the_end);
  kept = new std::shared_ptr<CpuBlas>(shared_cpu_blas());
  std::exit((*kept)->name() == "built-in loop" ? 0 : 2);
}

TEST(ProcessExit, LeavesTheCpuToCallsOfExitHandlers) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(exit_with_a_late_call(), testing::ExitedWithCode(0), "");
}

// Runs in a new process, whose C library has no cached thread stacks.
void run_without_threads() {
  alarm(20);
  const Machine machine = virtual_devices(2);
  const Plan plan = two_blocks(machine);
  const auto backend = backend_of(machine, {});
  HostTrial<double> trial(kSquare, 10);
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  // Enough address space for the test's own allocations, but not for a stack.
  const rlim_t room = pages * static_cast<rlim_t>(getpagesize()) + (700 << 10);
  const rlimit tight{.rlim_cur = room, .rlim_max = RLIM_INFINITY};
  if (setrlimit(RLIMIT_AS, &tight) != 0) _exit(1);
  const bool right = trial.run(plan, *backend).status == Status::ok && trial.verdict().empty();
  int workers = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(entry.path() / "comm"), name);
    workers += name.starts_with("fleet-");
  }
  _exit(right && workers == 0 ? 0 : 2);
}

TEST(NoThreads, AreReplacedByTheCaller) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers reserve terabytes of address space";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(run_without_threads(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace fleet
