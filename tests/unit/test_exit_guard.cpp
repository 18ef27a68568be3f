// SPDX-License-Identifier: BSD-3-Clause
// test_exit_guard.cpp: at exit, threads inside a library finish, and others stay outside.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/exit_guard.hpp"

namespace fleet {
namespace {

using std::chrono::milliseconds;

constexpr int kRight = 40, kCutOff = 41, kLetIn = 42;

std::atomic<bool> is_inside{false}, is_done{false}, got_in{false};

/// Runs after the handler that waits, as exit handlers of a library would.
void judge() { std::_Exit(got_in ? kLetIn : is_done ? kRight : kCutOff); }

/// Works inside until long after exit() has begun and nests a guard then; afterwards it tries to
/// enter again.
void work_inside() {
  {
    const ExitGuard outer;
    is_inside = true;
    while (!ExitGuard::exiting()) std::this_thread::sleep_for(milliseconds(1));
    std::this_thread::sleep_for(milliseconds(100));
    const ExitGuard inner;
    is_done = true;
  }
  const ExitGuard again;
  got_in = true;
}

[[noreturn]] void leave_while_one_is_inside(bool installed_again) {
  std::atexit(judge);
  ExitGuard::install();
  if (installed_again) ExitGuard::install_again();
  std::thread(work_inside).detach();
  while (!is_inside) std::this_thread::sleep_for(milliseconds(1));
  std::exit(0);
}

TEST(ExitGuardDeathTest, LetsThoseInsideGetToTheirEndAndNobodyElseIn) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(leave_while_one_is_inside(false), testing::ExitedWithCode(kRight), "");
  EXPECT_EXIT(leave_while_one_is_inside(true), testing::ExitedWithCode(kRight), "");
}

[[noreturn]] void leave_while_one_never_ends() {
  std::atexit(judge);
  ExitGuard::install();
  for (int again = 0; again < 3; ++again) ExitGuard::install_again();
  std::thread([] {
    const ExitGuard guard;
    is_inside = true;
    for (;;) std::this_thread::sleep_for(milliseconds(100));
  }).detach();
  while (!is_inside) std::this_thread::sleep_for(milliseconds(1));
  std::exit(0);
}

TEST(ExitGuardDeathTest, WaitsTwoSecondsAtMostHoweverOftenItIsInstalled) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EXIT(leave_while_one_never_ends(), testing::ExitedWithCode(kCutOff), "");
  EXPECT_LT(std::chrono::steady_clock::now() - began, milliseconds(5000));
}

}  // namespace
}  // namespace fleet
