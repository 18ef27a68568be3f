// SPDX-License-Identifier: BSD-3-Clause
// test_fork_steps.cpp: a fork between any two atomic instructions of a call in another thread.
// Single-stepping the processor makes each such fork certain. It knows nothing below the C API.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "fleetblas/fleetblas.h"
#include "support/processes.hpp"

namespace fleet {
namespace {

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

using test::child_succeeds;
using test::Ended;
using test::run_program;

/// The state of the thread whose call is single-stepped.
enum Stage {
  walking,
  before,  ///< held before the atomic instruction of this round
  passing,
  after,  ///< held after it
  gone,   ///< runs without steps to the end of the call
};
std::atomic<Stage> stage{gone};
std::atomic<int> instructions_to_go{0};

constexpr greg_t kSingleStep = 0x100;        // TF of the flags
constexpr unsigned char kLockPrefix = 0xf0;  // of atomic instructions
/// A held thread may own a lock that the fork needs, so it is held only briefly.
constexpr auto kLongestHold = std::chrono::milliseconds(200);

bool comes_to(Stage wanted) {
  const auto limit = std::chrono::steady_clock::now() + kLongestHold;
  while (stage != wanted && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  return stage == wanted;
}

/// The signal handler after each step. It calls nothing that takes a lock.
void on_step(int, siginfo_t*, void* context) {
  greg_t* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  if (stage == walking) {
    const auto* next = reinterpret_cast<const unsigned char*>(registers[REG_RIP]);
    if (*next != kLockPrefix || --instructions_to_go > 0) return;
    stage = before;
    if (comes_to(passing)) return;
  } else {
    stage = after;
    comes_to(gone);
  }
  stage = gone;
  registers[REG_EFL] &= ~kSingleStep;
}

/// Called in a fork after the library's prepare handler, which was installed later.
void between_preparations_and_fork() {
  Stage expected = before;
  if (stage.compare_exchange_strong(expected, passing)) comes_to(after);
}

bool multiply() {
  const double a = 3, b = 4;
  double c = 1;
  return fleet_dgemm(nullptr, FLEET_NO_TRANS, FLEET_NO_TRANS, 1, 1, 1, 1.0, &a, 1, &b, 1, 2.0, &c,
                     1) == FLEET_OK &&
         c == 14;
}

[[gnu::noinline]] void step_from_now_on() {
  asm volatile(
      "lea -128(%%rsp), %%rsp\n pushfq\n orq $0x100, (%%rsp)\n popfq\n lea 128(%%rsp), %%rsp" ::
          : "memory", "cc");
}

/// Forks while a call in another thread is about to execute its `instruction`-th atomic
/// instruction, and lets that execute before the process is copied. False if the call has fewer.
bool fork_at(int instruction, bool& survived) {
  instructions_to_go = instruction;
  stage = walking;
  std::thread caller([] {
    step_from_now_on();
    multiply();
    stage = gone;
  });
  while (stage == walking) std::this_thread::yield();
  const bool held = stage != gone;
  if (held) survived = child_succeeds([] { return child_succeeds([] { return multiply(); }); });
  stage = gone;
  caller.join();
  return held;
}

TEST(AFork, AtAnyStepOfACallLeavesAChildWhoseOwnForksEnd) {
  const Ended ended = run_program(
      [] {
        pthread_atfork(between_preparations_and_fork, nullptr, nullptr);
        struct sigaction action {};
        action.sa_sigaction = on_step;
        action.sa_flags = SA_SIGINFO;
        sigaction(SIGTRAP, &action, nullptr);
        if (!multiply()) return 1;
        bool survived = true;
        int instructions = 0;
        while (survived && fork_at(instructions + 1, survived)) ++instructions;
        std::fprintf(stderr, "%d instructions\n", instructions);
        return !survived ? 2 : instructions > 0 ? 7 : 3;
      },
      120);
  EXPECT_EQ(ended.code, 7) << ended.output;
}

#else

TEST(AFork, AtAnyStepOfACallLeavesAChildWhoseOwnForksEnd) {
  GTEST_SKIP() << "single-stepping needs x86-64 without sanitizers";
}

#endif

}  // namespace
}  // namespace fleet
