// SPDX-License-Identifier: BSD-3-Clause
// exit_guard.cpp: counts the threads inside, and waits for them at exit. It must not know their
// work.
#include "base/exit_guard.hpp"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace fleet {
namespace {

constexpr auto kLongestWait = std::chrono::seconds(2);

std::atomic<int> inside{0};
std::atomic<bool> exit_begun{false};
std::atomic<pid_t> installed_in{0};
std::atomic<std::thread::id> exiting_thread{};
thread_local int depth = 0;  ///< guards of this thread

void wait_for_those_inside() {
  exiting_thread = std::this_thread::get_id();
  exit_begun = true;
  if (installed_in != getpid()) return;  // a forked child does not have the threads counted here
  // One deadline for all installed handlers.
  static const auto limit = std::chrono::steady_clock::now() + kLongestWait;
  while (inside > 0 && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

ExitGuard::ExitGuard() {
  ++inside;
  // Exit waits for threads that are already inside, so they must be able to finish.
  if (depth++ > 0 || !exit_begun || exiting_thread.load() == std::this_thread::get_id()) return;
  --inside;
  for (;;) pause();
}

ExitGuard::~ExitGuard() {
  --depth;
  --inside;
}

void ExitGuard::install() {
  pid_t none = 0;
  if (installed_in.compare_exchange_strong(none, getpid())) install_again();
}

void ExitGuard::install_again() { std::atexit(wait_for_those_inside); }

bool ExitGuard::exiting() { return exit_begun; }

}  // namespace fleet
